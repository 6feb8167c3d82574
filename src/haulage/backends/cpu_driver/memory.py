"""Host memory that the CPU device owns, and host memory that was registered with it.

Memory is private to the process until it is first shared with another one, so that a process that
was forked cannot write into its parent's arrays. To be shared it must own whole pages: memory of
more than 4 KiB does, and smaller pieces are cut from slabs. A page of a slab that is shared gives
no memory any more until all pieces that stand on it are freed; it is private again then.
"""

import ctypes
import mmap
import os
import sys
import threading
from typing import TYPE_CHECKING

import numpy as np

from haulage.backends.base import DEVICE, KINDS
from haulage.backends.cpu_driver import room as room_left
from haulage.errors import DeviceError, Unsupported

if TYPE_CHECKING:
    from haulage.backends.cpu_driver.ipc import SharedPages

ALIGNMENT = 256
PAGE = mmap.PAGESIZE
SLAB = 64 << 10
LARGEST_SMALL = 4 << 10  # no system has smaller pages, so no piece stands on two


class Pieces(list[int]):
    """Addresses of free pieces of slabs, all of `size` bytes."""

    __slots__ = ("size",)

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size


class Lent:
    """Whole pages that other processes can map, and the addresses allocated on them."""

    __slots__ = ("addresses", "home", "pages")

    def __init__(self, pages: "SharedPages", home: "np.ndarray | Pieces", addresses: set[int]):
        self.pages = pages
        self.home = home
        self.addresses = addresses


Room = np.ndarray | Pieces | Lent


class Memory:
    """All allocations and registrations of the device, by address. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._allocated: dict[int, tuple[Room, str, int]] = {}
        self._registered: dict[int, int] = {}
        self._slabs: list[np.ndarray] = []
        # By kind, as the host writes to some at any time and pages must rest while they become
        # shared; then by the bits of (size - 1), up to those of LARGEST_SMALL.
        self._pieces = {kind: _piece_lists() for kind in KINDS}
        self._lent: dict[Lent, None] = {}

    # ---- allocations ------------------------------------------------------------------------

    def alloc(self, nbytes: int, kind: str) -> int:
        """The address of `nbytes` of new memory, not initialised, aligned to 256 bytes.

        Raises:
            OutOfMemory: says how much was asked and how much is free.
        """
        room: Room
        if nbytes <= LARGEST_SMALL:
            room = self._pieces[kind][(nbytes - 1).bit_length()]
            with self._lock:
                if not room:
                    self._add_slab(room, kind)
                address = room.pop()
                self._allocated[address] = (room, kind, nbytes)
            return address
        room_left.check(nbytes, kind)
        room, address = _whole_pages(nbytes, kind)
        with self._lock:
            self._allocated[address] = (room, kind, nbytes)
        return address

    def free(self, address: int, kind: str) -> None:
        """Give back what `alloc` returned.

        Raises:
            DeviceError: no memory of that kind was allocated at the address, or it was freed.
        """
        with self._lock:
            entry = self._allocated.get(address)
            if entry is None:
                raise DeviceError(f"free of {address:#x}: no {kind} memory is allocated there")
            room = entry[0]
            if entry[1] != kind:
                raise DeviceError(
                    f"free of {address:#x} as {kind} memory, but it was allocated as {entry[1]}"
                )
            del self._allocated[address]
            if type(room) is Pieces:
                room.append(address)
            elif type(room) is Lent:
                room.pages.withdraw(address)
                room.addresses.discard(address)
                if not room.addresses:
                    self._take_back(room)

    def size(self, address: int) -> int:
        """The bytes of the allocation that starts at `address`; 0 if none does."""
        entry = self._allocated.get(address)
        return 0 if entry is None else entry[2]

    def sizes(self) -> dict[int, int]:
        """All allocations: address -> bytes."""
        with self._lock:
            return {address: entry[2] for address, entry in self._allocated.items()}

    def _add_slab(self, pieces: Pieces, kind: str) -> None:
        slab, start = _whole_pages(SLAB, kind)
        self._slabs.append(slab)
        pieces.extend(range(start + SLAB - pieces.size, start - 1, -pieces.size))

    # ---- memory that other processes map ------------------------------------------------------

    def is_shared(self, address: int) -> bool:
        """Whether the pages of an allocation are shared already."""
        entry = self._allocated.get(address)
        return entry is not None and type(entry[0]) is Lent

    def share(self, address: int) -> bytes:
        """A handle by which other processes map an allocation of 'device' memory.

        If it is not shared yet, no work may be running on the device.

        Raises:
            Unsupported: the system cannot do it.
            OutOfMemory, DeviceError: it refuses; nothing is changed.
        """
        check_sharing()
        with self._lock:
            entry = self._allocated.get(address)
            if entry is None:
                raise DeviceError(f"no memory of the cpu device is allocated at {address:#x}")
            room, kind, nbytes = entry
            if kind != DEVICE:
                raise DeviceError(
                    f"{kind} memory cannot be shared with other processes, device memory can"
                )
            if not isinstance(room, Lent):
                room = self._lend(address, room, nbytes)
            return room.pages.handle(address, nbytes)

    def _lend(self, address: int, home: np.ndarray | Pieces, nbytes: int) -> Lent:
        from haulage.backends.cpu_driver.ipc import SharedPages

        room_left.check(nbytes, "shared")
        if isinstance(home, Pieces):
            start, size = address & -PAGE, PAGE
            pieces = range(start, start + size, home.size)
        else:
            start, size = address, (nbytes + PAGE - 1) & -PAGE
            pieces = range(address, address + 1)
        lent = Lent(SharedPages(start, size), home, {p for p in pieces if p in self._allocated})
        # Noted first: a process that is forked from now on must not share these pages.
        self._lent[lent] = None
        try:
            self._settle(lent, lent)
            if isinstance(home, Pieces):
                home[:] = [piece for piece in home if piece not in pieces]
            lent.pages.begin()
        except BaseException:
            self._take_back(lent)
            self._settle(lent, home)
            raise
        return lent

    def _settle(self, lent: Lent, room: Room) -> None:
        """Note in which room the allocations on some pages are."""
        for address in lent.addresses:
            _, kind, nbytes = self._allocated[address]
            self._allocated[address] = (room, kind, nbytes)

    def _take_back(self, lent: Lent) -> None:
        """Let pages be private, keeping the contents if there are still allocations on them."""
        pages, home = lent.pages, lent.home
        pages.end(keep=bool(lent.addresses))
        if isinstance(home, Pieces):
            there = {*home, *lent.addresses}
            pieces = range(pages.start, pages.start + pages.nbytes, home.size)
            home.extend(piece for piece in pieces if piece not in there)
        del self._lent[lent]

    # ---- registrations ------------------------------------------------------------------------

    def register(self, address: int, nbytes: int) -> None:
        """Note host memory of the caller as known to the device.

        Raises:
            DeviceError: the range overlaps one that is registered already.
        """
        with self._lock:
            for start, length in self._registered.items():
                if start < address + nbytes and address < start + length:
                    raise DeviceError(
                        f"register of {nbytes} bytes at {address:#x}: {length} bytes at "
                        f"{start:#x} are registered already; unregister them first"
                    )
            self._registered[address] = nbytes

    def unregister(self, address: int) -> None:
        """Forget a registration.

        Raises:
            DeviceError: no registration starts at the address.
        """
        with self._lock:
            if self._registered.pop(address, None) is None:
                raise DeviceError(f"unregister of {address:#x}: nothing is registered there")

    def renew(self) -> None:
        """After a fork, in the child: a new lock, and all memory its own, as it is now."""
        self._lock = threading.RLock()
        for lent in list(self._lent):
            self._take_back(lent)
            self._settle(lent, lent.home)


def check_sharing() -> None:
    """Raises Unsupported where processes cannot share memory."""
    if not sys.platform.startswith("linux") or not hasattr(os, "memfd_create"):
        raise Unsupported(
            "the cpu device shares memory between processes on Linux only, "
            f"this is {sys.platform}; copy the array to the host and send that"
        )


def _piece_lists() -> list[Pieces]:
    lists = [Pieces(ALIGNMENT)] * ALIGNMENT.bit_length()
    while lists[-1].size < LARGEST_SMALL:
        lists.append(Pieces(2 * lists[-1].size))
    return lists


def _whole_pages(nbytes: int, kind: str) -> tuple[np.ndarray, int]:
    """(what keeps it, address) of new memory whose pages nothing else stands on."""
    try:
        storage = np.empty((nbytes + 2 * PAGE - 1) & -PAGE, np.uint8)
    except (MemoryError, ValueError) as error:  # ValueError: larger than an address can be
        raise room_left.none(nbytes, kind) from error
    start = ctypes.addressof(
        ctypes.c_uint8.from_buffer(storage.data)
    )  # the fastest way to learn it
    return storage, (start + PAGE - 1) & -PAGE
