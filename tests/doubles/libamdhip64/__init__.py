"""A stand-in for the HIP runtime, `libamdhip64.so`, written in C: built when it is asked for, and
loaded before the AMD back end looks for the real one, which then finds this.

It can be loaded once in a process. Most of it is the stand-in for CUDA's driver, `doubles.libcuda`.
It loads code of AMD's GPUs and does nothing where that is launched, but for the back end's own
kernels, which it has in C as it has those of the conformance suite (`CODE`).
"""

import ctypes
import os
import struct
import sys
from pathlib import Path

import pytest

from doubles import libcuda
from haulage import channel, platforms

_FOLDER = Path(__file__).parent
SOURCES = [
    *sorted(_FOLDER.glob("*.[ch]")),
    *(
        libcuda.FOLDER / name
        for name in ("code.c", "double.h", "driver.c", "memory.c", "streams.c")
    ),
]
# Where it is on PYTHONPATH, Python starts with `of_tests`.
EVERYWHERE = _FOLDER / "everywhere"
# The same with `idle_one`.
IDLE = _FOLDER / "idle"

# A code object as the stand-in knows it: the header of an ELF file for AMD's GPUs, and a text.
CODE = (
    struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01@\3", 3, 224, 1, *[0] * 4, 64, *[0] * 5)
    + b"kernels of the conformance suite\0"
)

HELD = (
    *("stream", "event", "module", "graph", "executable", "memory", "host memory"),
    *("registration", "range", "chunk", "opened"),
)


def build(major: int) -> Path:
    """The library as that of a ROCm: 5 (5.2), or 6 and later (7.1)."""
    flags = ["-DEXPORT=", f"-DHIP_MAJOR={major}", f"-I{libcuda.FOLDER}"]
    flags += [f'-DCHANNEL_NAME="{channel.CHANNEL}"', f'-DMODULE_NAME="{channel.MODULE}"']
    flags.append(f"-DFAULTS_AT={channel.FAULTS_AT}")
    return libcuda.built(f"libamdhip64.so.{major}", SOURCES, flags)


class Double:
    """The loaded library, and the knobs that it has beside the runtime's functions."""

    def __init__(
        self,
        devices: int = 1,
        major: int = 7,
        memory: int = 1 << 30,
        init_status: int = 0,
        architecture: str = "gfx90a:sramecc+:xnack-",
    ) -> None:
        """Load it, with so many devices of `memory` bytes."""
        self.library = ctypes.CDLL(str(build(major)), mode=ctypes.RTLD_GLOBAL)
        self.library.hip_double_call.restype = ctypes.c_char_p
        self.library.hip_double_configure(devices, ctypes.c_uint64(memory), init_status)
        self.architecture(architecture)

    def architecture(self, name: str) -> None:
        """Let the devices be of an architecture, with what it has switched on or off."""
        self.library.hip_double_architecture(name.encode())

    def version(self, number: int) -> None:
        """Tell another version: 10000000 * major + 100000 * minor."""
        self.library.hip_double_version(number)

    def attribute(self, number: int, value: int) -> None:
        """Let all devices have another value of an attribute; -1: the runtime does not know it."""
        self.library.hip_double_attribute(number, value)

    def parameters(self, count: int) -> None:
        """Say how many arguments of 8 bytes the kernels have that are launched together from now
        on; each is in the log."""
        self.library.hip_double_parameters(count)

    def without(self, managed: bool = False, ranges: bool = False) -> None:
        """Have no managed memory, or no addresses to reserve."""
        self.library.hip_double_without(managed, ranges)

    def fail(self, name: str, status: int, after: int = 0, times: int = 1) -> None:
        """Let calls of a function give `status`: after so many that do not, so many times."""
        self.library.hip_double_fail(name.encode(), status, after, times)

    def heal(self) -> None:
        """No more failures; a lost device is there again."""
        self.library.hip_double_heal()

    def lose(self, status: int) -> None:
        """Let all calls that need a device give `status`."""
        self.library.hip_double_lose(status)

    def calls(self, name: str) -> int:
        """How often a function of the runtime was called."""
        return int(self.library.hip_double_calls(name.encode()))

    def log(self, since: int = 0) -> list[tuple[str, int, int]]:
        """What was called, with two numbers where the call is one of memory or of work."""
        found = []
        first, second = ctypes.c_uint64(), ctypes.c_uint64()
        for number in range(since, self.library.hip_double_count()):
            name = self.library.hip_double_call(number, ctypes.byref(first), ctypes.byref(second))
            found.append((name.decode(), first.value, second.value))
        return found

    def now(self) -> int:
        """Where the log ends."""
        return int(self.library.hip_double_count())

    def alive(self) -> dict[str, int]:
        """How many of each kind of handle there are, of those that there are."""
        counts = {kind: self.library.hip_double_alive(i) for i, kind in enumerate(HELD)}
        return {kind: count for kind, count in counts.items() if count}

    def misuses(self) -> tuple[int, str]:
        """How often a handle was given that is none, and where that was last."""
        where = ctypes.create_string_buffer(64)
        return int(self.library.hip_double_misuses(where)), where.value.decode()

    def last_error(self) -> int:
        """What other libraries in this thread would be told of as the last failure."""
        return int(self.library.hip_double_last_error())


_NEEDS_A_KERNEL = "needs a kernel, which the stand-in for the HIP runtime cannot run"

_of_tests: Double | None = None


def of_tests() -> Double:
    """Two devices, which Python processes that are started from now on have as well."""
    global _of_tests
    if _of_tests is None:
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if str(EVERYWHERE) not in paths:
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(EVERYWHERE), *paths]))
            # Tests hand this on to programs, too.
            sys.path.append(str(EVERYWHERE))
        _of_tests = Double(devices=2, major=int(os.environ.get("HAULAGE_TESTS_ROCM", "7")))
    return _of_tests


def idle_one() -> Double:
    """A device whose kernels do nothing, and whose runtime works in no threads: what is measured on
    it is the host's part of launches, copies and allocations."""
    double = Double()
    double.library.hip_double_idle()
    return double


def skip_tests_with_kernels() -> None:
    """From now on a test is skipped where it comes to a kernel, which this cannot run."""

    def no_target(platform: platforms.Platform, *args: object) -> None:
        if platform.name == "amd":
            # Some modules make theirs when they are imported.
            pytest.skip(_NEEDS_A_KERNEL, allow_module_level=True)
        return new_target(platform, *args)

    new_target = platforms.Platform.new_target
    platforms.Platform.new_target = no_target


def is_of_tests() -> bool:
    """Whether this process has the devices of `of_tests`."""
    return _of_tests is not None
