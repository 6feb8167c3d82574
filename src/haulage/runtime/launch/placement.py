"""Where a launch runs, and the arguments on their way there."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from haulage._core.launches import in_place
from haulage.backends.base import MAPPED
from haulage.errors import CaptureError, DeviceMismatch, HaulageError
from haulage.runtime.arrays.array import DeviceNDArray, DeviceRecord
from haulage.runtime.arrays.copying import DeviceNDArrayBase
from haulage.runtime.arrays.host_arrays import HostVisibleNDArray, device_of_array
from haulage.runtime.arrays.new import device_array_for, mirror_array_for
from haulage.runtime.buffers.coherent import is_coherent
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import current_device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.launch.hints import ArgHint, In, InOut, Out
from haulage.runtime.process import observing, runtime
from haulage.runtime.protocols import offered

# ---- on which device --------------------------------------------------------------------------


def place_of_launch(
    arrays: Sequence[Any], asked: Device | None, what: str
) -> tuple[Device | None, bool]:
    """The device that a launch with some arrays of devices runs on.

    That is `asked`, the device of the launch's stream, if it names one. Else it is the device that
    the arrays are on, or if these are several one that reaches them all, the current one if it is
    among these. Mapped and managed arrays are on no device in this, but in host memory that others
    of the driver may reach too.

    Returns:
        (the device, whether all arrays are of that device). The device is None if neither a stream
        nor an array names one.

    Raises:
        DeviceMismatch: the device that was asked for, or every one, does not reach some array.
    """
    if not arrays:
        return asked, True
    found = arrays[0].device
    several = any(
        array.device is not found
        or (isinstance(array, HostVisibleNDArray) and found is not current_device())
        for array in arrays
    )
    if not several and (asked is None or asked is found):
        return found, True
    place = _reaching(arrays, asked, what)
    return place, all(array.device is place for array in arrays)


def _reaching(arrays: Sequence[Any], asked: Device | None, what: str) -> Device:
    """The device `asked`, or else one whose kernels reach all `arrays`."""
    if asked is not None:
        candidates = [asked]
    else:
        own = dict.fromkeys(
            array.device for array in arrays if not isinstance(array, HostVisibleNDArray)
        )
        candidates = list(own) or [each.device for each in arrays]
        current = current_device()
        if not own or current in own:
            candidates.insert(0, current)
    for device in candidates:
        if all(reaches(device, array) for array in arrays):
            return device
    one = candidates[0]
    first = next(array for array in arrays if not reaches(one, array))
    if asked is not None:
        raise DeviceMismatch(f"{what}: arrays on {first.device}, stream on {one}{_how(one, first)}")
    other = next(array.device for array in arrays if array.device is not first.device)
    raise DeviceMismatch(
        f"{what} was given arrays of {other} and of {first.device}; copy them to one device "
        f"first{_how(one, first)}"
    )


def reaches(device: Device, array: Any) -> bool:
    """Whether kernels on `device` reach the memory of an array of some device."""
    return device.reaches(array.device) or array.block.is_mapped_for(device)


def _how(device: Device, array: Any) -> str:
    """What lets kernels on `device` reach an array of another one, if something does."""
    if array.device.backend is not device.backend:
        return ""
    if array.block.kind == MAPPED:
        return ", or make that mapped array with portable=True"
    return (
        ", or let kernels of one reach the memory of the other: "
        "current_context().enable_peer_access(number)"
    )


def check_captured(device: Device, arrays: tuple[Any, ...], name: str) -> None:
    """See that kernels on `device` reach the arrays whose addresses are in their code.

    Raises:
        DeviceMismatch: they do not reach one.
    """
    for array in arrays:
        if not reaches(device, array):
            raise DeviceMismatch(
                f"kernel {name} uses an array of {array.device} by a global or closure variable, "
                f"and cannot run on {device}; give it the array as an argument{_how(device, array)}"
            )


# ---- on their way -----------------------------------------------------------------------------

_UNNOTED = nullcontext()


class Placement:
    """The arguments of one launch on their way to the stream's device: host arrays that its kernels
    do not use in place are copied there and back, other libraries' arrays are opened.

    Args:
        stream: in which the kernel will run.
        why: the launch, in words, for records and errors.
        aligned: whether the kernel takes aligned elements only; host arrays of others are copied.
        names: those of the kernel's parameters, for records.
        kernel: itself, for records.
    """

    __slots__ = ("_aligned", "_at", "_copies_back", "_kernel", "_names", "_stream", "_why")

    def __init__(
        self,
        stream: Stream,
        why: str,
        aligned: bool = False,
        names: Sequence[str] = (),
        kernel: Any = None,
    ) -> None:
        self._stream = stream
        self._why = why
        self._aligned = aligned
        self._names = names
        self._kernel = kernel
        # The number of the argument that is placed now, followed by places in tuples.
        self._at: tuple[int, ...] = ()
        self._copies_back: list[Callable[[], object]] = []

    def place(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """`values` with what is on the device, or is used where it is, in their places."""
        at, placed = self._at, []
        for number, value in enumerate(values):
            self._at = (*at, number)
            placed.append(self._placed(value))
        self._at = at
        return tuple(placed)

    def copy_back(self) -> None:
        """Copy what the kernel was given copies of back to the host; waits for the kernel."""
        call_all(self._copies_back)

    def _placed(self, value: Any, hint: type[ArgHint] = InOut) -> Any:
        if isinstance(value, ArgHint):
            placed = self._placed(value.value, type(value))
            # What moves itself keeps its hint until it is acquired.
            return value if is_coherent(placed) else placed
        if isinstance(value, tuple):
            inner = self.place(value)
            return type(value)(*inner) if hasattr(value, "_fields") else inner
        if is_coherent(value):
            return value
        if offered.is_foreign(value):
            hint = InOut
            value = offered.as_argument(DeviceNDArray, value, self._stream)
            if isinstance(value, DeviceNDArrayBase) and not reaches(self._stream.device, value):
                raise DeviceMismatch(f"{self._why}: {value!r} cannot be used in {self._stream!r}")
        if not is_on_host(value):
            return value
        if hint is In:
            return self._uploaded(self._room_for(value, device_array_for), value)
        stays = in_place(self._stream.device) and (value.flags.aligned or not self._aligned)
        return value if stays else self._copied(value, hint is not Out)

    def _copied(self, host: np.ndarray | np.void, upload: bool) -> DeviceNDArrayBase:
        array = self._room_for(host, mirror_array_for)
        if upload:
            self._uploaded(array, host)
        if host.flags.writeable:
            self._copies_back.append(partial(self._copy_back, array, host, self._at))
        else:
            array._protect()
        return array

    def _uploaded(self, array: DeviceNDArrayBase, host: np.ndarray | np.void) -> DeviceNDArrayBase:
        with self._noted(self._at):
            array.copy_to_device(host, self._stream)
        return array

    def _copy_back(
        self, array: DeviceNDArrayBase, host: np.ndarray | np.void, at: tuple[int, ...]
    ) -> None:
        with self._noted(at):
            array.copy_to_host(host, self._stream)

    def _noted(self, at: tuple[int, ...]) -> AbstractContextManager[None]:
        """For copies of the argument that is there."""
        if not runtime.current.watchers:
            return _UNNOTED
        name = ""
        if at[0] < len(self._names):
            name = "".join([self._names[at[0]], *(f"[{number}]" for number in at[1:])])
        return observing.copying(observing.Argument(self._why, self._kernel, name, at))

    def _room_for(
        self, host: np.ndarray | np.void, make: Callable[..., DeviceNDArray]
    ) -> DeviceNDArrayBase:
        device = self._stream.device
        if self._stream.handle in device.capturing:
            raise CaptureError(
                f"{self._why}: a host array is copied by the launch, which waits for that, so a "
                "graph cannot have it; give it arrays of the device, mapped or managed ones"
            )
        if isinstance(host, np.void):
            return DeviceRecord(host.dtype, self._stream, device=device)
        return make(host, self._stream, device)


def is_on_host(value: Any) -> bool:
    """Whether it is an array or a record of NumPy that is in the host's memory only."""
    if isinstance(value, np.void):
        return value.dtype.names is not None
    return isinstance(value, np.ndarray) and device_of_array(value) is None


def call_all(actions: Sequence[Callable[..., object]], *args: Any) -> None:
    """Call each of `actions`; the first error of them is raised when all have been called."""
    errors = []
    for action in actions:
        try:
            action(*args)
        except HaulageError as error:
            errors.append(error)
    if errors:
        raise errors[0]
