"""Copies of bytes between host and device, as `numba.cuda.cudadrv.driver` has them.

The host's side is a NumPy array, anything with a buffer, or an address; the device's side an array,
a record or memory of the device. Copies with stream 0 are done when the call returns; in a stream
they are done then as well unless the host's memory is pinned.
"""

import ctypes
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from haulage.api import DeviceNDArray
from haulage.runtime import memory
from haulage.runtime.arrays import layout, transfer
from haulage.runtime.arrays.address import address_of
from haulage.runtime.arrays.strided import Span
from haulage.runtime.stream_arguments import StreamLike

_BYTE = np.dtype(np.uint8)


def host_to_device(dst: Any, src: Any, size: int, stream: StreamLike = 0) -> None:
    """Copy `size` bytes from the host's memory `src` to the device's `dst`."""
    _device_bytes(dst, size).copy_to_device(_host_bytes(src, size), stream)


def device_to_host(dst: Any, src: Any, size: int, stream: StreamLike = 0) -> None:
    """Copy `size` bytes from the device's memory `src` to the host's `dst`."""
    _device_bytes(src, size).copy_to_host(_host_bytes(dst, size, writeable=True), stream)


def device_to_device(dst: Any, src: Any, size: int, stream: StreamLike = 0) -> None:
    """Copy `size` bytes on the device."""
    _device_bytes(dst, size).copy_to_device(_device_bytes(src, size), stream)


def device_memset(dst: Any, val: int, size: int, stream: StreamLike = 0) -> None:
    """Set the first `size` bytes of the device's memory `dst` to `val`, 0 to 255."""
    _memory(dst).memset(val, size, stream)


# ---- what memory is ---------------------------------------------------------------------------


def is_device_memory(obj: Any) -> bool:
    """Whether `obj` is an array, a record or memory of a device."""
    return bool(getattr(obj, "__cuda_memory__", False))


def require_device_memory(obj: Any) -> None:
    """TypeError unless `is_device_memory(obj)`."""
    if not is_device_memory(obj):
        raise TypeError(f"Not a CUDA memory object: {type(obj).__name__}; expected a device array")


def device_ctypes_pointer(obj: Any) -> Any:
    """The device's address of the first element, as a ctypes integer; 0 for None."""
    if obj is None:
        return ctypes.c_void_p(0)
    require_device_memory(obj)
    return obj.device_ctypes_pointer


def device_pointer(obj: Any) -> int:
    """The device's address of the first element."""
    return int(device_ctypes_pointer(obj).value or 0)


def device_extents(devmem: Any) -> tuple[int, int]:
    """(start, end): addresses of the whole allocation that `devmem` is a part of.

    Of memory that a plug-in cut out of one of the driver's allocations, those of the latter.
    """
    part = _memory(devmem)
    block = memory.holding(part.block.device, part.device_pointer, part.size) or part.block
    return block.device_ptr, block.device_ptr + block.nbytes


def device_memory_size(devmem: Any) -> int:
    """Bytes that an array, a record or memory of a device takes."""
    return _memory(devmem).size


def device_memory_depends(devmem: Any, *objs: Any) -> None:
    """Keep `objs` alive as long as the memory of `devmem`."""
    block = _memory(devmem).block
    _kept.setdefault(block.generation, []).extend(objs)
    weakref.finalize(block, _kept.pop, block.generation, None)


def host_pointer(obj: Any, readonly: bool = False) -> int:
    """The address of the host's memory of `obj`: its lowest byte.

    Args:
        obj: an array, a record, a buffer, or an address, which is given back.
        readonly: read-only memory is good too.

    Raises:
        ValueError: the memory is read-only.
    """
    if isinstance(obj, int):
        return obj
    array = _host_array(obj)
    if not readonly and not array.flags.writeable and not isinstance(obj, np.void):
        raise ValueError("the host's memory is read-only; expected memory that can be written to")
    return host_memory_extents(array)[0]


def host_memory_extents(obj: Any) -> tuple[int, int]:
    """(start, end): addresses of the host's memory that `obj` takes."""
    array = _host_array(obj)
    low, high = layout.extent(array.shape, array.strides, array.itemsize)
    start = address_of(array)
    return start + low, start + high


def host_memory_size(obj: Any) -> int:
    """Bytes of the host's memory that `obj` takes."""
    start, end = host_memory_extents(obj)
    return end - start


def memory_size_from_info(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> int:
    """Bytes that an array takes; strides in bytes.

    Raises:
        ValueError: there are not as many strides as axes.
    """
    low, high = layout.extent(shape, layout.normalise_strides(strides, shape), itemsize)
    return high - low


_kept: dict[int, list[Any]] = {}


def _memory(obj: Any) -> Span:
    require_device_memory(obj)
    memory: Span = obj if isinstance(obj, Span) else obj.gpu_data
    return memory


def _device_bytes(obj: Any, size: int) -> DeviceNDArray:
    return DeviceNDArray(size, 1, _BYTE, gpu_data=_memory(obj).view(0, size))


def _host_bytes(obj: Any, size: int, writeable: bool = False) -> np.ndarray:
    """`size` bytes of the host's memory, from its lowest byte on."""
    if not isinstance(obj, int) and size > host_memory_size(obj):
        raise ValueError(f"{size} bytes: the host's memory has {host_memory_size(obj)}")
    address = host_pointer(obj, readonly=not writeable)
    if not size:
        return np.empty(0, _BYTE)
    # Memory of a pinned array stays known as such: by its base.
    block = None if isinstance(obj, int) else transfer.block_of(_host_array(obj))
    if block is not None:
        start = address - block.host_ptr
        return transfer.host_bytes(block)[start : start + size]
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))


def _host_array(obj: Any) -> np.ndarray:
    if isinstance(obj, np.ndarray):
        return obj
    if isinstance(obj, np.void):
        return np.asarray(obj)
    if hasattr(obj, "__array_interface__"):
        return np.asarray(obj)
    buffer = memoryview(obj)
    return np.frombuffer(buffer, _BYTE) if buffer.nbytes else np.empty(0, _BYTE)
