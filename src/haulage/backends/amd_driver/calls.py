"""Calls of the HIP runtime, and what is raised where one fails."""

import ctypes
from typing import Any

from haulage._core.driver import NOT_PERMITTED, Functions
from haulage.backends.amd_driver.library import SIGNATURES, SINCE, find, version
from haulage.backends.gpu_driver import calls
from haulage.backends.libraries import failures
from haulage.errors import DeviceError, Unsupported

_ADVICE = calls.ADVICE | {
    3: "the runtime has ended, as the process ends, or this is a forked child",
    4: "the runtime has ended, as the process ends",
    98: "the code has no kernel of this name for the device",
    100: "no AMD device is visible: none is there, or ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES or "
    "the container hides it",
    35: "the kernel's module amdgpu is too old for this ROCm",
    101: "no such device is visible, or none at all: haulage info --verbose says what may keep it "
    "away",
    800: "a callback of a stream cannot use an AMD device: else it is easily one that waits for "
    "work that begins only when it has returned",
    801: "this version of ROCm, or the device, does not have it",
}


class Calls(calls.Calls):
    """Makes the runtime's calls, by the names of its functions. Safe to use from any thread.

    `version` is (major, minor) of ROCm.

    Raises:
        DeviceError: there is no runtime.
    """

    advice = _ADVICE
    debugger = "run the program under rocgdb"

    def __init__(self) -> None:
        super().__init__()
        found = find()
        if found.library is None:
            raise DeviceError(f"no HIP runtime: {failures(found)}")
        self._library = found.library
        self._functions: dict[str, Any] = {}
        self._forget = self.function("hipGetLastError")
        number = ctypes.c_int()
        self("hipRuntimeGetVersion", ctypes.byref(number))
        self.version = version(number.value)

    def has(self, name: str) -> bool:
        """Whether this version of the runtime has a function."""
        return hasattr(self._library, name)

    def function(self, name: str) -> Any:
        """A function; it gives its status.

        Raises:
            Unsupported: this version of the runtime does not have it.
        """
        found = self._functions.get(name)
        if found is None:
            try:
                found = self._library[name]
            except AttributeError:
                raise Unsupported(self._missing(name)) from None
            found.argtypes, found.restype = SIGNATURES[name], ctypes.c_int
            self._functions[name] = found
        return found

    def _missing(self, name: str) -> str:
        here = ".".join(map(str, self.version))
        since = SINCE.get(name)
        if since is None or since <= self.version:
            return f"{name}: the HIP runtime of ROCm {here} does not have it; please report it"
        came = ".".join(map(str, since))
        return f"{name}: the HIP runtime of ROCm {here} is too old for it, update ROCm to {came}"

    def address(self, name: str) -> int:
        """Where a function is."""
        return ctypes.cast(self.function(name), ctypes.c_void_p).value or 0

    def __call__(self, name: str, *args: Any) -> None:
        """Call a function.

        Raises:
            DeviceError, OutOfMemory: the runtime refuses: its name for the failure, what it means,
                what was asked.
            Unsupported: the runtime is too old for it.
        """
        if self.inside.callback:
            raise self.failed(name, args, NOT_PERMITTED)
        status = self.function(name)(*args)
        if status:
            raise self.failed(name, args, status)

    def status(self, name: str, *args: Any) -> int:
        """Call a function some of whose failures are answers; its status."""
        if self.inside.callback:
            raise self.failed(name, args, NOT_PERMITTED)
        return self.passed(self.function(name)(*args))

    def handle(self, name: str, *args: Any) -> int:
        """What a function writes to its first parameter, a pointer or a handle."""
        cell = ctypes.c_void_p()
        self(name, ctypes.byref(cell), *args)
        return cell.value or 0

    def number(self, name: str, *args: Any) -> int:
        """What a function writes to its first parameter, an int."""
        cell = ctypes.c_int()
        self(name, ctypes.byref(cell), *args)
        return cell.value

    def size(self, name: str, *args: Any) -> int:
        """What a function writes to its first parameter, a size_t."""
        cell = ctypes.c_size_t()
        self(name, ctypes.byref(cell), *args)
        return cell.value

    def passed(self, status: int) -> int:
        """The status of a call; the runtime keeps it no longer for who asks what failed last, which
        other libraries in the thread do."""
        if status and not self.inside.callback:
            self._forget()
        return status

    def refused(self, asked: str, status: int, log: bytes | bytearray = b"") -> DeviceError:
        """The error for a call that gave `status`, which is not 0."""
        self.passed(status)
        return super().refused(asked, status, log)

    def told(self, status: int) -> str:
        """The runtime's name for a status, and its words for it."""
        return told(self._library, status)

    def room(self) -> str:
        """How much memory of the current device is free, in words."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        asked = self.function("hipMemGetInfo")(ctypes.byref(free), ctypes.byref(total))
        if self.passed(asked):
            return "no more is known"
        return f"{free.value:,} of {total.value:,} bytes are free"


# Functions that are called by their addresses.
BY_ADDRESS = (
    "hipDeviceSynchronize",
    "hipMemcpyAsync",
    "hipStreamSynchronize",
    "hipStreamQuery",
    "hipStreamWaitEvent",
    "hipEventRecord",
    "hipEventSynchronize",
    "hipEventQuery",
)


def functions(calls: Calls) -> Functions:
    """The runtime's functions for copies, streams and events."""
    return Functions(calls.inside, "hip", {name: calls.address(name) for name in BY_ADDRESS})


def told(library: ctypes.CDLL, status: int) -> str:
    """The runtime's name for a status, and its words for it."""
    parts: list[str] = []
    for name in ("hipGetErrorName", "hipGetErrorString"):
        ask = library[name]
        ask.argtypes, ask.restype = (ctypes.c_int,), ctypes.c_char_p
        text = (ask(status) or b"").decode(errors="replace")
        if text and text not in parts:
            parts.append(text)
    return ": ".join(parts) or f"status {status}, which the runtime has no name for"
