"""Kernels that access what is no memory of the process, or use up a stack: what Python is told.

The pool's code catches them (`guard_ir.py`) and gives a number in the place of a fault.
"""

import ctypes
import sys
from typing import Any

from haulage.backends.base import KernelCrashed, KernelStopped
from haulage.backends.cpu_driver.guard_ir import CRASH, UNKNOWN
from haulage.errors import DeviceError, IllegalAddress

# What the pool's code gives to kernels' code, and to this.
FOR_KERNELS = ("haulage_alloc", "haulage_free", "haulage_busy")
EXPORTS = (*FOR_KERNELS, "guard", "crash", "name")

_SIGBUS = 7

# So far below a stack, where a frame is wider than what lies between, an access is one of it.
_BELOW, _WITHIN = 2 << 20, 4096


class _Crash(ctypes.Structure):
    _fields_ = (
        *(
            (name, ctypes.c_uint64)
            for name in ("number", "entry", "signal", "address", "first", "last", "low", "nbytes")
        ),
        ("grid", ctypes.c_uint32 * 4),
    )


class _Name(ctypes.Structure):
    _fields_ = (
        ("next", ctypes.c_void_p),
        ("entry", ctypes.c_void_p),
        ("text", ctypes.c_char_p),
        ("nbytes", ctypes.c_int64),
    )


# Kept for as long as the process lives, as the pool's code has their addresses.
_names: list[_Name] = []
_code: Any = None


def look_out(code: Any) -> None:
    """Catch crashes of kernels from now on, with the pool's `code`, where this can be done.

    A handler of `faulthandler` that was enabled since the last call comes behind.
    """
    global _code
    _code = code
    faulthandler = sys.modules.get("faulthandler")
    front = faulthandler is not None and faulthandler.is_enabled()
    ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(code["guard"])(int(front))


def name(code: Any, entry: int, kernel: str) -> None:
    """Note how the user calls the kernel whose entry that is."""
    text = kernel.encode()
    node = _Name(None, entry, text, len(text))
    _names.append(node)
    ctypes.CFUNCTYPE(None, ctypes.POINTER(_Name))(code["name"])(node)


def stopped(function: int, fault: int) -> KernelStopped:
    """The exception for what running a kernel's blocks gave."""
    if fault < CRASH:
        return KernelStopped(function, fault)
    crash = _known(fault)
    if crash is None:
        return KernelCrashed(function, fault)
    blocks = (int(crash.first), int(crash.last) - 1)
    address = None if crash.address == UNKNOWN else int(crash.address)
    stack = 0
    if address is not None and crash.low - _BELOW <= address < crash.low + _WITHIN:
        stack = int(crash.nbytes)
    x, y, z, _ = crash.grid
    return KernelCrashed(
        function, fault, address, blocks, (x, y, z), stack, crash.signal == _SIGBUS
    )


def of_copy(fault: int, dst: int, src: int, nbytes: int) -> DeviceError:
    """The exception for a copy on all threads that failed."""
    crash = _known(fault)
    where = f", which failed at {crash.address:#x}" if crash and crash.address != UNKNOWN else ""
    return IllegalAddress(
        f"a copy of {nbytes} bytes from {src:#x} to {dst:#x}{where}: there the process has no "
        "memory that it may use so"
    )


def _known(fault: int) -> _Crash | None:
    crash = _Crash()
    known = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.POINTER(_Crash))(_code["crash"])
    return crash if known(fault, crash) else None
