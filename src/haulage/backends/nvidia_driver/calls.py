"""Calls of CUDA's driver, and what is raised where one fails."""

import functools
import importlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from haulage._core.driver import NOT_PERMITTED, Functions
from haulage.backends.gpu_driver import calls
from haulage.backends.gpu_driver.calls import NOT_FOUND
from haulage.backends.nvidia_driver import looking, recordings
from haulage.errors import DeviceError, Unsupported

_DESTROYED = "another library has destroyed the context of the device, or reset the device"
_ADVICE = calls.ADVICE | {
    3: "the driver has ended, as the process ends; or this is a forked child, and CUDA initialized "
    "before forking does not live on there: start processes with "
    "multiprocessing.get_context('spawn') or 'forkserver'",
    101: "there is no such device, or it does not move managed memory ahead, as on Windows",
    201: _DESTROYED,
    217: "these two devices cannot reach each other's memory",
    709: _DESTROYED,
    711: "the device reaches the memory of as many others as it can",
    218: "the driver could not assemble the code",
    222: "the code is newer than the driver: update the driver",
    800: "a callback of a stream cannot use an NVIDIA device: else it is easily one that waits for "
    "work that begins only when it has returned",
}


@functools.cache
def bindings() -> Any:
    """What `cuda.bindings.driver` has, with functions that no recording of others' is spoilt by."""
    module = importlib.import_module(looking.BINDINGS)
    return SimpleNamespace(**{**vars(module), **recordings.apart_in(module)})


class Calls(calls.Calls):
    """Makes the driver's calls."""

    advice = _ADVICE
    debugger = "run the program under NVIDIA's compute-sanitizer"

    def __call__(self, function: Callable[..., Any], *args: Any, asked: str = "") -> Any:
        """What a function of `cuda.bindings.driver` gives: nothing, a value, or several.

        `asked` is what its error says was asked, if not the function and its arguments.

        Raises:
            DeviceError, OutOfMemory: the driver refuses: its name for the failure, what it means,
                what was asked.
            Unsupported: the driver is too old for it.
        """
        if self.inside.callback:
            raise self.failed(function.__name__, args, NOT_PERMITTED)
        try:
            answer = function(*args)
        except RuntimeError as error:
            # What cuda-bindings raises where the driver has no such function.
            raise Unsupported(
                f"{function.__name__}: the NVIDIA driver is too old for it, update it: {error}"
            ) from error
        except (KeyError, ValueError) as error:
            raise DeviceError(
                f"{function.__name__}: the driver's answer is none that this version of "
                f"cuda-bindings knows: {error}"
            ) from error
        if answer[0]:
            if asked:
                raise self.refused(asked, int(answer[0]))
            raise self.failed(function.__name__, args, int(answer[0]))
        return answer[1] if len(answer) == 2 else answer[1:]

    def told(self, status: int) -> str:
        """See the module's function."""
        return told(status)

    def room(self) -> str:
        """See the module's function."""
        return room()


def told(status: int) -> str:
    """The driver's name for a status, and its words for it."""
    driver = bindings()
    parts = []
    for ask in (driver.cuGetErrorName, driver.cuGetErrorString):
        answered, text = ask(_status(status))
        if not answered and text:
            parts.append(text.decode())
    return ": ".join(parts) or f"status {status}, which the driver has no name for"


def _status(number: int) -> Any:
    try:
        return bindings().CUresult(number)
    except ValueError:
        return bindings().CUresult.CUDA_ERROR_UNKNOWN


def room() -> str:
    """How much memory of the current device is free, in words."""
    status, free, total = bindings().cuMemGetInfo()
    return f"{free:,} of {total:,} bytes are free" if not status else "no more is known"


# Functions that are called by their addresses, with the CUDA versions that they came with.
BY_ADDRESS = {
    "cuCtxSynchronize": 2000,
    "cuMemcpyAsync": 4000,
    "cuStreamSynchronize": 2000,
    "cuStreamQuery": 2000,
    "cuStreamWaitEvent": 3020,
    "cuStreamIsCapturing": 10000,
    "cuThreadExchangeStreamCaptureMode": 10010,
    "cuEventRecord": 2000,
    "cuEventSynchronize": 2000,
    "cuEventQuery": 2000,
}


def functions(calls: Calls) -> Functions:
    """The driver's functions for copies, streams and events."""
    addresses = {name: entry(name, version) for name, version in BY_ADDRESS.items()}
    return Functions(calls.inside, "cu", addresses)


def entry(name: str, version: int) -> int:
    """The address of a function of the driver, of the kind that it had in CUDA `version`
    (1000 * major + 10 * minor).

    Raises:
        DeviceError: the driver has none.
    """
    driver = bindings()
    status, address, _ = driver.cuGetProcAddress(name.encode(), version, 0)
    if status or not address:
        raise DeviceError(int(status) or NOT_FOUND, f"the NVIDIA driver has no function {name}")
    return int(address)
