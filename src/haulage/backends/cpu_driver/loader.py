"""Host object files, linked into this process by LLVM's ORC.

Every exported function of an object is looked up when the object is loaded, so that a symbol that
nobody has is an error of the load and not of the first launch.
"""

import contextlib
import ctypes
import functools
import itertools
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from haulage import forks
from haulage._core import arithmetic, check, lint, pool
from haulage.backends.cpu_driver import elf, linker
from haulage.errors import DeviceError

# glibc's vector mathematics, which vectorised kernels call by these names.
_VECTOR_MATH, _VECTOR_MATH_PREFIX = "libmvec.so.1", "_ZGV"

# Functions of the driver that code may call, by name: each gives its address when first needed.
PROVIDED: dict[str, Callable[[], int]] = {
    name: functools.partial(int, address)
    for name, address in {
        **pool.FOR_KERNELS,
        **arithmetic.FOR_KERNELS,
        **check.FOR_KERNELS,
        **lint.FOR_KERNELS,
    }.items()
}


@dataclass
class _Module:
    tracker: Any  # LLVM keeps the code as long as this lives
    functions: dict[str, int]


class Loader:
    """The modules that are loaded, by handle. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._modules: dict[int, _Module] = {}
        self._handles = itertools.count(1)

    def load(self, code: bytes) -> int:
        """Link an object file; returns a module handle.

        Raises:
            DeviceError: not an object file of this machine, or a symbol that nobody has.
        """
        functions, missing = elf.symbols(code)
        tracker = link(functions, code, missing)
        with self._lock:
            handle = next(self._handles)
            self._modules[handle] = _Module(tracker, {n: tracker[n] for n in functions})
        return handle

    def unload(self, handle: int) -> None:
        """Give the code of a module back."""
        with self._lock:
            module = self._modules.pop(handle, None)
        if module is None:
            raise DeviceError(f"the cpu device has no module {handle}; it may be unloaded")
        with LINKING:
            module.tracker.close()

    def function(self, handle: int, name: str) -> int:
        """The address of an exported function."""
        module = self._modules.get(handle)
        if module is None:
            raise DeviceError(f"the cpu device has no module {handle}; it may be unloaded")
        address = module.functions.get(name)
        if address is None:
            raise DeviceError(
                f"module {handle} has no function {name!r}; "
                f"it has {', '.join(sorted(module.functions)) or 'none'}"
            )
        return address

    def exports(self, handle: int, name: str) -> bool:
        """Whether a module that is loaded has a function of that name."""
        return name in self._modules[handle].functions

    def renew_lock(self) -> None:
        """After a fork, in the child: the lock may have been held by a thread that is gone."""
        self._lock = threading.RLock()


_jit: Any = None
# Held while code is linked, and taken after the pool's lock by those who need both.
LINKING = threading.RLock()
_library_numbers = itertools.count(1)


def _lock_of_llvm() -> Any:
    # llvmlite has it around each of its calls, and takes it too when what was made with it goes.
    ffi = sys.modules.get("llvmlite.binding.ffi")
    return None if ffi is None else ffi.lib._lock._lock


# The child would find them locked for ever.
forks.held(lambda: LINKING)
forks.held(_lock_of_llvm)


def link(exports: list[str], code: bytes, needs: list[str]) -> Any:
    """Link an object; returns what gives addresses by name, until it is closed.

    As long as nothing else has loaded LLVM, an object that `linker` knows how to link is linked
    without it.

    `needs` are the names that the object leaves to others; they are only looked at to provide
    what is the driver's own and vector mathematics, and to say which one nobody has.

    Raises:
        DeviceError: with LLVM's text.
    """
    if linker.is_possible() and not _llvm_is_loaded():
        with LINKING, contextlib.suppress(linker.CannotLink):
            return linker.link(code, _find)
    global _jit
    with LINKING:
        # In here, as a child that is forked in the midst of this could not import it.
        import llvmlite.binding as llvm

        if _jit is None:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            _jit = llvm.create_lljit_compiler(suppress_errors=True)
            _immortal(_jit)  # worker threads run its code until the process is gone
        if any(name.startswith(_VECTOR_MATH_PREFIX) for name in needs):
            _load_vector_math()
        builder = llvm.JITLibraryBuilder().add_current_process().add_object_img(code)
        provided = [name for name in needs if name in PROVIDED]
        for name in provided:
            builder.import_symbol(name, PROVIDED[name]())
        for name in exports:
            builder.export_symbol(name)
        try:
            return builder.link(_jit, f"haulage.kernel.{next(_library_numbers)}")
        except RuntimeError as error:
            others = [name for name in needs if name not in provided]
            nowhere = [name for name in others if not llvm.address_of_symbol(name)]
            reason = f"nobody has {', '.join(nowhere)}: " if nowhere else ""
            raise DeviceError(f"the cpu device did not take the code: {reason}{error}") from error


def _find(name: str) -> int | None:
    """The address of a symbol that an object leaves to others."""
    if name in PROVIDED:
        return PROVIDED[name]()
    if name.startswith(_VECTOR_MATH_PREFIX):
        _load_vector_math()
    return linker.address_of(name)


def _llvm_is_loaded() -> bool:
    return "llvmlite" in sys.modules


@functools.cache
def _load_vector_math() -> None:
    # Where there is no such library the link fails and names the functions.
    with contextlib.suppress(OSError):
        ctypes.CDLL(_VECTOR_MATH, mode=ctypes.RTLD_GLOBAL)


def _immortal(thing: object) -> None:
    """Keep an object from ever being disposed of, also when the interpreter ends."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
