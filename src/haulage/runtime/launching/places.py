"""On which device a launch runs, and whether kernels there reach the arrays that it was given."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from haulage.backends.base import MAPPED
from haulage.errors import DeviceMismatch
from haulage.runtime.arrays.copying import DeviceNDArrayBase
from haulage.runtime.arrays.host_arrays import HostVisibleNDArray, device_of_array
from haulage.runtime.device import Device, current_device
from haulage.runtime.launching.placing import ArgHint, reaches

# What else than device arrays and numbers is among arguments: NumPy arrays at most, or others too.
NOTHING_ELSE, HOST_ARRAYS, OTHERS = 0, 1, 2

# Not np.void, which can be a record in host memory.
_NUMBERS = (int, float, np.number, np.bool_, np.datetime64, np.timedelta64, complex)


def place_of_launch(
    values: tuple[Any, ...], asked: Device | None, what: str
) -> tuple[Device | None, int, bool]:
    """The device that a launch with the arguments `values` runs on.

    That is `asked`, the device of the launch's stream, if it names one. Else it is the device that
    the arrays among `values` are on, or if these are several one that reaches them all, the current
    one if it is among these. Mapped and managed arrays are on no device in this, but in host memory
    that others of the driver may reach too.

    Returns:
        (the device, whether there are others than device arrays and numbers, whether all arrays are
        of that device). The device is None if neither a stream nor an array names one. The second
        is NOTHING_ELSE, HOST_ARRAYS or OTHERS, which `placing.Placement` may have to look at.

    Raises:
        DeviceMismatch: the device that was asked for, or every one, does not reach some array.
    """
    found, others, several = _look_at(values)
    if found is None:
        return asked, others, True
    if asked is None:
        if not several:
            return found, others, True
    elif not several and asked is found:
        return found, others, True
    arrays = list(_arrays(values))
    place = _reaching(arrays, asked, what)
    return place, others, all(array.device is place for array in arrays)


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


def _look_at(values: tuple[Any, ...]) -> tuple[Device | None, int, bool]:
    """A device of arrays among `values`, what others there are, and whether the arrays have to be
    looked at one by one: they are of several devices, or their memory may be of several."""
    found: Device | None = None
    others = NOTHING_ELSE
    several = False
    for value in values:
        if isinstance(value, DeviceNDArrayBase):
            of: Device | None = value.device
        elif isinstance(value, _NUMBERS):
            continue
        elif isinstance(value, tuple):
            of, inner_others, inner_several = _look_at(value)
            others = max(others, inner_others)
            several = several or inner_several
        elif type(value) is np.ndarray:
            others = others or HOST_ARRAYS
            continue
        else:
            others = OTHERS
            of = _device_of(value)
            if of is not None and isinstance(value, HostVisibleNDArray):
                several = several or of is not current_device()
        if found is None:
            found = of
        elif of is not None and of is not found:
            several = True
    return found, others, several


def _reaching(arrays: list[Any], asked: Device | None, what: str) -> Device:
    """The device `asked`, or else one whose kernels reach all `arrays`."""
    if asked is not None:
        candidates = [asked]
    else:
        own = dict.fromkeys(array.device for array in arrays if not _in_host_memory(array))
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


def _in_host_memory(array: Any) -> bool:
    return isinstance(array, HostVisibleNDArray)


def _arrays(values: tuple[Any, ...]) -> Iterator[Any]:
    """All device, mapped and managed arrays among `values`."""
    for value in values:
        if isinstance(value, tuple):
            yield from _arrays(value)
        elif isinstance(value, DeviceNDArrayBase):
            yield value
        elif _device_of(value) is not None:
            yield value.value if isinstance(value, ArgHint) else value


def _device_of(value: Any) -> Device | None:
    return device_of_array(value.value if isinstance(value, ArgHint) else value)
