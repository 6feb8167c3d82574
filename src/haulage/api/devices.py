"""Which devices there are, and which one is current."""

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import ParamSpec, TypeVar

from haulage import platforms
from haulage.checks import whole_number
from haulage.errors import DeviceNotFound
from haulage.runtime import context
from haulage.runtime.context import Context
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import current_device, devices_of, probe_of, select
from haulage.runtime.plugins import choice

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def is_available() -> bool:
    """Whether a device can be used; without a GPU that is the CPU device.

    False only if `HAULAGE_DEVICE` names one that is not there; its first use then says why.
    """
    return cuda_error() is None


def cuda_error() -> str | None:
    """Why no device can be used, in words; None if one can, see `is_available`."""
    try:
        current_device()
    except DeviceNotFound as error:
        return str(error)
    return None


def require_context(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """`@require_context`: the function is called with the current device ready for driver calls.

    Raises:
        DeviceNotFound: by the function: `HAULAGE_DEVICE` names a device that is not there.
    """

    @functools.wraps(function)
    def ready(*args: _Given.args, **options: _Given.kwargs) -> _Result:
        current_device().activate()
        return function(*args, **options)

    return ready


def is_float16_supported() -> bool:
    """Whether kernels on the current device can use float16."""
    return current_device().supports_float16


def is_bfloat16_supported() -> bool:
    """Whether kernels on the current device can use bfloat16."""
    return current_device().supports_bfloat16


def is_fp8_supported() -> bool:
    """Whether kernels on the current device can use floats of 8 bits."""
    return current_device().supports_fp8


class Runtime:
    """The runtime library of CUDA, as programs ask for its version: `cuda.runtime`.

    A device without that library has the version of CUDA whose words it takes.
    """

    def get_version(self) -> tuple[int, int]:
        """(major, minor) of the current device."""
        return current_device().properties.runtime

    def is_supported_version(self) -> bool:
        """Whether Haulage can use that version; a device with another one is not there at all."""
        return is_available()

    def __repr__(self) -> str:
        major, minor = self.get_version()
        return f"<runtime {major}.{minor} of {current_device()}>"


runtime = Runtime()


def is_supported_version() -> bool:
    """`runtime.is_supported_version()`."""
    return runtime.is_supported_version()


def get_current_device() -> Device:
    """The device that is meant where none is named."""
    return current_device()


def select_device(device_id: int) -> Device:
    """Make a device of the current one's kind the current one of the calling thread.

    It stays so until a later choice; `haulage.use` chooses among all kinds.

    Args:
        device_id: its number, counted from 0.

    Raises:
        DeviceNotFound: there is no device of that number.
    """
    chosen = _numbered(device_id, "select_device")
    select(chosen)
    return chosen


def current_context(devnum: int | None = None) -> Context:
    """The context of the current device, or of the device `devnum` of its kind.

    Raises:
        DeviceNotFound: there is no device of that number.
    """
    chosen = current_device() if devnum is None else _numbered(devnum, "current_context")
    return chosen.primary_context


def _numbered(number: int, who: str) -> Device:
    present = list_devices()
    number = whole_number(number, f"{who}: the number of a device")
    if not 0 <= number < len(present):
        there = ", ".join(str(device) for device in present)
        raise DeviceNotFound(f"{who}({number}): there is no such device; present: {there}")
    return present[number]


def close() -> None:
    """Wait for the current device, then give the memory of all its arrays back and close them.

    Any later use of these arrays is a ValueError; new arrays can be made. Streams, events and
    compiled kernels stay good.

    Raises:
        KernelError: threads of a kernel had failed; the memory is given back all the same.
    """
    device = current_device()
    device.reset()
    choice.forget(device)


def profile_start() -> None:
    """Let the maker's profiler record from here on, where one is attached to the program."""
    device = current_device()
    device.activate()
    device.backend.profile(True)


def profile_stop() -> None:
    """Let the maker's profiler record no more."""
    device = current_device()
    device.activate()
    device.backend.profile(False)


def profiling() -> AbstractContextManager[None]:
    """`with profiling():` lets the maker's profiler record what is done inside."""
    return context.profiling(current_device())


def list_devices() -> list[Device]:
    """The devices of the current one's kind."""
    return list(devices_of(current_device().kind))


def detect() -> bool:
    """Print the devices found, and for each kind that is not there why; True if there is any."""
    platforms.add_installed()
    lines, count = [], 0
    for platform in platforms.PLATFORMS.values():
        probe = probe_of(platform.name)
        found = devices_of(platform.name) if probe.available else ()
        count += len(found)
        lines += [f"{device}: {device.name}" for device in found]
        if not found:
            lines.append(f"{platform.name}: not found ({probe.answer})")
    print(f"Found {count} CUDA devices: each of these runs CUDA programs")
    print("\n".join(lines))
    return count > 0


class _Devices:
    """The devices of the current one's kind, as a sequence; `gpus.current` is the current one."""

    @property
    def lst(self) -> list[Device]:
        return list_devices()

    @property
    def current(self) -> Device:
        return current_device()

    def __getitem__(self, number: int) -> Device:
        present = self.lst
        if not isinstance(number, slice):
            number = whole_number(number, "gpus: the number of a device")
        try:
            return present[number]
        except TypeError:
            raise TypeError(f"gpus[{number}]: a slice has whole numbers or None") from None
        except IndexError:
            there = ", ".join(str(device) for device in present)
            raise IndexError(f"gpus[{number}]: there is no such device; present: {there}") from None

    def __len__(self) -> int:
        return len(self.lst)

    def __iter__(self) -> Iterator[Device]:
        return iter(self.lst)

    def __repr__(self) -> str:
        return f"<{', '.join(str(device) for device in self.lst)}>"


gpus = _Devices()
