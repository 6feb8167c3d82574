"""Functions on arrays and memory that numba.cuda's and numba.roc's modules of the driver have.

In copies of bytes the host's side is a NumPy array, anything with a buffer, or an address; the
device's side an array, a record or memory of the device. Copies with stream 0 are done when the
call returns; in a stream they are done then as well unless the host's memory is pinned.
"""

import ctypes
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from haulage.api import (
    DeviceNDArray,
    DeviceRecord,
    as_cuda_array,
    current_context,
    is_cuda_array,
    to_device,
)
from haulage.errors import ShapeMismatch
from haulage.runtime import memory
from haulage.runtime.buffers import pinned_memory
from haulage.runtime.buffers.span import Span
from haulage.runtime.devices.stream_arguments import StreamLike
from haulage.runtime.geometry import layout
from haulage.runtime.geometry.numpy_arrays import address_of

_BYTE = np.dtype(np.uint8)

errmsg_contiguous_buffer = (
    "the array has gaps; numba.cuda copies arrays without gaps only, Haulage copies all"
)


def is_cuda_ndarray(obj: Any) -> bool:
    """Whether `obj` is an array or record of a device, or a mapped or managed array."""
    return bool(getattr(obj, "__cuda_ndarray__", False))


def require_cuda_ndarray(obj: Any) -> None:
    """ValueError unless `is_cuda_ndarray(obj)`."""
    if not is_cuda_ndarray(obj):
        raise ValueError(f"{type(obj).__name__} object: require an cuda ndarray object")


def verify_cuda_ndarray_interface(obj: Any) -> None:
    """Check that `obj` has what arrays of a device have.

    Raises:
        ValueError: it is none.
        AttributeError, TypeError: it lacks an attribute, or one is of another type.
    """
    require_cuda_ndarray(obj)
    for name, kind in (("shape", tuple), ("strides", tuple), ("dtype", np.dtype), ("size", int)):
        if not hasattr(obj, name):
            raise AttributeError(f"{type(obj).__name__} object: expected an attribute {name!r}")
        if not isinstance(getattr(obj, name), kind):
            raise TypeError(f"{name} of a {type(obj).__name__}: expected a {kind.__name__}")


def from_array_like(ary: Any, stream: StreamLike = 0, gpu_data: Any = None) -> DeviceNDArray:
    """A device array of the shape, strides and dtype of `ary`, over `gpu_data` or new memory."""
    return DeviceNDArray(ary.shape, ary.strides, ary.dtype, stream, gpu_data)


def from_record_like(rec: Any, stream: StreamLike = 0, gpu_data: Any = None) -> DeviceRecord:
    """A device record of the dtype of `rec`, over `gpu_data` or new memory."""
    return DeviceRecord(rec.dtype, stream, gpu_data)


def array_core(ary: Any) -> Any:
    """The view of `ary` without the repetitions that broadcasting made: at index 0 of such axes."""
    if not ary.strides or not ary.size:
        return ary
    return ary[tuple(0 if stride == 0 else slice(None) for stride in ary.strides)]


def is_contiguous(ary: Any) -> bool:
    """Whether the elements lie without gaps in C order, repetitions left out."""
    kept = [(n, step) for n, step in zip(ary.shape, ary.strides, strict=True) if step]
    shape, strides = [n for n, _ in kept], [step for _, step in kept]
    return layout.is_c_contiguous(shape, strides, ary.dtype.itemsize)


def sentry_contiguous(ary: Any) -> None:
    """Nothing: numba.cuda refuses arrays with gaps here, Haulage copies them."""


def ndarray_device_allocate_data(ary: Any) -> Span:
    """Memory of the current device for the elements of a host array, not initialised."""
    low, high = layout.extent(ary.shape, ary.strides, ary.dtype.itemsize)
    return current_context().memalloc(high - low)


def auto_device(
    obj: Any, stream: StreamLike = 0, copy: bool = True, user_explicit: bool = False
) -> tuple[Any, bool]:
    """(`obj` on the device, whether that is new): what is there already is given as it is.

    Args:
        obj: what `to_device` takes.
        stream: in which to copy.
        copy: False only allocates.
        user_explicit: has no meaning here: it kept a warning of numba's back.
    """
    if is_cuda_ndarray(obj):
        return obj, False
    if is_cuda_array(obj):
        return as_cuda_array(obj), False
    return to_device(obj, stream, copy), True


def check_array_compatibility(ary1: Any, ary2: Any) -> None:
    """Check that one of two arrays can be copied to the other; strides do not matter.

    Raises:
        TypeError: the dtypes differ.
        ShapeMismatch: the shapes differ, axes of length 1 left out.
    """
    if ary1.dtype != ary2.dtype:
        raise TypeError(f"incompatible dtype: {ary1.dtype} vs. {ary2.dtype}")
    first, _ = layout.squeeze(ary1.shape, ary1.strides)
    second, _ = layout.squeeze(ary2.shape, ary2.strides)
    if first != second:
        raise ShapeMismatch(f"incompatible shape: {ary1.shape} vs. {ary2.shape}")


# ---- shapes and strides -------------------------------------------------------------------------


def prepare_shape_strides_dtype(
    shape: Any, strides: Any, dtype: Any, order: str
) -> tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any]]:
    """A shape, strides in bytes and a dtype in their normal forms.

    Args:
        shape: an int or a sequence.
        strides: an int or a sequence; None or () is those of a dense array in `order`.
        dtype: whatever NumPy takes for a dtype.
        order: "C" or "F".

    Raises:
        ValueError: a size is negative, there are more or fewer strides than sizes, or `order` is
            neither.
    """
    sizes, kind = layout.normalise_shape(shape), np.dtype(dtype)
    if strides is None or strides == ():
        return sizes, fill_stride_by_order(sizes, kind, order), kind
    return sizes, layout.normalise_strides(strides, sizes), kind


def fill_stride_by_order(shape: Any, dtype: np.dtype[Any], order: str) -> tuple[int, ...]:
    """The strides in bytes of a dense array.

    Raises:
        ValueError: `order` is neither "C" nor "F".
    """
    return layout.order_strides(shape, dtype.itemsize, order)


# ---- copies of bytes ----------------------------------------------------------------------------


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


# ---- what memory is -----------------------------------------------------------------------------


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
    block = None if isinstance(obj, int) else pinned_memory.block_of(_host_array(obj))
    if block is not None:
        start = address - block.host_ptr
        return pinned_memory.host_bytes(block)[start : start + size]
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
