"""Ranges of addresses that are reserved first and have memory put behind their parts later.

A part without memory can be neither read nor written. Linux only. After a fork each process has its
own copy of what was there.
"""

import errno
import mmap
import os
import sys
import threading

from haulage import forks
from haulage.backends.cpu_driver import mappings, processor, room
from haulage.errors import DeviceError, OutOfMemory

# To map a part takes some 3 microseconds and to unmap it some 5 to 10, whatever its size up to
# this; to be touched first it takes 10. Of 4 KiB the calls would cost more than the memory.
GRANULARITY = max(64 << 10, mmap.PAGESIZE)

# Where a large page can begin. One takes a third of the time per byte that small ones take when
# they are touched first; a mapped part gets them for the whole ones inside it.
_HUGE = 2 << 20

# Large ranges are put far from where the system puts libraries and whatever else: code that is made
# later, by LLVM too, must be within 2 GiB of what it uses, and would come to lie beyond them.
_FIRST = (16 << 40) + int.from_bytes(os.urandom(3), "little") * _HUGE
_next = _FIRST
_LARGEST_AMONG_OTHERS = 256 << 20

# Bytes behind ranges.
_given = 0
_counting = threading.Lock()

_NOTHING, _READ_WRITE = 0, 3  # PROT_NONE, PROT_READ | PROT_WRITE: Windows has no such names


def granularity() -> int:
    """Bytes of the smallest part that memory can be put behind; 0: this system cannot do it."""
    return GRANULARITY if sys.platform.startswith("linux") else 0


def reserve(nbytes: int) -> int:
    """The address of a new range without memory, aligned to 2 MiB.

    Raises:
        OutOfMemory: the process can have no more addresses, nothing is changed.
    """
    global _next
    padded = nbytes + _HUGE
    if padded > sys.maxsize - _FIRST:
        raise _refused(OSError(errno.ENOMEM, "mmap"), "reserve", nbytes)
    wanted = _next
    try:
        got = _lay(wanted, padded)
        if got != wanted:
            # The end of the addresses, or what somebody else has put there.
            mappings.take_away(got, padded)
            wanted = mappings.gap(_FIRST, padded)
            got = _lay(wanted, padded)
    except OSError as error:
        raise _refused(error, "reserve", nbytes) from error
    if got == wanted:
        _next = (got + padded + _HUGE) & -_HUGE
    elif padded > _LARGEST_AMONG_OTHERS:
        mappings.take_away(got, padded)
        raise _refused(OSError(errno.ENOMEM, "mmap"), "reserve", nbytes)
    start = (got + _HUGE - 1) & -_HUGE
    for before, after in ((got, start), (start + nbytes, got + padded)):
        if before < after:
            mappings.take_away(before, after - before)
    mappings.prefer_huge_pages(start, nbytes)
    return start


def _lay(address: int, nbytes: int) -> int:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mappings.NO_RESERVE
    return mappings.lay(address, nbytes, _NOTHING, flags)


def release(address: int, nbytes: int) -> None:
    """Undo `reserve`, with what memory is there still.

    Raises:
        DeviceError: the system refuses.
    """
    try:
        mappings.take_away(address, nbytes)
    except OSError as error:
        raise _refused(error, "release", nbytes) from error


def put(address: int, nbytes: int) -> None:
    """Put memory behind a part of a range.

    Raises:
        OutOfMemory: there is none, nothing is changed.
        DeviceError: the system refuses, nothing is changed.
    """
    room.check(nbytes, "device")
    _count(nbytes)
    try:
        mappings.protect(address, nbytes, _READ_WRITE)
    except OSError as error:
        # It may have come to a part of it; what has no memory yet takes none by this.
        mappings.protect(address, nbytes, _NOTHING)
        _count(-nbytes)
        raise _refused(error, "map", nbytes) from error


def take(address: int, nbytes: int) -> None:
    """Give the memory behind a part of a range back to the system.

    Raises:
        DeviceError: the system refuses, nothing is changed.
    """
    try:
        mappings.empty(address, nbytes)
    except OSError as error:
        raise _refused(error, "unmap", nbytes) from error
    _count(-nbytes)
    try:
        mappings.protect(address, nbytes, _NOTHING)
    except OSError as error:
        # The process has as many mappings as it may have. That the addresses are closed only shows
        # mistakes: the memory is gone, and `put` will be right here.
        if error.errno != errno.ENOMEM:
            raise _refused(error, "unmap", nbytes) from error


def _count(nbytes: int) -> None:
    """Keep what is put behind ranges to the memory of the machine, as a device's is.

    The system gives a page when it is first touched, so it would let a program have any number.
    """
    global _given
    with _counting:
        if nbytes > 0:
            total = processor.memory()[1]
            if _given + nbytes > total:
                raise OutOfMemory(
                    f"the cpu device has no room for {nbytes:,} bytes of device memory: "
                    f"{_given:,} of its {total:,} bytes are given out"
                )
        _given += nbytes


def _start_anew() -> None:
    global _counting
    _counting = threading.Lock()


forks.in_child(_start_anew)


def _refused(error: OSError, what: str, nbytes: int) -> DeviceError:
    name = errno.errorcode.get(error.errno or 0, "?")
    if error.errno == errno.ENOMEM:
        return OutOfMemory(
            f"the cpu device cannot {what} {nbytes:,} bytes: the system has no room for them "
            f"({name}); a limit of the process's addresses (ulimit -v) or of its mappings "
            "(vm.max_map_count) can be the reason, too"
        )
    reason = os.strerror(error.errno or 0)
    return DeviceError(
        f"the cpu device cannot {what} {nbytes:,} bytes: the system refused ({name}: {reason})"
    )
