"""What `numba.cuda.cudadrv.devicearray` has besides the classes of arrays."""

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
from haulage.runtime.arrays import layout
from haulage.runtime.arrays.strided import Span
from haulage.runtime.stream_arguments import StreamLike

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
