"""Device memory that processes share: handles that are sent, and arrays that are opened by them."""

import ctypes
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, SupportsIndex

import numpy as np

from haulage.backends.base import DEVICE
from haulage.checks import whole_number
from haulage.errors import DeviceError, DeviceMismatch, Unsupported, noted
from haulage.interruption import on_error
from haulage.runtime import memory
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.buffers.span import Span
from haulage.runtime.buffers.strided import Strided
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import current_device, find
from haulage.runtime.devices.stream_arguments import StreamLike
from haulage.runtime.geometry import dtypes, layout
from haulage.runtime.memory import Block

__all__ = ["IpcArrayHandle", "IpcHandle", "get_ipc_handle", "get_memory_handle", "open_ipc_array"]

# What drivers answer about memory that they have no handle for: it is no argument for that, has no
# handle, or is none of their allocations.
_NO_HANDLE = (1, 400, 500)

# Memory that was opened by a handle: who exported it gives handles of it.
opened: "weakref.WeakSet[Block]" = weakref.WeakSet()


class IpcHandle:
    """Where some device memory is, for other processes; it can be pickled, `bytes(h)` is `handle`.

    Plug-ins make them with the parameters of numba's class. Where `base` is None, the process that
    made it must keep the memory alive.

    Args:
        base: the memory, which is kept alive by the handle in this process; or None.
        handle: the driver's bytes for the whole allocation; empty if there are no bytes to share.
        size: bytes that are meant.
        source_info: what `get_device_identity()` of the device gives, or its name, as 'cpu:0';
            None: the current device.
        offset: of the first byte in the allocation.

    Attributes:
        base, handle, size, offset: as given, `handle` as bytes.
        device: name of the device, as 'cpu:0'.

    Raises:
        TypeError: `handle` is no bytes, or `size` or `offset` no whole number.
        ValueError: `size` or `offset` is negative.
        DeviceNotFound: this process has no such device.
    """

    def __init__(
        self,
        base: Any,
        handle: Any,
        size: int,
        source_info: dict[str, str] | str | None = None,
        offset: int = 0,
    ) -> None:
        if source_info is None:
            source_info = str(current_device())
        elif not isinstance(source_info, str):
            source_info = str(Device.from_identity(source_info))
        self.base = base
        self.handle = _bytes_of(getattr(handle, "reserved", handle))
        self.size = _count("size", size)
        self.offset = _count("offset", offset)
        self.device = source_info
        self._opened: list[Block] = []

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IpcHandle):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        return (
            f"IpcHandle(handle={self.handle!r}, size={self.size}, offset={self.offset}, "
            f"device={self.device!r})"
        )

    def _identity(self) -> tuple[bytes, int, str, int]:
        return self.handle, self.size, self.device, self.offset

    def __bytes__(self) -> bytes:
        return self.handle

    def open(self, context: Any = None) -> Span:
        """The memory itself, which can be the `gpu_data` of a `DeviceNDArray`, until `close()`.

        Args:
            context: the `Context` of the handle's device, or None for that.

        Raises:
            ValueError: this handle is open already, the context is of another device, or the
                memory that was exported ends before the handle's does.
            DeviceError: the memory is gone, or out of this process's reach.
            DeviceNotFound: this process has no such device.
        """
        if self._opened:
            raise noted(
                ValueError("IpcHandle is already opened"), "close() it first, or use another one"
            )
        device = find(self.device, "the IPC handle's device")
        if context is not None and _device_of(context) is not device:
            raise DeviceMismatch(f"memory of {device} cannot be opened in {context!r}")
        block = _open(device, self.handle)
        if self.offset + self.size > block.nbytes:
            block.close()
            raise ValueError(
                f"IpcHandle of {self.size} bytes at offset {self.offset}: the memory that was "
                f"exported has {block.nbytes}"
            )
        self._opened.append(block)
        return Span(block, block.device_ptr + self.offset, self.size)

    open_direct = open

    def open_staged(self, context: Any) -> Span:
        """A copy of the memory on another device, by way of the host, until `close()`.

        Args:
            context: the `Context` of the device to copy to.

        Raises:
            ValueError, DeviceError, DeviceNotFound: as for `open`.
        """
        _device_of(context)
        source = self.open()
        try:
            host = DeviceNDArray(self.size, 1, np.uint8, gpu_data=source).copy_to_host()
        finally:
            self.close()
        block = memory.allocate(context.device, self.size)
        copy = Span(block, block.device_ptr, self.size)
        DeviceNDArray(self.size, 1, np.uint8, gpu_data=copy).copy_to_device(host)
        self._opened.append(block)
        return copy

    def can_access_peer(self, context: Any) -> bool:
        """Whether the device of `context` reaches the memory, so that `open` will do."""
        own = find(self.device, "the IPC handle's device")
        return own is _device_of(context) or context.can_access_peer(own.id)

    def open_array(
        self,
        context: Any,
        shape: SupportsIndex | Sequence[SupportsIndex],
        dtype: Any,
        strides: SupportsIndex | Sequence[SupportsIndex] | None = None,
    ) -> DeviceNDArray:
        """The memory as an array until `close()`; its elements begin where the memory begins.

        Args:
            context: as for `open`.
            shape: a number or a tuple of numbers.
            dtype: of the elements.
            strides: in bytes; None: in C order without gaps.

        Raises:
            ValueError: as for `open`; or such an array takes more memory. Nothing is open then.
        """
        kind = dtypes.check_dtype(dtype)
        sizes = layout.normalise_shape(shape)
        steps = layout.c_strides(sizes, kind.itemsize) if strides is None else strides
        return self._array(context, sizes, steps, kind, 0)

    def _array(
        self, context: Any, shape: Any, strides: Any, dtype: np.dtype, stream: StreamLike
    ) -> DeviceNDArray:
        span = self.open(context)
        with on_error(self.close):
            return DeviceNDArray(shape, strides, dtype, stream, span)

    def close(self) -> None:
        """Let go of the memory; any later use of what was opened is a ValueError.

        Raises:
            ValueError: it is not open.
        """
        if not self._opened:
            raise noted(ValueError("IpcHandle not opened"), "open() it before close()")
        self._opened.pop().close()

    def __reduce__(self) -> Any:
        # That it is open here does not go along, nor what it keeps.
        return type(self), (None, *self._identity())


class IpcArrayHandle:
    """A device array of one process, to be opened by others: what `get_ipc_handle` gives.

    It can be pickled, also by `multiprocessing`. As a context manager it opens and closes:

        with handle as array: ...

    Attributes:
        handle: the `IpcHandle` of the memory.
        shape, strides, dtype: those of the array; strides in bytes.
        readonly: whether the opened array is read-only, as the exported one is.
    """

    def __init__(
        self,
        handle: IpcHandle,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: np.dtype,
        readonly: bool = False,
    ) -> None:
        self.handle = handle
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.readonly = readonly

    @property
    def _ipc_handle(self) -> IpcHandle:
        # By which numba's programs reach it.
        return self.handle

    def open(self, stream: StreamLike = 0) -> DeviceNDArray:
        """The array over the exporter's own memory, bound to `stream`.

        Raises:
            ValueError: this handle is open already.
            DeviceError: the memory is gone, or out of this process's reach.
            DeviceNotFound: this process has no such device.
        """
        array = self.handle._array(None, self.shape, self.strides, self.dtype, stream)
        array.readonly = self.readonly
        return array

    def close(self) -> None:
        """Let go of the memory; any later use of arrays that were opened is a ValueError.

        Raises:
            ValueError: it is not open.
        """
        self.handle.close()

    def __enter__(self) -> DeviceNDArray:
        return self.open()

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def __reduce__(self) -> Any:
        # That it is open here does not go along.
        described = (self.handle, self.shape, self.strides, self.dtype, self.readonly)
        return type(self), described

    def __repr__(self) -> str:
        state = "open" if self.handle._opened else "not open"
        return (
            f"<IpcArrayHandle shape={self.shape} dtype={self.dtype} on {self.handle.device}, "
            f"{state}>"
        )


def get_ipc_handle(array: Strided) -> IpcArrayHandle:
    """A handle by which other processes of this machine and user open the array's own memory.

    The memory is shared, not copied: each process sees what the others wrote once they and it have
    synchronised. This process must keep the array alive until the others have opened it (and, for
    the array to keep its memory to itself afterwards, until they have closed it). The first export
    of some memory waits for all work of the device; other threads must not write to it meanwhile
    through host views (`np.from_dlpack`). Processes that are forked have copies of their own.

    Memory that another library has allocated is shared by a handle of the driver's own, where the
    driver has one for it (NVIDIA's, and memory of cudaMalloc); only other processes can open that.

    Raises:
        ValueError: the array is closed, or stands on memory that cannot be shared.
        Unsupported: the device or the system cannot do it.
        OutOfMemory: there is no room for it.
    """
    low, high = layout.extent(array.shape, array.strides, array.dtype.itemsize)
    handle = _export(array.block, array.device_pointer + low, high - low)
    return IpcArrayHandle(handle, array.shape, array.strides, array.dtype, array.readonly)


def get_memory_handle(gpu_data: Block | Span) -> IpcHandle:
    """`get_ipc_handle` for memory alone, as `DeviceNDArray.gpu_data`; see there."""
    if isinstance(gpu_data, Block):
        return _export(gpu_data, gpu_data.device_ptr, gpu_data.nbytes)
    if isinstance(gpu_data, Span):
        return _export(gpu_data.block, gpu_data.device_pointer, gpu_data.size)
    raise TypeError(f"get_ipc_handle of {gpu_data!r}: expected memory of a device array, gpu_data")


@contextmanager
def open_ipc_array(
    handle: Any,
    shape: SupportsIndex | Sequence[SupportsIndex],
    dtype: Any,
    strides: SupportsIndex | Sequence[SupportsIndex] | None = None,
    offset: SupportsIndex = 0,
) -> Iterator[DeviceNDArray]:
    """`with open_ipc_array(handle, shape, dtype) as array:` another process's memory as an array.

    At the end of the `with` it is closed, also when the body raises.

    Args:
        handle: the bytes of an `IpcHandle` (bytes or a sequence of ints), which stand for a whole
            allocation of the current device; or the `IpcHandle` itself, whose offset is added, as
            is that of an `IpcArrayHandle`.
        shape: a number or a tuple of numbers.
        dtype: of the elements.
        strides: bytes from one element to the next, for each axis; None: in C order without gaps.
        offset: bytes from the start of the memory to the lowest byte of the array.

    Raises:
        ValueError: no handle, or the memory is smaller than such an array.
        DeviceError: the memory is gone, or out of this process's reach.
    """
    kind = dtypes.check_dtype(dtype)
    sizes = layout.normalise_shape(shape)
    steps = layout.c_strides(sizes, kind.itemsize) if strides is None else strides
    start = _count("offset", offset)
    if isinstance(handle, IpcArrayHandle):
        handle = handle.handle
    if isinstance(handle, IpcHandle):
        block = _open(find(handle.device, "the IPC handle's device"), handle.handle)
        start += handle.offset
    else:
        block = _open(current_device(), _bytes_of(handle))
    try:
        if start > block.nbytes:
            raise ValueError(f"offset {start}: the memory that was exported has {block.nbytes}")
        span = Span(block, block.device_ptr + start, block.nbytes - start)
        yield DeviceNDArray(sizes, steps, kind, 0, span)
    finally:
        block.close()


def open_memory(device: Device, handle: Any) -> Span:
    """The memory of another process, by the bytes of its handle, as long as the last reference.

    Raises:
        DeviceError: the memory is gone, or out of this process's reach.
    """
    block = _open(device, _bytes_of(handle))
    return Span(block, block.device_ptr, block.nbytes)


def export(block: Block, pointer: int, size: int) -> IpcHandle:
    """`get_ipc_handle` of `size` bytes at `pointer`, of memory that the device's driver gave."""
    device = block.device
    if size == 0:
        return IpcHandle(None, b"", 0, str(device))
    device.activate()
    handle = device.backend.ipc_export(block.device_ptr, block.nbytes, *block.unit)
    block.exported = True
    return IpcHandle(None, handle, size, str(device), pointer - block.device_ptr)


def _export(block: Block, pointer: int, size: int) -> IpcHandle:
    block.use()
    device = block.device
    provider = memory.provider()
    if provider is not None:
        given: IpcHandle | None = provider.export(block, pointer, size)
        if given is not None:
            return given
    if size and block in opened:
        raise _not_shared("memory of another owner", device)
    if size and block.of_others:
        return _export_of_others(device, pointer, size)
    if size and block.kind != DEVICE:
        raise _not_shared(f"{block.kind} memory", device)
    return export(block, pointer, size)


def _export_of_others(device: Device, pointer: int, size: int) -> IpcHandle:
    own = memory.holding(device, pointer, size)
    if own is not None and own.kind == DEVICE:
        return export(own, pointer, size)
    device.activate()
    try:
        handle, start = device.backend.ipc_export_of_others(pointer)
    except DeviceError as error:
        if error.code not in _NO_HANDLE and not isinstance(error, Unsupported):
            raise
        raise _not_shared("memory of another owner", device) from error
    return IpcHandle(None, handle, size, str(device), pointer - start)


def _not_shared(what: str, device: Device) -> ValueError:
    return ValueError(
        f"get_ipc_handle: the array stands on {what}, and only memory that {device} has "
        "allocated for it can be shared; copy the array with to_device first"
    )


def _open(device: Device, handle: bytes) -> Block:
    if not handle:
        return memory.allocate(device, 0)
    device.activate()
    backend = device.backend
    pointer, nbytes = backend.ipc_import(handle)
    host = pointer if device.properties.host_memory_is_device_memory else 0
    block = memory.adopt(device, pointer, host, nbytes, partial(_close, device, pointer))
    opened.add(block)
    return block


def _close(device: Device, pointer: int) -> None:
    device.activate()
    device.backend.ipc_close(pointer)


def _device_of(context: Any) -> Device:
    device = getattr(context, "device", None)
    if not (isinstance(device, Device) and hasattr(context, "can_access_peer")):
        raise TypeError(f"context {context!r}: expected a Context, as current_context()")
    return device


def _count(name: str, given: SupportsIndex) -> int:
    return whole_number(given, f"IPC handle: bytes of {name}", 0)


def _bytes_of(handle: Any) -> bytes:
    if isinstance(handle, (bytes, bytearray, memoryview, ctypes.Array)):
        return bytes(handle)
    try:
        return bytes(tuple(handle))
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"handle {handle!r}: expected an IpcHandle, its bytes or a sequence of ints 0 to 255"
        ) from error
