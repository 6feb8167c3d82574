"""The system's calls that change what is at some addresses of this process. POSIX only."""

import ctypes
import functools
import mmap
from typing import Any

FIXED, NO_RESERVE, POPULATE = 0x10, 0x4000, 0x8000  # of Linux; Python has not all of the names

_FAILED = ctypes.c_void_p(-1).value


def lay(address: int | None, nbytes: int, protection: int, flags: int, file: int = -1) -> int:
    """mmap: the address of a new mapping of a file from its start on, or of no file (-1).

    Raises:
        OSError: the system refuses.
    """
    got = _system().mmap(address, nbytes, protection, flags, file, 0)
    if got is None or got == _FAILED:
        raise OSError(ctypes.get_errno(), "mmap")
    return int(got)


def take_away(address: int, nbytes: int) -> None:
    """munmap.

    Raises:
        OSError: the system refuses.
    """
    if _system().munmap(address, nbytes):
        raise OSError(ctypes.get_errno(), "munmap")


def protect(address: int, nbytes: int, protection: int) -> None:
    """mprotect.

    Raises:
        OSError: the system refuses.
    """
    if _system().mprotect(address, nbytes, protection):
        raise OSError(ctypes.get_errno(), "mprotect")


def empty(address: int, nbytes: int) -> None:
    """Give private pages back to the system; read again they are all zeros.

    Raises:
        OSError: the system refuses.
    """
    if _system().madvise(address, nbytes, mmap.MADV_DONTNEED):
        raise OSError(ctypes.get_errno(), "madvise")


def gap(first: int, nbytes: int) -> int:
    """The lowest address from `first` on, with nothing in `nbytes` bytes from there. Linux only."""
    with open("/proc/self/maps") as lines:
        for line in lines:
            start, stop = (int(side, 16) for side in line.split(None, 1)[0].split("-"))
            if start >= first + nbytes:
                break
            first = max(first, stop)
    return first


def prefer_huge_pages(address: int, nbytes: int) -> None:
    """Let the system use its large pages there if it has them: they are faster to get and to use.

    A wish only: a system without them refuses it, and nothing depends on it.
    """
    if hasattr(mmap, "MADV_HUGEPAGE"):
        _system().madvise(address, nbytes, mmap.MADV_HUGEPAGE)


@functools.cache
def _system() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    size, pointer, number = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
    library.mmap.argtypes = (pointer, size, number, number, number, ctypes.c_long)
    library.mmap.restype = pointer
    library.munmap.argtypes = (pointer, size)
    library.mprotect.argtypes = library.madvise.argtypes = (pointer, size, number)
    return library
