"""The host's side of both vocabularies: picks the default device and stream, then calls down."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, SupportsIndex

import numpy as np

from haulage import platforms
from haulage.errors import DeviceMismatch, DeviceNotFound
from haulage.runtime import layout, memory, transfer
from haulage.runtime.array import DeviceNDArray
from haulage.runtime.device import Device, current_device, devices_of
from haulage.runtime.event import Event, event_elapsed_time
from haulage.runtime.stream import Stream, StreamLike, device_of

__all__ = [
    "DeviceNDArray",
    "Event",
    "Stream",
    "to_device",
    "device_array",
    "device_array_like",
    "pinned_array",
    "pinned_array_like",
    "pinned",
    "register",
    "deregister",
    "stream",
    "default_stream",
    "event",
    "event_elapsed_time",
    "synchronize",
    "is_cuda_array",
    "is_available",
    "detect",
    "get_current_device",
    "list_devices",
    "gpus",
]

Shape = SupportsIndex | Sequence[SupportsIndex]

# ---- arrays on the device ---------------------------------------------------------------------


def to_device(
    obj: Any,
    stream: StreamLike = 0,
    copy: bool = True,
    to: DeviceNDArray | None = None,
) -> DeviceNDArray:
    """Allocate memory on the device and copy `obj` to it.

    The new array has the shape and dtype of `obj` and its order of axes, without gaps; axes that
    `np.broadcast_to` made are kept as such. It is bound to `stream`. With a stream the copy may
    still run when this returns if `obj` is pinned; otherwise it is done.

    Args:
        obj: a NumPy array, or what `np.asarray` takes. A device array is returned as it is.
        stream: in which to copy; 0 or None: the default stream.
        copy: False only allocates.
        to: an existing device array to copy into, which is then returned.

    Raises:
        OutOfMemory: the device has no room.
        TypeError, ValueError: `to` has another dtype or shape; `obj` holds Python objects.
    """
    return to_device_of(device_of(stream), obj, stream, copy, to)


def to_device_of(
    device: Device | None,
    obj: Any,
    stream: StreamLike = 0,
    copy: bool = True,
    to: DeviceNDArray | None = None,
) -> DeviceNDArray:
    """`to_device` on a device that is named; None means the current one.

    Raises:
        DeviceMismatch: `obj`, `to` or `stream` is of another device.
    """
    for given in (obj, to):
        if device is not None and isinstance(given, DeviceNDArray) and given.device is not device:
            raise DeviceMismatch(
                f"{given!r} cannot be used on {device}; copy it by way of the host"
            )
    if to is not None:
        if copy:
            to.copy_to_device(obj, stream)
        return to
    if isinstance(obj, DeviceNDArray):
        return obj
    host = np.asarray(obj)
    target = _array_like(host, stream, device)
    if copy:
        target.copy_to_device(host, stream)
    return target


def _array_like(host: np.ndarray, stream: StreamLike, device: Device | None) -> DeviceNDArray:
    # An axis of stride 0 shows one value repeatedly; it takes and moves that value only.
    repeated = [
        n > 1 and step == 0 and host.nbytes > 0
        for n, step in zip(host.shape, host.strides, strict=True)
    ]
    shape = tuple(1 if r else n for n, r in zip(host.shape, repeated, strict=True))
    strides = layout.dense_strides(shape, host.strides, host.itemsize)
    array = DeviceNDArray(shape, strides, host.dtype, stream, device=device)
    if not any(repeated):
        return array
    strides = tuple(0 if r else step for step, r in zip(strides, repeated, strict=True))
    return DeviceNDArray(host.shape, strides, host.dtype, stream, array.gpu_data)


def device_array(
    shape: Shape,
    dtype: Any = np.float64,
    strides: Shape | None = None,
    order: str = "C",
    stream: StreamLike = 0,
) -> DeviceNDArray:
    """A new array on the device, not initialised, as `np.empty` gives on the host.

    Args:
        shape: a number or a tuple of numbers.
        dtype: anything that `np.dtype` takes.
        strides: in bytes; by default without gaps, in `order`.
        order: 'C' or 'F'.
        stream: that the array is bound to.
    """
    sizes, steps, kind = _prepare(shape, dtype, strides, order)
    return DeviceNDArray(sizes, steps, kind, stream)


def device_array_like(ary: Any, stream: StreamLike = 0) -> DeviceNDArray:
    """A new array on the device with the shape, dtype and order of axes of a host or device array.

    Not initialised. An array with gaps gives one without.
    """
    return DeviceNDArray(*_like(ary), ary.dtype, stream)


def _like(ary: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(ary.shape), layout.dense_strides(ary.shape, ary.strides, ary.dtype.itemsize)


def _prepare(
    shape: Shape, dtype: Any, strides: Shape | None, order: str
) -> tuple[tuple[int, ...], Shape, np.dtype]:
    sizes = layout.normalise_shape(shape)
    kind = transfer.check_dtype(dtype)
    in_order = layout.order_strides(sizes, kind.itemsize, order)
    return sizes, in_order if strides is None or strides == () else strides, kind


# ---- pinned memory of the host ----------------------------------------------------------------


def pinned_array(
    shape: Shape, dtype: Any = np.float64, strides: Shape | None = None, order: str = "C"
) -> np.ndarray:
    """A new NumPy array, not initialised, in pinned memory.

    Copies in a stream from and to it may still run when the call that makes them returns.
    """
    sizes, steps, kind = _prepare(shape, dtype, strides, order)
    return transfer.pinned_array(current_device(), sizes, layout.whole_numbers(steps), kind)


def pinned_array_like(ary: Any) -> np.ndarray:
    """A new pinned array with the shape, dtype and order of axes of `ary`, not initialised."""
    shape, strides = _like(ary)
    return transfer.pinned_array(current_device(), shape, strides, transfer.check_dtype(ary.dtype))


@contextmanager
def pinned(*arylist: np.ndarray) -> Iterator[None]:
    """`with pinned(a, b):` pins the memory of existing NumPy arrays inside.

    Its end waits for the device, so that no copy still uses them.

    Raises:
        TypeError: something else than NumPy arrays.
        ValueError: an array with gaps, or one that is pinned already.
    """
    with register(*arylist):
        yield


class register:
    """Pin the memory of existing NumPy arrays until `deregister`, or to the end of a `with`."""

    def __init__(self, *arrays: np.ndarray) -> None:
        self._arrays: list[np.ndarray] = []
        device = current_device()
        try:
            for array in arrays:
                transfer.register(array, device)
                self._arrays.append(array)
        except BaseException:
            deregister(*self._arrays)
            raise

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: Any) -> None:
        deregister(*self._arrays)


def deregister(*arrays: np.ndarray) -> None:
    """Undo `register`; waits for the work of the device that may use the arrays."""
    for array in arrays:
        transfer.unregister(array)


# ---- streams and events -----------------------------------------------------------------------


def stream() -> Stream:
    """A new stream of the current device."""
    return Stream.create(current_device())


def default_stream() -> Stream:
    """The default stream of the current device; `stream=0` means the same."""
    return current_device().default_stream


def event(timing: bool = True) -> Event:
    """A new event of the current device; without `timing` it takes no part in `elapsed_time`."""
    return Event(current_device(), timing)


def synchronize() -> None:
    """Wait for all work of the current device.

    Raises:
        KernelError: threads of a kernel had failed.
    """
    current_device().synchronize()
    memory.reap()


# ---- devices ----------------------------------------------------------------------------------


def is_cuda_array(obj: Any) -> bool:
    """Whether `obj` is a device array or has the CUDA array interface."""
    return isinstance(obj, DeviceNDArray) or hasattr(obj, "__cuda_array_interface__")


def is_available() -> bool:
    """Whether a device can be used; without a GPU that is the CPU device.

    False only if `HAULAGE_DEVICE` names one that is not there; its first use then says why.
    """
    try:
        current_device()
    except DeviceNotFound:
        return False
    return True


def get_current_device() -> Device:
    """The device that is meant where none is named."""
    return current_device()


def list_devices() -> list[Device]:
    """The devices of the current one's kind."""
    return list(devices_of(current_device().kind))


def detect() -> bool:
    """Print the devices found, and for each kind that is not there why; True if there is any."""
    any_found = False
    for platform in platforms.PLATFORMS.values():
        probe = platform.probe()
        found = devices_of(platform.name) if probe.available else ()
        any_found = any_found or bool(found)
        for device in found:
            print(f"{device}: {device.name}")
        if not found:
            print(f"{platform.name}: not found ({probe.answer})")
    return any_found


class _Devices:
    """The devices of the current one's kind, as a sequence; `gpus.current` is the current one."""

    @property
    def lst(self) -> list[Device]:
        return list_devices()

    @property
    def current(self) -> Device:
        return current_device()

    def __getitem__(self, number: int) -> Device:
        return self.lst[number]

    def __len__(self) -> int:
        return len(self.lst)

    def __iter__(self) -> Iterator[Device]:
        return iter(self.lst)

    def __repr__(self) -> str:
        return f"<{', '.join(str(device) for device in self.lst)}>"


gpus = _Devices()
