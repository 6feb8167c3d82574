"""NumPy arrays in memory that host and device both address: mapped and managed arrays."""

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self, SupportsIndex

import numpy as np

from haulage._core.arrays import keep_binding, know_host_visible
from haulage.backends.base import (
    ADVICE,
    ATTACH_HOST,
    COHERENT,
    MANAGED,
    MAPPED,
    NON_COHERENT,
    PORTABLE,
    WRITE_COMBINED,
)
from haulage.checks import one_of
from haulage.runtime import memory
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.arrays.copying import DeviceNDArrayBase
from haulage.runtime.buffers import pinned_memory
from haulage.runtime.buffers.span import Span, block_of_gpu_data
from haulage.runtime.devices.device import Device, check_device
from haulage.runtime.devices.registry import current_device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.devices.stream_arguments import StreamLike, device_of, is_foreign, resolve
from haulage.runtime.geometry import dtypes, layout
from haulage.runtime.geometry.numpy_arrays import address_of
from haulage.runtime.memory import Block
from haulage.runtime.protocols import dlpack

_FLAGS = {
    "portable": PORTABLE,
    "wc": WRITE_COMBINED,
    "attach_host": ATTACH_HOST,
    "coherent": COHERENT,
    "non_coherent": NON_COHERENT,
}


class HostVisibleNDArray(np.ndarray):
    """A NumPy array whose memory kernels and copies of a device reach as well.

    The host sees what a kernel wrote once the kernel's stream is synchronised. Slices, reshapes
    and other views stay what they are; copies (`a.copy()`, `a + 1`) are plain NumPy arrays.

    Args:
        shape: a number or a tuple of numbers.
        strides: bytes from one element to the next, for each axis.
        dtype: anything that `numpy.dtype` takes, without Python objects.
        stream: the stream that its copies use where they are given none.
        gpu_data: memory to stand on, a `Span` or `Block` that the host can address; None
            allocates it, not initialised.
        writeback: as for `DeviceNDArray`.
        device: where to allocate; by default the stream's device or the current one.
        hints: names of what is asked of new memory: 'portable', 'wc' and so on.
    """

    kind: ClassVar[str]

    def __new__(
        cls,
        shape: SupportsIndex | Sequence[SupportsIndex],
        strides: SupportsIndex | Sequence[SupportsIndex],
        dtype: Any,
        stream: StreamLike = 0,
        gpu_data: Block | Span | None = None,
        writeback: Any = None,
        *,
        device: Device | None = None,
        hints: Sequence[str] = (),
    ) -> Self:
        sizes = layout.normalise_shape(shape)
        steps = layout.normalise_strides(strides, sizes)
        element = dtypes.check_dtype(dtype)
        low, high = layout.extent(sizes, steps, element.itemsize)
        given = block_of_gpu_data(gpu_data, writeback)
        if given is None:
            if device is not None:
                check_device(device, cls.__name__)
            place = device or device_of(stream) or current_device()
            bound = resolve(stream, place)
            if isinstance(hints, str) or not isinstance(hints, Sequence):
                raise TypeError(f"hints {hints!r}: expected a sequence of names")
            flags = sum(_FLAGS[one_of(hint, "hint", _FLAGS)] for hint in hints)
            block = memory.allocate(place, high - low, cls.kind, flags)
            start = 0
        else:
            block, pointer, room = given
            bound = resolve(stream, block.device)
            if block.nbytes and not block.host_ptr:
                raise ValueError(f"{block!r} cannot be addressed by the host; a {cls.__name__} can")
            if high - low > room:
                raise ValueError(
                    f"an array of shape {sizes} and dtype {element} takes {high - low} bytes, "
                    f"the memory given has {room}"
                )
            start = pointer - block.device_ptr
        made = super().__new__(
            cls, sizes, element, pinned_memory.buffer_of(block), start - low, steps
        )
        made._stream = bound if bound.handle else 0
        made._hints = tuple(hints)
        return made

    _stream: Stream | int = 0
    _hints: tuple[str, ...] = ()

    __array_finalize__ = keep_binding

    def __array_wrap__(
        self, array: np.ndarray, context: Any = None, return_scalar: bool = False
    ) -> Any:
        if array is self:
            return self
        if pinned_memory.block_of(array) is not None:  # some views come by here, as of `squeeze`
            view = array.view(type(self))
            view.__array_finalize__(self)
            return view
        plain = np.asarray(array)
        return plain[()] if return_scalar or not plain.shape else plain

    # By which numba's programs tell arrays of the device.
    @property
    def __cuda_memory__(self) -> bool:
        return pinned_memory.block_of(self) is not None

    @property
    def __cuda_ndarray__(self) -> bool:
        return pinned_memory.block_of(self) is not None

    @property
    def __hsa_memory__(self) -> bool:
        return pinned_memory.block_of(self) is not None

    # ---- what it stands on ----------------------------------------------------------------------

    @property
    def block(self) -> Block:
        """The block of memory that it stands on.

        Raises:
            ValueError: it is a copy in ordinary memory, as some NumPy functions make.
        """
        block = pinned_memory.block_of(self)
        if block is None:
            raise ValueError(
                f"this array of type {type(self).__name__} is a copy in ordinary host memory, "
                f"which the device does not reach; use the {self.kind} array itself"
            )
        return block

    @property
    def device(self) -> Device:  # type: ignore[override]
        """The device that reaches its memory."""
        return self.block.device

    @property
    def stream(self) -> Stream | int:
        """The stream that it is bound to, or 0."""
        return self._stream

    @property
    def hints(self) -> tuple[str, ...]:
        """What was asked of its memory, such as 'wc'; not all devices have a use for it."""
        return self._hints

    @property
    def device_pointer(self) -> int:
        """The device's address of the element (0, ..., 0)."""
        block = self.block
        return block.device_ptr + address_of(self) - block.host_ptr if block.nbytes else 0

    @property
    def device_ctypes_pointer(self) -> ctypes.c_size_t:
        """The device's address of the element (0, ..., 0), as a ctypes integer."""
        return ctypes.c_size_t(self.device_pointer)

    @property
    def gpu_data(self) -> Span:
        """The memory that it stands on."""
        return self.device_view().gpu_data

    @property
    def alloc_size(self) -> int:
        """Bytes from the first to the last byte that the elements take."""
        low, high = layout.extent(self.shape, self.strides, self.itemsize)
        return high - low

    def device_view(self) -> DeviceNDArray:
        """The same elements as a device array over the same memory.

        Raises:
            ValueError: the array is closed.
        """
        block = self.block
        block.use()
        view = DeviceNDArray.__new__(DeviceNDArray)
        view._set(
            block,
            self.device_pointer,
            self.shape,
            self.strides,
            self.dtype,
            self._stream,
            not self.flags.writeable,
        )
        return view

    def __dlpack__(self, *, dl_device: tuple[int, int] | None = None, **options: Any) -> Any:
        """As NumPy's, once the work that uses the array is done; asked for on a device, as that of
        `device_view()`.

        Raises:
            KernelError: threads of a kernel that was waited for had failed.
        """
        block = pinned_memory.block_of(self)
        if dl_device is not None:
            if block is not None and tuple(dl_device) != dlpack.HOST:
                return self.device_view().__dlpack__(dl_device=dl_device, **options)
            options["dl_device"] = dl_device
        if block is not None:
            block.use()
            for stream in block.users():
                stream.finish()
        return np.asarray(self).__dlpack__(**options)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface of `device_view()`; on NVIDIA's devices only."""
        if pinned_memory.block_of(self) is None:
            raise AttributeError("a copy in ordinary host memory has no __cuda_array_interface__")
        return self.device_view().__cuda_array_interface__

    # ---- copies ---------------------------------------------------------------------------------

    def copy_to_host(self, ary: np.ndarray | None = None, stream: StreamLike = 0) -> np.ndarray:
        """Copy to `ary` or to a new NumPy array; see `DeviceNDArray.copy_to_host`."""
        return self.device_view().copy_to_host(ary, stream)

    def copy_to_device(self, ary: Any, stream: StreamLike = 0, context: Any = None) -> None:
        """Copy a host or device array into this one; see `DeviceNDArray.copy_to_device`."""
        self.device_view().copy_to_device(ary, stream, context)

    def fill(self, value: Any, stream: StreamLike = 0) -> None:
        """Set every element to `value`: in `stream` if one is given or bound, else at once."""
        if isinstance(stream, Stream) or self._stream or is_foreign(stream):
            self.device_view().fill(value, stream)
        else:
            super().fill(value)

    def getitem(self, item: Any, stream: StreamLike = 0) -> Any:
        """`a[item]`; one element is read once the earlier work of `stream` is done."""
        view = self[item]
        if isinstance(view, np.ndarray):
            return view
        return self.device_view().getitem(item, stream)

    def setitem(self, key: Any, value: Any, stream: StreamLike = 0) -> None:
        """`a[key] = value`, in the order of `stream`."""
        self.device_view().setitem(key, value, stream)

    def get_ipc_handle(self) -> Any:
        """ValueError: memory of the host cannot be opened by other processes so."""
        return self.device_view().get_ipc_handle()

    def close(self) -> None:
        """Stop its use by the device; any later one is a ValueError.

        The memory goes when the last NumPy array that stands on it goes.
        """
        self.block.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    # ---- views and copies as NumPy makes them ---------------------------------------------------

    def is_c_contiguous(self) -> bool:
        """Whether the elements lie without gaps in C order."""
        return self.flags.c_contiguous

    def is_f_contiguous(self) -> bool:
        """Whether the elements lie without gaps in Fortran order."""
        return self.flags.f_contiguous

    def bind(self, stream: StreamLike = 0) -> Self:
        """The same array, whose copies use `stream` where they are given none."""
        bound = resolve(stream, self.device)
        view = self.view()
        view._stream = bound if bound.handle else 0
        return view

    def split(self, section: int, stream: StreamLike = 0) -> Iterator[Self]:
        """Views of `section` elements each of an array with one axis; the last can be shorter.

        They are bound to `stream` if one is given.
        """
        starts = layout.sections(self.shape, section)
        whole = self.bind(stream) if isinstance(stream, Stream) else self
        return (whole[start : start + section] for start in starts)

    def ravel(self, order: Any = "C", stream: StreamLike = 0) -> Any:
        """The elements with one axis: a view where they lie so, else a plain copy.

        A view is bound to `stream` if one is given.
        """
        flat = _plain_if_copied(super().ravel(order))
        return flat.bind(stream) if isinstance(stream, Stream) and _is_view(flat) else flat

    def reshape(self, *newshape: Any, order: Any = "C", **options: Any) -> Any:
        """As NumPy's: a view where the elements lie so, else a plain copy."""
        return _plain_if_copied(super().reshape(*newshape, order=order, **options))

    def copy(self, order: Any = "C") -> Any:
        """A plain NumPy array with the same elements."""
        return np.array(self, order=order, subok=False)

    def flatten(self, order: Any = "C") -> Any:
        """A plain NumPy array of one axis with the same elements."""
        return np.asarray(self).flatten(order)

    def astype(self, dtype: Any, *args: Any, **options: Any) -> Any:
        """As NumPy's; a plain array where it is a copy."""
        return _plain_if_copied(super().astype(dtype, *args, **options))

    def __getitem__(self, key: Any) -> Any:
        return _plain_if_copied(super().__getitem__(key))

    def __reduce__(self) -> Any:
        block = pinned_memory.block_of(self)
        if block is None:
            return np.asarray(self).__reduce__()
        for stream in block.users():
            stream.finish()
        # Only elements without gaps are pickled out of band.
        dense = self.flags.c_contiguous or self.flags.f_contiguous
        elements = np.asarray(self) if dense else np.asarray(self).copy()
        return host_array_anew, (
            type(self),
            elements,
            self._hints,
            self.flags.writeable,
            self.dtype,
        )

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Any:
        return self.copy("K")

    def __copy__(self) -> Any:
        return self.copy("K")


know_host_visible(HostVisibleNDArray)


class MappedNDArray(HostVisibleNDArray):
    """A host array whose memory is pinned and mapped to the device."""

    kind = MAPPED


class ManagedNDArray(HostVisibleNDArray):
    """An array in managed memory, which moves to the host or the device that touches it."""

    kind = MANAGED

    def prefetch(self, to_host: bool = False, stream: StreamLike = 0) -> None:
        """Move the memory to the device, or to the host, ahead of its use, in `stream`.

        Where the device's memory is the host's there is nothing to do.
        """
        chosen = resolve(stream or self._stream, self.device)
        self.block.use(chosen)
        self.device.activate()
        place = -1 if to_host else self.device.id
        self.device.backend.prefetch(*self._extent(), place, chosen.handle)

    def advise(self, advice: str, on_host: bool = False) -> None:
        """Tell the driver how the memory will be used, on the device or on the host.

        Args:
            advice: 'set_read_mostly', 'set_preferred_location' or 'set_accessed_by', each also with
                'unset', as CUDA has them. Where the device's memory is the host's there is nothing
                to tell.
            on_host: whether it is about the host.

        Raises:
            ValueError: there is no such advice.
        """
        if advice not in ADVICE:
            raise ValueError(f"advice {advice!r}: expected one of {', '.join(ADVICE)}")
        self.block.use()
        self.device.activate()
        place = -1 if on_host else self.device.id
        self.device.backend.advise(*self._extent(), advice, place)

    def _extent(self) -> tuple[int, int]:
        view = self.device_view()
        low, high = layout.extent(self.shape, self.strides, self.itemsize)
        return view.device_pointer + low, max(high - low, 1)


def device_of_array(value: Any) -> Device | None:
    """The device of a device array or record, or of a mapped or managed array; else None."""
    if isinstance(value, DeviceNDArrayBase):
        return value.device
    # A copy that NumPy made of a mapped array is an ordinary host array.
    if isinstance(value, HostVisibleNDArray) and pinned_memory.block_of(value) is not None:
        return value.device
    return None


def _is_view(value: Any) -> bool:
    return isinstance(value, HostVisibleNDArray) and pinned_memory.block_of(value) is not None


def _plain_if_copied(value: Any) -> Any:
    if isinstance(value, HostVisibleNDArray) and pinned_memory.block_of(value) is None:
        return value.view(np.ndarray)
    return value


def host_array_anew(
    cls: type[HostVisibleNDArray],
    elements: np.ndarray,
    hints: Sequence[str],
    writeable: bool,
    dtype: np.dtype,
) -> HostVisibleNDArray:
    """A mapped or managed array of the current device, from its elements."""
    strides = layout.dense_strides(elements.shape, elements.strides, elements.itemsize)
    # NumPy's pickles can lose a byte order that is not the machine's.
    made = cls(elements.shape, strides, dtype, hints=hints)
    made[...] = elements
    made.flags.writeable = writeable
    return made
