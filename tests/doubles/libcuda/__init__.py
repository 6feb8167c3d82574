"""A stand-in for NVIDIA's driver library, written in C: built when it is asked for, and loaded
before `cuda-bindings` looks for the real one, which then finds this.

It can be loaded in a process without NVIDIA's driver only, once, before anything there has called
`cuda.bindings.driver`; tests do so in processes of their own.
"""

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from doubles.ptx import ARCHITECTURE

FOLDER = Path(__file__).parent
SOURCES = sorted(FOLDER.glob("*.[ch]"))
# Where it is on PYTHONPATH, Python starts with `of_tests`.
EVERYWHERE = Path(__file__).parent / "everywhere"
# The same with `idle_one`.
IDLE = Path(__file__).parent / "idle"
# What Haulage tells of devices that run PTX only.
NO_MACHINE_CODE = ".*does not take the machine code"
# What a kernel that raises gives: CUDA_ERROR_LAUNCH_FAILED.
FAILED = 719

_FLAGS = ("-std=gnu11", "-O1", "-Wall", "-Werror", "-fvisibility=hidden", "-shared", "-fPIC")


def compiler() -> str | None:
    """The C compiler of this machine; None: it has none."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build() -> Path:
    """The library, built from the sources in this folder if that was not done before."""
    return built("libcuda.so.1", SOURCES)


def built(name: str, sources: list[Path], flags: Sequence[str] = ()) -> Path:
    """A library of that name, built from sources in C if that was not done before."""
    text = "\n".join(flags).encode() + b"".join(source.read_bytes() for source in sources)
    digest = hashlib.sha256(text).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"haulage-{name.partition('.')[0]}-{digest}"
    library = folder / name
    if not library.exists():
        folder.mkdir(exist_ok=True)
        command = [compiler() or "cc", *_FLAGS, *flags, f"-Wl,-soname,{name}"]
        command += [str(source) for source in sources if source.suffix == ".c"]
        with tempfile.TemporaryDirectory(dir=folder) as own:
            made = Path(own) / library.name
            subprocess.run([*command, "-o", str(made), "-ldl", "-lpthread"], check=True)
            made.replace(library)
    return library


# What the library calls as long as the process runs.
_kept: list[Any] = []


class Double:
    """The loaded library, and the knobs that it has beside the driver's functions."""

    def __init__(
        self, devices: int = 1, version: int = 13000, memory: int = 1 << 30, init_status: int = 0
    ) -> None:
        """Load it, with so many devices of `memory` bytes and the version that it tells."""
        self.library = ctypes.CDLL(str(build()), mode=ctypes.RTLD_GLOBAL)
        self.library.double_configure(devices, version, ctypes.c_uint64(memory), init_status)

    def fail(self, name: str, status: int, after: int = 0, times: int = 1) -> None:
        """Let calls of a function give `status`: after so many that do not, so many times."""
        self.library.double_fail(name.encode(), status, after, times)

    def heal(self) -> None:
        """No more failures; a lost device is there again."""
        self.library.double_heal()

    def lose(self, status: int) -> None:
        """Let all calls that need a context give `status`."""
        self.library.double_lose(status)

    def attribute(self, number: int, value: int) -> None:
        """Let all devices have another value of an attribute."""
        self.library.double_attribute(number, value)

    def calls(self, name: str) -> int:
        """How often a function of the driver was called."""
        return int(self.library.double_calls(name.encode()))

    def interpret(self, interpreter: "Interpreter") -> None:
        """Let code be what `interpreter` says."""
        table = interpreter.table()
        _kept.append(table)
        self.library.double_interpreter(ctypes.byref(table))


_u64, _int, _ptr = ctypes.c_uint64, ctypes.c_int, ctypes.c_void_p
_u64_at, _int_at = ctypes.POINTER(_u64), ctypes.POINTER(_int)
_SIGNATURES = {
    "load": ctypes.CFUNCTYPE(_int, _ptr, _ptr, ctypes.c_size_t, _u64_at),
    "unload": ctypes.CFUNCTYPE(_int, _u64),
    "function": ctypes.CFUNCTYPE(_int, _u64, ctypes.c_char_p, _u64_at),
    "symbol": ctypes.CFUNCTYPE(_int, _u64, ctypes.c_char_p, _u64_at, _u64_at),
    "launch": ctypes.CFUNCTYPE(
        _int, _u64, ctypes.POINTER(ctypes.c_uint), _ptr, ctypes.c_size_t, _int
    ),
    "attribute": ctypes.CFUNCTYPE(_int, _u64, _int, _int_at),
}


class _Table(ctypes.Structure):
    _fields_ = list(_SIGNATURES.items())


class Refused(Exception):
    """What methods of an `Interpreter` raise: the status, and the text of the log."""

    def __init__(self, status: int, log: str = "") -> None:
        super().__init__(status, log)
        self.status = status
        self.log = log


class Interpreter:
    """What the double's code is: modules, functions and launches. All may raise `Refused`."""

    def load(self, code: bytes) -> int:
        """A module's handle."""
        raise NotImplementedError

    def unload(self, module: int) -> None:
        """The module is not needed any more."""

    def function(self, module: int, name: str) -> int:
        """The handle of one of its functions."""
        raise NotImplementedError

    def symbol(self, module: int, name: str) -> tuple[int, int]:
        """Address and bytes of one of its variables."""
        raise Refused(500)

    def launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_bytes: int,
        args: bytes,
        together: bool,
    ) -> None:
        """Run a kernel, on the memory that its arguments name; `together`: all its blocks are there
        at one time."""
        raise NotImplementedError

    def attribute(self, function: int, attribute: int) -> int:
        """CUDA's attribute of a function, by its number."""
        return 0

    def table(self) -> _Table:
        """The methods as C functions."""
        made = {
            "load": self._load,
            "unload": lambda module: self.unload(module),
            "function": self._function,
            "symbol": self._symbol,
            "launch": self._launch,
            "attribute": self._attribute,
        }
        return _Table(**{name: kind(_status_of(made[name])) for name, kind in _SIGNATURES.items()})

    def _load(self, image: int, log: int | None, log_bytes: int, into: Any) -> None:
        try:
            into[0] = self.load(image_at(image))
        except Refused as refused:
            if log and log_bytes:
                text = refused.log.encode()[: log_bytes - 1] + b"\0"
                ctypes.memmove(log, text, len(text))
            raise

    def _function(self, module: int, name: bytes, into: Any) -> None:
        into[0] = self.function(module, name.decode())

    def _symbol(self, module: int, name: bytes, address: Any, size: Any) -> None:
        address[0], size[0] = self.symbol(module, name.decode())

    def _launch(self, function: int, dims: Any, args: int, size: int, together: int) -> None:
        gx, gy, gz, bx, by, bz, shared = dims[:7]
        packed = ctypes.string_at(args, size) if size else b""
        self.launch(function, (gx, gy, gz), (bx, by, bz), shared, packed, bool(together))

    def _attribute(self, function: int, attribute: int, into: Any) -> None:
        into[0] = self.attribute(function, attribute)


def image_at(address: int) -> bytes:
    """The bytes of a cubin, or of PTX text up to its zero byte."""
    if ctypes.string_at(address, 4) != b"\x7fELF":
        return ctypes.string_at(address)
    table = int.from_bytes(ctypes.string_at(address + 40, 8), "little")
    entry, count = (int.from_bytes(ctypes.string_at(address + at, 2), "little") for at in (58, 60))
    return ctypes.string_at(address, table + entry * count)


def _status_of(method: Callable[..., None]) -> Callable[..., int]:
    def called(*args: Any) -> int:
        try:
            method(*args)
        except Refused as refused:
            return refused.status
        except Exception:
            traceback.print_exc()
            return FAILED
        return 0

    return called


def of_tests() -> Double:
    """Two devices for which kernels are made of instructions that `doubles.ptx` knows.

    Python processes that are started from now on have them as well. A process that was started by
    one that has them has them already.
    """
    global _of_tests
    if _of_tests is None:
        paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if str(EVERYWHERE) not in paths:
            os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(EVERYWHERE), *paths]))
            # Tests hand this on to programs, too.
            sys.path.append(str(EVERYWHERE))
        _of_tests = Double(devices=2)
        number = int(ARCHITECTURE.removeprefix("sm_"))
        for attribute, value in zip(_CAPABILITY, divmod(number, 10), strict=True):
            _of_tests.attribute(attribute, value)
        _of_tests.interpret(_OnceNeeded())
        warnings.filterwarnings("ignore", NO_MACHINE_CODE)
    return _of_tests


def idle_one() -> Double:
    """A device whose kernels do nothing, and whose driver works in no threads: what is measured on
    it is the host's part of launches, copies and allocations."""
    double = Double()
    double.library.double_idle()
    warnings.filterwarnings("ignore", NO_MACHINE_CODE)
    return double


def is_of_tests() -> bool:
    """Whether this process has the devices of `of_tests`."""
    return _of_tests is not None


class _OnceNeeded(Interpreter):
    """`Reading`, which needs a compiler and much of Haulage, when there is code to read."""

    @functools.cached_property
    def reading(self) -> Interpreter:
        from doubles.libcuda.reading import Reading

        return Reading()

    def load(self, code: bytes) -> int:
        """As `Reading` does; and so on."""
        return self.reading.load(code)

    def unload(self, module: int) -> None:
        self.reading.unload(module)

    def function(self, module: int, name: str) -> int:
        return self.reading.function(module, name)

    def symbol(self, module: int, name: str) -> tuple[int, int]:
        return self.reading.symbol(module, name)

    def launch(self, function: int, *launched: Any) -> None:
        self.reading.launch(function, *launched)

    def attribute(self, function: int, attribute: int) -> int:
        return self.reading.attribute(function, attribute)


_of_tests: Double | None = None
# The attributes of devices that tell their compute capability.
_CAPABILITY = (75, 76)
