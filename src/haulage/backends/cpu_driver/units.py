"""Units of memory whose pages other processes map, and the pieces of them that were exported.

Memory is private to the process until it is first exported, so that a process that was forked
cannot write into its parent's arrays. Pages are what a system shares; so the whole unit that a
piece is part of, which owns its pages, is shared, and its other pieces go on working. It is private
again when no piece of it is exported any more. Until then pieces that were withdrawn give no new
memory: a process that still has them open would write into it.
"""

import os
import sys
import threading
from typing import TYPE_CHECKING

from haulage.backends.cpu_driver import room
from haulage.errors import Unsupported

if TYPE_CHECKING:
    from haulage.backends.cpu_driver.ipc import SharedPages


class Unit:
    """A unit that is shared now; `alone` if one piece is all of it."""

    __slots__ = ("alone", "pages", "withdrawn")

    def __init__(self, pages: "SharedPages", alone: bool) -> None:
        self.pages = pages
        self.alone = alone
        self.withdrawn: list[int] = []


class Units:
    """All shared units of the device. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._shared: dict[int, Unit] = {}  # by the unit's start
        self._of: dict[int, Unit] = {}  # by the exported piece
        # Pages that were shared and are private copies of a file's now, start -> bytes. The system
        # would fill them from the file if their memory were given back as it is.
        self._copies: dict[int, int] = {}

    def handle(self, piece: int, nbytes: int, start: int) -> bytes | None:
        """The handle of a piece of the unit at `start`; None if the unit is not shared yet."""
        with self._lock:
            unit = self._shared.get(start)
            return None if unit is None else self._handle(unit, piece, nbytes)

    def share(self, piece: int, nbytes: int, start: int, unit_nbytes: int) -> bytes:
        """`handle`, after the unit has become shared; no work may be running on the device.

        Raises:
            Unsupported: the system cannot do it.
            OutOfMemory, DeviceError: it refuses; nothing is changed.
        """
        check_sharing()
        from haulage.backends.cpu_driver.ipc import PAGE, SMALLEST, SharedPages

        with self._lock:
            unit = self._shared.get(start)
            if unit is None:
                room.check(unit_nbytes, "shared")
                size = (unit_nbytes + PAGE - 1) & -PAGE
                alone = piece == start and unit_nbytes - nbytes < SMALLEST
                unit = Unit(SharedPages(start, size), alone)
                # Noted first: a process that is forked from now on must not share these pages.
                self._shared[start] = unit
                try:
                    unit.pages.begin()
                    self._forget_copies(start, size)
                except BaseException:
                    unit.pages.end(keep=True)
                    del self._shared[start]
                    raise
            return self._handle(unit, piece, nbytes)

    def _handle(self, unit: Unit, piece: int, nbytes: int) -> bytes:
        handle = unit.pages.handle(piece, nbytes)
        self._of[piece] = unit
        return handle

    def withdraw(self, piece: int) -> tuple[int, ...]:
        """Let a handle open nothing any more; which pieces no other process reaches by now.

        Raises:
            OutOfMemory, DeviceError: the system refuses; the pieces of the unit stay reachable for
                those that have them open.
        """
        with self._lock:
            unit = self._of.pop(piece, None)
            if unit is None:
                return (piece,)
            unit.pages.withdraw(piece)
            unit.withdrawn.append(piece)
            if unit.pages.exported():
                return ()
            if unit.alone:
                unit.pages.end(keep=False)
            else:
                unit.pages.detach()
                self._copies[unit.pages.start] = unit.pages.nbytes
            del self._shared[unit.pages.start]
            return tuple(unit.withdrawn)

    def vacate(self, start: int, nbytes: int) -> None:
        """Some whole pages are about to be given back: withdraw what is exported of them."""
        if not (self._shared or self._copies):
            return
        with self._lock:
            for first, unit in list(self._shared.items()):
                if first < start + nbytes and start < first + unit.pages.nbytes:
                    for piece in unit.pages.exported():
                        self.withdraw(piece)
            for first, size in self._forget_copies(start, nbytes):
                from haulage.backends.cpu_driver import shared_pages

                shared_pages.make_private(first, size)

    def _forget_copies(self, start: int, nbytes: int) -> list[tuple[int, int]]:
        """Note that pages are no copies any more; which of them (start, bytes) were."""
        stop, were = start + nbytes, []
        for first, size in list(self._copies.items()):
            low, high = max(first, start), min(first + size, stop)
            if low < high:
                were.append((low, high - low))
                del self._copies[first]
                if first < low:
                    self._copies[first] = low - first
                if high < first + size:
                    self._copies[high] = first + size - high
        return were

    def renew(self) -> None:
        """After a fork, in the child: a new lock, and all memory its own, as it is now."""
        self._lock = threading.RLock()
        for unit in self._shared.values():
            unit.pages.end(keep=True)
        self._shared.clear()
        self._of.clear()


def check_sharing() -> None:
    """Raises Unsupported where processes cannot share memory."""
    if not sys.platform.startswith("linux") or not hasattr(os, "memfd_create"):
        raise Unsupported(
            "the cpu device shares memory between processes on Linux only, "
            f"this is {sys.platform}; copy the array to the host and send that"
        )
