"""Kernels that access what is no memory of the process, or use up a stack: what Python is told.

The workers' code catches them and gives a number in the place of a fault.
"""

import sys
from signal import SIGBUS
from typing import NamedTuple

from haulage._core import pool
from haulage.backends.base import KernelCrashed, KernelStopped
from haulage.errors import DeviceError, IllegalAddress

# So far below a stack, where a frame is wider than what lies between, an access is one of it.
_BELOW, _WITHIN = 2 << 20, 4096


class _Crash(NamedTuple):
    """What is known of a crash: blocks from `first` on below `last`, and of the thread's stack the
    lowest address and the bytes."""

    signal: int
    address: int
    first: int
    last: int
    low: int
    nbytes: int
    grid: tuple[int, int, int]


def look_out() -> None:
    """Catch crashes of kernels from now on, where this can be done.

    A handler of `faulthandler` that was enabled since the last call comes behind.
    """
    faulthandler = sys.modules.get("faulthandler")
    pool.look_out(faulthandler is not None and faulthandler.is_enabled())


def stopped(function: int, fault: int) -> KernelStopped:
    """The exception for what running a kernel's blocks gave."""
    if fault < pool.CRASH:
        return KernelStopped(function, fault)
    crash = _known(fault)
    if crash is None:
        return KernelCrashed(function, fault)
    blocks = (crash.first, crash.last - 1)
    address = None if crash.address == pool.UNKNOWN else crash.address
    stack = 0
    if address is not None and crash.low - _BELOW <= address < crash.low + _WITHIN:
        stack = crash.nbytes
    return KernelCrashed(
        function, fault, address, blocks, crash.grid, stack, crash.signal == SIGBUS
    )


def of_copy(fault: int, dst: int, src: int, nbytes: int) -> DeviceError:
    """The exception for a copy on all threads that failed."""
    crash = _known(fault)
    where = (
        f", which failed at {crash.address:#x}" if crash and crash.address != pool.UNKNOWN else ""
    )
    return IllegalAddress(
        f"a copy of {nbytes} bytes from {src:#x} to {dst:#x}{where}: there the process has no "
        "memory that it may use so"
    )


def _known(fault: int) -> _Crash | None:
    known = pool.crash(fault)
    return None if known is None else _Crash(*known)
