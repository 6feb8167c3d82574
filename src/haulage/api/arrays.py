"""Arrays on the device: moved there, made there."""

from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np

from haulage._core.arrays import device_array, know_dtype, let_make_device
from haulage._core.arrays import empty as empty
from haulage._core.copies import uploaded as uploaded_at_once
from haulage.checks import flag, one_of
from haulage.errors import DeviceMismatch
from haulage.runtime.arrays.array import DeviceNDArray, DeviceRecord
from haulage.runtime.arrays.copying import DeviceNDArrayBase
from haulage.runtime.arrays.host_arrays import HostVisibleNDArray, device_of_array
from haulage.runtime.arrays.new import dense_array, device_array_for, uploaded
from haulage.runtime.buffers import pinned_memory
from haulage.runtime.buffers.coherent import is_coherent, overwritten_in
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import current_device
from haulage.runtime.devices.stream_arguments import StreamLike, device_of, for_work
from haulage.runtime.geometry import dtypes, layout, numpy_arrays
from haulage.runtime.protocols import offered

Shape = SupportsIndex | Sequence[SupportsIndex]


def to_device(
    obj: Any,
    stream: StreamLike = 0,
    copy: bool = True,
    to: Any = None,
) -> Any:
    """Allocate memory on the device and copy `obj` to it.

    The new array has the shape and dtype of `obj` and its order of axes, without gaps. It can be
    written to, and each element has memory of its own, also where `obj` is read-only or its
    elements share memory, as those of `np.broadcast_to`. It is bound to `stream`. With a stream the
    copy may still run when this returns if `obj` is pinned; otherwise it is done.

    Args:
        obj: a NumPy array or record, or what `np.asarray` takes. What is on the device already is
            returned as it is: arrays and records there, mapped and managed arrays; arrays of other
            libraries there as a `DeviceNDArray` over the same memory. Of a SmartArray it is a copy,
            made on the device, to which its elements come first if they are not current there.
        stream: in which to copy; 0 or None: the default stream.
        copy: False only allocates.
        to: an existing device array or record to copy into, which is then returned; or a
            SmartArray, which is then current on the device.

    Returns:
        A `DeviceNDArray`; a `DeviceRecord` for a structured scalar.

    Raises:
        OutOfMemory: the device has no room.
        TypeError: `obj` holds Python objects, or `to` is no device array or has another dtype.
        ShapeMismatch: `to` has another shape.
        ValueError: `obj` is closed, or `to` is read-only or closed.
    """
    if copy is True and to is None and (made := uploaded_at_once(obj, stream)) is not None:
        return made
    return to_device_of(device_of(stream), obj, stream, copy, to)


def to_device_of(
    device: Device | None,
    obj: Any,
    stream: StreamLike = 0,
    copy: bool = True,
    to: Any = None,
) -> Any:
    """`to_device` on a device that is named; None means the current one.

    Raises:
        DeviceMismatch: `obj`, `to` or `stream` is of another device.
    """
    copy = flag(copy, "to_device: copy")
    if type(obj) is np.ndarray and to is None:
        return (uploaded if copy else device_array_for)(obj, stream, device)
    for given in (obj, to):
        of = device_of_array(given)
        if device is not None and of is not None and of is not device:
            raise DeviceMismatch(
                f"{given!r} cannot be used on {device}; copy it by way of the host"
            )
    if to is not None:
        if copy and is_coherent(to):
            place = for_work(stream, device or current_device())
            with overwritten_in(place, to, "to_device(to=...)") as target:
                target.copy_to_device(obj, place)
            return to
        if not (isinstance(to, DeviceNDArrayBase | HostVisibleNDArray) or is_coherent(to)):
            raise TypeError(
                f"to_device(to={type(to).__name__}): expected an array or record on the device"
            )
        if copy:
            to.copy_to_device(obj, stream)
        return to
    if isinstance(obj, DeviceNDArrayBase):
        obj.block.use()
        return obj
    if isinstance(obj, HostVisibleNDArray) and (block := pinned_memory.block_of(obj)) is not None:
        block.use()
        return obj
    if isinstance(obj, np.void) and obj.dtype.names is not None:
        return _record(obj, stream, device, copy)
    if is_coherent(obj):
        strides = layout.dense_strides(obj.shape, obj.strides, obj.dtype.itemsize)
        made = DeviceNDArray(obj.shape, strides, obj.dtype, stream, device=device)
        if copy:
            made.copy_to_device(obj, stream)
        return made
    if offered.is_foreign(obj):
        obj = offered.as_source(
            DeviceNDArray, obj, for_work(stream, device or current_device()), kept=True
        )
        if isinstance(obj, DeviceNDArray):
            return obj
    return (uploaded if copy else device_array_for)(numpy_arrays.host_array(obj), stream, device)


def _record(record: np.void, stream: StreamLike, device: Device | None, copy: bool) -> DeviceRecord:
    target = DeviceRecord(record.dtype, stream, device=device)
    if copy:
        target.copy_to_device(record, stream)
    return target


def _device_array(
    shape: Shape,
    dtype: Any = np.float64,
    strides: Shape | None = None,
    order: str = "C",
    stream: StreamLike = 0,
) -> DeviceNDArray:
    """`device_array` where it takes more than a look."""
    sizes, steps, kind = prepare(shape, dtype, strides, order)
    if strides is None and kind.subdtype is None:
        assert isinstance(steps, tuple)
        place = device_of(stream) or current_device()
        note_dtype(dtype, kind)
        return dense_array(sizes, steps, kind, stream, place)
    return DeviceNDArray(sizes, steps, kind, stream)


let_make_device(_device_array)


def device_array_like(ary: Any, stream: StreamLike = 0) -> DeviceNDArray:
    """A new array on the device with the shape, dtype and order of axes of a host or device array.

    Not initialised. An array with gaps gives one without.
    """
    order = order_of(ary)
    if order is not None:
        return device_array(ary.shape, ary.dtype, None, order, stream)
    shape, strides = like(ary)
    return DeviceNDArray(shape, strides, ary.dtype, stream)


# ---- with elements ------------------------------------------------------------------------------


def zeros(
    shape: Shape, dtype: Any = np.float64, order: str = "C", stream: StreamLike = 0
) -> DeviceNDArray:
    """A new array on the device, filled with zeros (bytes of 0) in `stream`."""
    array = device_array(shape, dtype, order=order, stream=stream)
    return _filled(array, np.zeros((), array.dtype), stream)


def ones(
    shape: Shape, dtype: Any = np.float64, order: str = "C", stream: StreamLike = 0
) -> DeviceNDArray:
    """A new array on the device, filled with ones in `stream`."""
    return full(shape, 1, np.dtype(dtype), order, stream)


def full(
    shape: Shape,
    fill_value: Any,
    dtype: Any = None,
    order: str = "C",
    stream: StreamLike = 0,
) -> DeviceNDArray:
    """A new array on the device, filled with `fill_value` in `stream`.

    `fill_value` is a scalar, or an array that can be broadcast to `shape`; `dtype` is by default
    its dtype.
    """
    kind = dtype
    if kind is None:
        kind = (fill_value if is_coherent(fill_value) else np.asarray(fill_value)).dtype
    return _filled(device_array(shape, kind, order=order, stream=stream), fill_value, stream)


def empty_like(
    ary: Any, dtype: Any = None, order: str = "K", stream: StreamLike = 0
) -> DeviceNDArray:
    """A new array on the device with the shape of a host or device array, not initialised.

    Its dtype is that of `ary` if none is given; its order of axes is that of `ary` ('K'), 'C',
    'F', or 'F' for an array in Fortran order and else 'C' ('A').
    """
    check_array(ary)
    kind = dtypes.check_dtype(ary.dtype if dtype is None else dtype)
    shape = tuple(ary.shape)
    one_of(order, "order", ("C", "F", "A", "K"))
    if order == "A":
        order = layout.layout_letter(shape, ary.strides, ary.dtype.itemsize).replace("A", "C")
    if order == "K":
        strides = layout.dense_strides(shape, ary.strides, ary.dtype.itemsize, kind.itemsize)
    else:
        strides = layout.order_strides(shape, kind.itemsize, order)
    return DeviceNDArray(shape, strides, kind, stream)


def zeros_like(
    ary: Any, dtype: Any = None, order: str = "K", stream: StreamLike = 0
) -> DeviceNDArray:
    """`empty_like`, filled with zeros in `stream`."""
    array = empty_like(ary, dtype, order, stream)
    return _filled(array, np.zeros((), array.dtype), stream)


def ones_like(
    ary: Any, dtype: Any = None, order: str = "K", stream: StreamLike = 0
) -> DeviceNDArray:
    """`empty_like`, filled with ones in `stream`."""
    return full_like(ary, 1, dtype, order, stream)


def full_like(
    ary: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    stream: StreamLike = 0,
) -> DeviceNDArray:
    """`empty_like`, filled with `fill_value` (of the dtype of `ary` if none is given)."""
    return _filled(empty_like(ary, dtype, order, stream), fill_value, stream)


def _filled(array: DeviceNDArray, value: Any, stream: StreamLike) -> DeviceNDArray:
    array.setitem(Ellipsis, value, stream)
    return array


def is_cuda_array(obj: Any) -> bool:
    """Whether `obj` is on a device: an array or record there, a mapped or managed array, or an
    object of another library with the CUDA array interface."""
    if isinstance(obj, HostVisibleNDArray):
        return pinned_memory.block_of(obj) is not None
    return isinstance(obj, DeviceNDArrayBase) or hasattr(obj, "__cuda_array_interface__")


# ---- what other functions of this room need -----------------------------------------------------


def like(ary: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(shape, strides) of an array like `ary` without gaps."""
    check_array(ary)
    return tuple(ary.shape), layout.dense_strides(ary.shape, ary.strides, ary.dtype.itemsize)


def order_of(ary: Any) -> str | None:
    """'C' or 'F' of a NumPy or device array that says at once that it has one, and no gaps."""
    if isinstance(ary, np.ndarray):
        flags = ary.flags
        return "C" if flags.c_contiguous else "F" if flags.f_contiguous else None
    letter = ary.layout if isinstance(ary, DeviceNDArray) else None
    return letter if letter in ("C", "F") else None


def check_array(ary: Any) -> None:
    """TypeError unless `ary` has a shape, strides and a dtype, as arrays of host and device do."""
    has_all = hasattr(ary, "shape") and hasattr(ary, "strides") and hasattr(ary, "dtype")
    if isinstance(ary, type) or not has_all:
        raise TypeError(f"{type(ary).__name__} object: expected an array, of the host or a device")


def note_dtype(given: Any, dtype: np.dtype) -> None:
    """Let compiled code know `dtype`, where all that is `given` so means it."""
    if dtype.names is None and dtype.subdtype is None and dtypes.is_constant(given):
        know_dtype(given, dtype)


def prepare(
    shape: Shape, dtype: Any, strides: Shape | None, order: str
) -> tuple[tuple[int, ...], Shape, np.dtype]:
    """(shape, strides, dtype) of a new array, from what the user gave."""
    sizes = layout.normalise_shape(shape)
    kind = dtypes.check_dtype(dtype)
    in_order = layout.order_strides(sizes, kind.itemsize, order)
    if strides is None or (isinstance(strides, tuple) and not strides):
        return sizes, in_order, kind
    return sizes, strides, kind
