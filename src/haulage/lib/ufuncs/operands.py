"""What ufuncs are called with: arrays of host and device, numbers, what becomes one of these."""

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from haulage.errors import ShapeMismatch
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.arrays.host_arrays import HostVisibleNDArray, device_of_array
from haulage.runtime.arrays.new import dense_array
from haulage.runtime.buffers.coherent import is_coherent
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import current_device
from haulage.runtime.devices.stream_arguments import StreamLike, device_of, for_work
from haulage.runtime.geometry import layout
from haulage.runtime.geometry.numpy_arrays import address_of
from haulage.runtime.launch.placement import place_of_launch
from haulage.runtime.memory import are_own
from haulage.runtime.protocols import offered

# What an operand is, in the order in which its dtype gives way to others.
ON_DEVICE, ON_HOST, NUMPY_SCALAR, PYTHON_NUMBER = range(4)

Array = np.ndarray | DeviceNDArray


class Given(NamedTuple):
    """What of an operand decides which signature it goes to: its dtype, and what it is."""

    dtype: np.dtype[Any]
    kind: int


_PYTHON = {
    bool: Given(np.dtype(np.bool_), PYTHON_NUMBER),
    int: Given(np.dtype(np.int64), PYTHON_NUMBER),
    float: Given(np.dtype(np.float64), PYTHON_NUMBER),
    complex: Given(np.dtype(np.complex128), PYTHON_NUMBER),
}

_MADE: dict[tuple[np.dtype[Any], type], Given] = {}


def operand(value: Any, stream: StreamLike, name: str) -> Any:
    """`value` as a device array, a NumPy array, a NumPy scalar or a Python number.

    Raises:
        TypeError: it is nothing of that kind.
    """
    kind = type(value)
    if kind is DeviceNDArray or kind in _PYTHON:
        return value
    if kind is not np.ndarray and not isinstance(value, np.generic):
        value = _opened(value, stream)
        if isinstance(value, DeviceNDArray):
            return value
    if value.dtype.kind not in "biufcmM":
        raise TypeError(
            f"{name}: an argument of type {kind.__name__} has elements of dtype {value.dtype}; "
            "expected numbers"
        )
    if not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    return value if value.shape else value[()]


def _opened(value: Any, stream: StreamLike) -> Any:
    if isinstance(value, HostVisibleNDArray) and device_of_array(value) is not None:
        return value.device_view()
    if offered.is_foreign(value) and not is_coherent(value):
        return offered.as_source(
            DeviceNDArray, value, for_work(stream, device_of(stream) or current_device())
        )
    return np.asarray(value)


def given(value: Any) -> Given:
    """What of an operand decides which signature it goes to."""
    kind = type(value)
    if kind in _PYTHON:
        return _PYTHON[kind]
    made = _MADE.get((value.dtype, kind))
    if made is None:
        what = {np.ndarray: ON_HOST, DeviceNDArray: ON_DEVICE}.get(kind, NUMPY_SCALAR)
        made = _MADE[value.dtype, kind] = Given(value.dtype, what)
    return made


def is_number(value: Any) -> bool:
    """Whether it is a Python number or a scalar of NumPy's; the latter may be of any kind."""
    return type(value) in _PYTHON or isinstance(value, np.generic)


def is_array(value: Any) -> bool:
    """Whether an operand has axes of its own, or is on a device."""
    return type(value) is np.ndarray or type(value) is DeviceNDArray


def is_plain(array: Array) -> bool:
    """Whether the elements lie in C order without gaps, and a device's at a round address."""
    if isinstance(array, np.ndarray):
        return array.flags.c_contiguous
    return array.layout == "C" and not array.device_pointer % 16


def as_scalar(value: Any, dtype: np.dtype[Any]) -> Any:
    """A scalar operand as one of `dtype`.

    Raises:
        OverflowError: it is an integer beyond the dtype's range.
    """
    if dtype.kind in "iu":
        # NumPy checks the range of Python's ints only.
        return dtype.type(int(value))
    return dtype.type(value) if dtype.kind in "bfc" else np.asarray(value).astype(dtype)[()]


def place_of(values: Sequence[Any], stream: StreamLike, name: str) -> Device:
    """The device on which to work: the stream's, the arrays', or the current one.

    Raises:
        DeviceMismatch: that device, or each one, does not reach some array.
    """
    arrays = tuple([value for value in values if type(value) is DeviceNDArray])
    return place_of_launch(arrays, device_of(stream), name)[0] or current_device()


def outputs(out: Any, extra: tuple[Any, ...], nout: int, name: str) -> list[Any]:
    """The arrays for the results, None where there is none, from `out=` or the call's end.

    Raises:
        TypeError: something is no array on the host or a device.
        ValueError: they are given in both ways, or are too few or too many, or read-only.
    """
    if extra and out is not None:
        raise ValueError("cannot specify argument 'out' as both positional and keyword")
    places = extra or (out if isinstance(out, tuple) else (out,) * min(nout, 1))
    if out is None and not extra:
        return [None] * nout
    if len(places) != nout:
        raise ValueError(f"{name}: out={out!r}; expected a tuple of {nout} arrays")
    for place in places:
        if place is None:
            continue
        if not (
            isinstance(place, (np.ndarray, DeviceNDArray))
            or is_coherent(place)
            or offered.is_on_device(place)
        ):
            raise TypeError(f"{name}: out={place!r}; expected an array of the host or of a device")
    return list(places)


def target(place: Any, stream: StreamLike, name: str) -> Array:
    """The array that a kernel writes to for an output that the caller gave."""
    if type(place) is np.ndarray:
        array: Any = place
    elif isinstance(place, np.ndarray) and device_of_array(place) is None:
        array = np.asarray(place)
    else:
        array = place if type(place) is DeviceNDArray else _opened(place, stream)
    writeable = array.flags.writeable if isinstance(array, np.ndarray) else not array.readonly
    if not writeable:
        raise ValueError(f"{name}: out is read-only")
    return array


def new_array(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    order: str,
    on_device: bool,
    place: Device,
    stream: StreamLike,
) -> Array:
    """An array for a result, not initialised."""
    if not on_device:
        return np.empty(shape, dtype, "F" if order == "F" else "C")
    strides = layout.order_strides(shape, dtype.itemsize, order)
    return dense_array(shape, strides, dtype, stream, place)


def broadcast_shape(shapes: Sequence[tuple[int, ...]], name: str) -> tuple[int, ...]:
    """The shape that all of `shapes` are broadcast to.

    Raises:
        ShapeMismatch: they cannot be; a ValueError, as NumPy's.
    """
    if len(set(shapes)) == 1:
        return shapes[0]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " ".join(map(str, shapes))
        raise ShapeMismatch(
            f"{name}: operands could not be broadcast together with shapes {listed}"
        ) from None


def shown(
    array: Array, shape: tuple[int, ...], strides: tuple[int, ...], stream: StreamLike
) -> Array:
    """The memory of `array`, from its first element on, as another shape and other strides."""
    if array.shape == shape and array.strides == strides:
        return array
    if isinstance(array, np.ndarray):
        if array.flags.c_contiguous and prod(shape) == array.size:
            # Far cheaper, where it leads to the same.
            made = array.reshape(shape)
            if made.strides == strides:
                return made
        return np.lib.stride_tricks.as_strided(array, shape, strides)
    return DeviceNDArray(shape, strides, array.dtype, stream, array.gpu_data)


def memory_of(array: Array, stream: StreamLike) -> tuple[Array, int]:
    """The memory that an array touches as an array with one axis, and where its first element is.

    The strides are whole numbers of elements.
    """
    low, high = layout.extent(array.shape, array.strides, array.dtype.itemsize)
    size = array.dtype.itemsize
    shape = ((high - low) // size,)
    if isinstance(array, DeviceNDArray):
        return DeviceNDArray(shape, (size,), array.dtype, stream, array.gpu_data), -low // size
    if low:
        array = array[tuple(slice(None, None, -1 if step < 0 else 1) for step in array.strides)]
    return np.lib.stride_tricks.as_strided(array, shape, (size,)), -low // size


def has_whole_steps(array: Array) -> bool:
    """Whether the strides are whole numbers of elements."""
    return not any(step % array.dtype.itemsize for step in array.strides)


def dense(value: Array, stream: StreamLike) -> Array:
    """A copy of an array without gaps, where it is."""
    if isinstance(value, np.ndarray):
        return value.copy(order="K")
    strides = layout.dense_strides(value.shape, value.strides, value.dtype.itemsize)
    copy = DeviceNDArray(value.shape, strides, value.dtype, stream, device=value.device)
    copy.copy_to_device(value, stream)
    return copy


def collides(value: Any, written: Sequence[Array], same_is_fine: bool) -> bool:
    """Whether an input overlaps with an array that the kernel writes to.

    With `same_is_fine`, one whose elements lie exactly where the outputs' do does not count.
    """
    for out in written:
        if value is out and same_is_fine:
            continue
        if type(value) is type(out) is DeviceNDArray and are_own(value.block, out.block):
            continue
        if _overlap(value, out) and not (
            same_is_fine
            and _address(value) == _address(out)
            and value.shape == out.shape
            and value.strides == out.strides
            and value.dtype.itemsize == out.dtype.itemsize
        ):
            return True
    return False


def apart(value: Any, written: Sequence[Array], same_is_fine: bool, stream: StreamLike) -> Any:
    """An input, or a copy of it if it `collides`."""
    return dense(value, stream) if collides(value, written, same_is_fine) else value


def _overlap(one: Array, other: Array) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.may_share_memory(one, other)
    low, high = layout.extent(one.shape, one.strides, one.dtype.itemsize)
    other_low, other_high = layout.extent(other.shape, other.strides, other.dtype.itemsize)
    start, other_start = _address(one), _address(other)
    return start + low < other_start + other_high and other_start + other_low < start + high


def _address(array: Array) -> int:
    return address_of(array) if isinstance(array, np.ndarray) else array.device_pointer
