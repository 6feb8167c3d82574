"""What the errors of drivers' calls tell. CUDA's driver and HIP have the same numbers for the same
failures."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from haulage.errors import DeviceError, OutOfMemory

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


# What to do about failures that are the same with all drivers.
ADVICE = {
    200: "the code is broken, or is for another device",
    209: "the code is for another device",
    304: "the operating system refuses",
    400: "a stream, event or kernel that is gone, or is another device's",
    701: "its registers or shared memory do not fit the device with so many threads: take smaller "
    "blocks, or max_registers or launch_bounds at the kernel's decorator",
    712: "part of the memory is pinned already",
    720: "the grid has more blocks than can be there at one time",
    900: "the stream is being captured, and this cannot be",
    901: "something before has ended the capture",
    906: "the default stream waits for streams that are being captured; use another one, or one "
    "that is non-blocking",
}


class Inside(threading.local):
    """Whether the calling thread is in a callback of a stream."""

    callback = False


class Calls(ABC):
    """Makes the errors of a driver's calls; keeps what those of a lost device tell.

    `last` has the function that was launched last in each stream, written by who launches; `names`
    the names of functions. `advice` says by the number of a failure what to do about it, `debugger`
    what finds a kernel's bad access.
    """

    advice: ClassVar[Mapping[int, str]]
    debugger: ClassVar[str]

    def __init__(self) -> None:
        self.last: dict[int, int] = {}
        self.names: dict[int, str] = {}
        self.inside = Inside()
        self._lost_in = ""

    @abstractmethod
    def told(self, status: int) -> str:
        """The driver's name for a status, and its words for it."""

    @abstractmethod
    def room(self) -> str:
        """How much memory of the current device is free, in words."""

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
        what = f"{name}({', '.join(map(_shown, args))}): {self.told(status)}"
        if status == OUT_OF_MEMORY:
            return OutOfMemory(f"{what}; {self.room()}")
        if status in _LOST:
            if not self._lost_in:
                self._lost_in = self._launched()
            return DeviceError(
                status,
                f"{what}; {_LOST[status]}. {self._lost_in} The device's memory and work are lost "
                "for this process, and all later calls fail: start it anew. To find the place, "
                f"use @jit(debug=True), or {self.debugger}",
            )
        advice = self.advice.get(status)
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


def _shown(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        try:
            value = int(value)
        except (TypeError, ValueError):
            return f"<{type(value).__name__}>"
    return f"{value:#x}" if value >= 1 << 32 else str(int(value))
