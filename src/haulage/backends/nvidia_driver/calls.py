"""Calls of CUDA's driver, and what is raised where one fails."""

import functools
import importlib
import threading
from collections.abc import Callable, Iterable
from typing import Any

from haulage.backends.nvidia_driver import looking
from haulage.errors import DeviceError, OutOfMemory, Unsupported

OUT_OF_MEMORY, NOT_FOUND, NOT_READY, NOT_PERMITTED = 2, 500, 600, 800

# After these nothing of the context works any more: each later call gives the same.
_LOST = {
    214: "the device's memory has a fault (ECC)",
    700: "a kernel read or wrote memory that is not there, or that was given back",
    702: "a kernel ran longer than the system lets it on a device with a display",
    710: "an assert of a kernel failed",
    714: "the stack of a kernel's thread is broken",
    715: "a kernel ran an instruction that the device does not have",
    716: "a kernel read or wrote memory at an address that is no multiple of the value's size",
    717: "a kernel used memory in a way that is for another kind of memory",
    718: "a kernel ran on at an address that holds no code",
    719: "a kernel failed, mostly by an access of shared or global memory out of bounds",
    721: "a connection between devices failed",
    725: "a tensor kernel leaked memory",
}

_ADVICE = {
    3: "the driver has ended, as the process ends, or this is a forked child",
    200: "the code is broken, or is for another device",
    201: "another library has destroyed the context of the device, or reset the device",
    209: "the code is for another device",
    218: "the driver could not assemble the code",
    222: "the code is newer than the driver: update the driver",
    304: "the operating system refuses",
    400: "a stream, event or kernel that is gone, or is another device's",
    701: "its registers or shared memory do not fit the device with so many threads: take smaller "
    "blocks, or max_registers or launch_bounds at the kernel's decorator",
    712: "part of the memory is pinned already",
    720: "the grid has more blocks than can be there at one time",
    800: "a callback of a stream cannot use an NVIDIA device: else it is easily one that waits for "
    "work that begins only when it has returned",
    900: "the stream is being captured, and this cannot be",
    901: "something before has ended the capture",
    906: "the default stream waits for streams that are being captured; use another one, or one "
    "that is non-blocking",
}


@functools.cache
def bindings() -> Any:
    """`cuda.bindings.driver`."""
    return importlib.import_module(looking.BINDINGS)


class _Inside(threading.local):
    """Whether the calling thread is in a callback of a stream."""

    callback = False


class Calls:
    """Makes the driver's calls; keeps what the errors of a lost device tell.

    `last` has the function that was launched last in each stream, written by who launches; `names`
    the names of functions.
    """

    def __init__(self) -> None:
        self.last: dict[int, int] = {}
        self.names: dict[int, str] = {}
        self.inside = _Inside()
        self._lost_in = ""

    def __call__(self, function: Callable[..., Any], *args: Any) -> Any:
        """What a function of `cuda.bindings.driver` gives: nothing, a value, or several.

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
        except ValueError as error:
            # A status that the driver has and cuda-bindings does not know yet.
            raise DeviceError(f"{function.__name__}: {error}") from error
        if answer[0]:
            raise self.failed(function.__name__, args, int(answer[0]))
        return answer[1] if len(answer) == 2 else answer[1:]

    def failed(
        self, name: str, args: Iterable[Any], status: int, log: bytes | bytearray = b""
    ) -> DeviceError:
        """The error for a call that gave `status`, which is not 0; `log` is what the driver's
        assembler or linker wrote, up to a zero byte."""
        error = self._failed(name, args, status)
        text = bytes(log).partition(b"\0")[0].decode(errors="replace").strip()
        if text:
            error.msg = f"{error.msg}\n{text}"
            error.args = (error.code, error.msg)
        return error

    def _failed(self, name: str, args: Iterable[Any], status: int) -> DeviceError:
        what = f"{name}({', '.join(map(_shown, args))}): {told(status)}"
        if status == OUT_OF_MEMORY:
            return OutOfMemory(f"{what}; {room()}")
        if status in _LOST:
            if not self._lost_in:
                self._lost_in = self._launched()
            return DeviceError(
                status,
                f"{what}; {_LOST[status]}. {self._lost_in} The device's memory and work are lost "
                "for this process, and all later calls fail: start it anew. To find the place, "
                "use @jit(debug=True), or run the program under NVIDIA's compute-sanitizer",
            )
        advice = _ADVICE.get(status)
        return DeviceError(status, f"{what}; {advice}" if advice else what)

    def _launched(self) -> str:
        """Which kernels it can have been, in a sentence."""
        names = [self.names.get(function, f"{function:#x}") for function in self.last.values()]
        if not names:
            return "Haulage has launched no kernel."
        if len(names) == 1:
            return f"Kernel {names[0]} was running, or was launched last."
        streams = [f"stream {each:#x}" if each else "the default stream" for each in self.last]
        listed = (f"{name} in {each}" for name, each in zip(names, streams, strict=True))
        return f"Launched last: {', '.join(listed)}."


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


def _shown(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        try:
            value = int(value)
        except (TypeError, ValueError):
            return f"<{type(value).__name__}>"
    return f"{value:#x}" if value >= 1 << 32 else str(int(value))


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
