"""The functions in C that translated code calls: compiled once a process, given to the loader."""

import ctypes
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from doubles.ptx.layout import DECLARATIONS
from haulage.backends.cpu_driver import loader
from haulage.errors import DeviceError

_HERE = Path(__file__).parent
_SOURCES = ("scheduler.c", "arithmetic.c", "system.c")
# -frounding-math: what is computed with another rounding mode is computed there.
_FLAGS = ("-O2", "-fPIC", "-shared", "-frounding-math", "-ffp-contract=off")
_SYSTEM = {"__assertfail": "assertfail"}
_folders: list[Any] = []


def compiler() -> str | None:
    """The C compiler of this machine; None if there is none."""
    return shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


def build(folder: Path, *flags: str) -> Path:
    """Compile the functions into a library in a folder.

    Raises:
        RuntimeError: with what the compiler said.
    """
    cc = compiler()
    if cc is None:
        raise RuntimeError("no C compiler: neither cc, gcc nor clang is on PATH")
    library = folder / "ptx.so"
    sources = [str(_HERE / name) for name in _SOURCES]
    command = [cc, *_FLAGS, *flags, "-o", str(library), *sources, "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stderr}")
    return library


@functools.cache
def library() -> ctypes.CDLL:
    """The library of this process, whose functions code that is loaded from now on can call."""
    folder = tempfile.TemporaryDirectory(prefix="haulage-ptx-")
    _folders.append(folder)
    found = ctypes.CDLL(str(build(Path(folder.name))))

    def address(name: str) -> int:
        return ctypes.cast(getattr(found, name), ctypes.c_void_p).value or 0

    for name in DECLARATIONS:
        loader.PROVIDED[name] = functools.partial(address, name)
    for name in ("malloc", "free", "vprintf", "__assertfail"):
        called = f"ptx_{_SYSTEM.get(name, name)}"
        loader.PROVIDED[f"ptx.fn.{name}"] = functools.partial(address, called)
    return found


def raise_error() -> None:
    """Raise what stopped a launch, if something did.

    Raises:
        DeviceError: with the place.
    """
    text = ctypes.create_string_buffer(1000)
    if library().ptx_take_error(text, ctypes.c_size_t(len(text))):
        raise DeviceError(f"PTX: {text.value.decode()}")
