"""Calls of the HIP runtime, and what is raised where one fails."""

import ctypes
import sys
from ctypes import byref
from typing import Any

from haulage.backends.amd_driver import forms
from haulage.backends.amd_driver.attributes import ATTRIBUTES
from haulage.backends.amd_driver.library import OTHERWISE, SIGNATURES, SINCE, find, version
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
    801: "this version of ROCm, or the device, does not have it",
}

# What the runtime gives for attributes that it, or a device, does not have.
UNKNOWN = (1, 801)

# Structures that tell of addresses without memory had another layout before.
_RANGES = (6, 0)

# What nodes of graphs do. Until ROCm 5.2 numbers begin with 1 for kernels, and copies of one axis,
# from and to symbols have numbers of their own; later with 0.
_WORK_5 = (1, 2, 3, 9, 10, 11)
_WORK = (0, 1, 2)


class Calls(calls.Calls):
    """Makes the runtime's calls, by ctypes.

    `version` is (major, minor) of ROCm.

    Raises:
        DeviceError: there is no runtime.
    """

    kind = "amd"
    prefix = "hip"
    knows_unrecorded = False
    launch_end = 3  # HIP_LAUNCH_PARAM_END
    advice = _ADVICE
    debugger = "run the program under rocgdb"
    device_words = "an AMD device"
    driver_words = "the HIP runtime"
    fork_words = "HIP"
    handle_type = "hipIpcMemHandle_t"

    def __init__(self) -> None:
        super().__init__()
        found = find()
        if found.library is None:
            raise DeviceError(f"no HIP runtime: {failures(found)}")
        self._library = found.library
        self._names = dict(OTHERWISE)
        if not self.has("hipLaunchHostFunc"):
            self._names["LaunchHostFunc"] = "hipStreamAddCallback"
        self._forget = self._function("hipGetLastError")
        self.version = version(self("RuntimeGetVersion"))
        self.has_ranges = self.version >= _RANGES
        self._table |= forms.forms(self._made_of, self.has, self.version)

    def has(self, name: str) -> bool:
        """Whether this version of the runtime has a function."""
        return hasattr(self._library, name)

    def named(self, name: str) -> str:
        """The runtime's name of a call."""
        return self._names.get(name) or super().named(name)

    def _function(self, name: str) -> Any:
        """A function; it gives its status.

        Raises:
            Unsupported: this version of the runtime does not have it.
        """
        try:
            found = self._library[name]
        except AttributeError:
            raise Unsupported(self._missing(name)) from None
        found.argtypes, found.restype = SIGNATURES[name], ctypes.c_int
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
        function = self._function(self.named(name))
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    def _made(self, name: str) -> calls.Answering:
        return self._made_of(self.named(name))

    def _made_of(self, name: str) -> calls.Answering:
        """A function that takes what goes in, and gives the status and what comes out."""
        function = self._function(name)
        written = [
            (place, kind._type_)
            for place, kind in enumerate(SIGNATURES[name])
            if issubclass(kind, ctypes._Pointer)
        ]
        if not written:
            return lambda *args: (function(*args), None)
        if len(written) == 1:
            ((place, kind),) = written

            def made(*args: Any) -> tuple[int, Any]:
                cell = kind()
                return function(*args[:place], byref(cell), *args[place:]), cell.value or 0

            return made

        def made_of_several(*args: Any) -> tuple[int, Any]:
            cells = [kind() for _, kind in written]
            assert [place for place, _ in written] == list(range(len(cells)))
            status = function(*map(byref, cells), *args)
            return status, tuple(cell.value or 0 for cell in cells)

        return made_of_several

    def passed(self, status: int) -> int:
        """The status of a call; the runtime keeps it no longer for who asks what failed last, which
        other libraries in the thread do."""
        if status and not self.inside.callback:
            self._forget()
        return status

    def told(self, status: int) -> str:
        """The runtime's name for a status, and its words for it."""
        return told(self._library, status)

    def hold(self, device: int) -> int:
        """A device's number: HIP has one context for each, which is held as long as the process
        lives and which all libraries use. Numbers of devices that are not there are refused here,
        not when they are used."""
        self.make_current(device)
        return device

    def make_current(self, handle: int) -> None:
        """Make a device current in this thread."""
        self("SetDevice", handle)

    def attribute(self, device: int, name: str) -> int:
        """One of the device's figures; 0 where the runtime does not know it."""
        return self.known_attribute(device, ATTRIBUTES[name]) or 0

    def known_attribute(self, device: int, number: int) -> int | None:
        """None: the runtime does not know it, as an older one the latest."""
        status, value = self.ask("DeviceGetAttribute", number, device)
        if status and status not in UNKNOWN:
            raise self.failed("DeviceGetAttribute", (number, device), status)
        return None if status else value

    def names_chunks_by_files(self, device: int) -> bool:
        """So it is on Linux."""
        return sys.platform.startswith("linux")

    def nodes(self, graph: int) -> int:
        """How many copies, fills and launches a recorded graph has."""
        count = ctypes.c_size_t()
        self("GraphGetNodes", graph, None, byref(count))
        if not count.value:
            return 0
        nodes = (ctypes.c_void_p * count.value)()
        self("GraphGetNodes", graph, nodes, byref(count))
        work = _WORK_5 if self.version < (5, 3) else _WORK
        return sum(self("GraphNodeGetType", node) in work for node in nodes)


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
