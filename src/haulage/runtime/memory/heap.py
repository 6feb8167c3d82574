"""All pooled memory of one kind on one device: streams' lists of small blocks over an arena.

A small block goes back to the list of its stream and class, and comes from there again: work in one
stream runs in order, so nothing has to be waited for. Large blocks go back to the arena, or, while
work of their stream may still use them, to a place where only that stream finds them.
"""

import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from haulage.errors import DeviceError, OutOfMemory
from haulage.runtime.device import Device
from haulage.runtime.memory import classes
from haulage.runtime.memory.arena import Arena, rounded
from haulage.runtime.memory.counters import Counter, of_device, total
from haulage.runtime.memory.extents import Extents

# No limit: more bytes than there are.
UNLIMITED = 1 << 62

Place = tuple[int, int]  # (address, bytes)


class Busy(Exception):
    """This very thread is inside the heap already: a signal's handler came in between."""


class Slab(NamedTuple):
    """A piece of an arena that was cut into blocks of one class."""

    address: int
    nbytes: int
    number: int  # of the class
    pool: "Pool"


class Pool:
    """What the blocks of one stream come from and go back to.

    `stream` is the stream's handle; None for memory that the host writes to: its blocks come back
    once no stream uses them, and serve any. `counters` count its blocks, those of the heap, of the
    device, and all.
    """

    __slots__ = ("counter", "counters", "direct", "free", "heap", "held", "parked", "stream")

    def __init__(self, heap: "Heap", stream: int | None) -> None:
        self.heap = heap
        self.stream = stream
        self.counter = Counter()
        self.counters = (self.counter, heap.counter, of_device(heap.device), total)
        self.held = 0  # bytes of slabs and large blocks, be they free or not
        self.direct = 0  # bytes of blocks that came from the driver one by one
        # Addresses of free blocks, by class.
        self.free: list[list[int]] = [[] for _ in classes.SIZES]
        # Large blocks that work of the stream may still use.
        self.parked = Extents()

    @property
    def reserved(self) -> int:
        """Bytes held of the device for the stream."""
        return self.held + self.parked.nbytes + self.direct

    def is_idle(self) -> bool:
        """Whether no work of the stream can use its free blocks."""
        if self.stream is None:
            return True
        device = self.heap.device
        device.activate()
        return device.backend.stream_query(self.stream)


class Heap:
    """The pools of one kind of memory on one device, and the arena below them.

    Args:
        device: where it is.
        kind, flags: of `Backend.alloc`.
        arena: where its memory comes from.
        spare: free bytes that are kept for later, at most; None: all.
    """

    def __init__(
        self, device: Device, kind: str, flags: int, arena: Arena, spare: int | None = None
    ) -> None:
        self.device = device
        self.kind = kind
        self.flags = flags
        self.arena = arena
        self.spare = spare
        self.counter = Counter()
        self.pools: dict[int | None, Pool] = {}
        self.slabs: dict[int, Slab] = {}
        self._guard = _Guard()

    @property
    def reserved(self) -> int:
        """Bytes held of the device."""
        return self.arena.reserved + sum(pool.direct for pool in tuple(self.pools.values()))

    def pool_of(self, stream: int | None) -> Pool:
        """The pool of the blocks of a stream, by its handle."""
        pool = self.pools.get(stream)
        if pool is None:
            pool = self.pools.setdefault(stream, Pool(self, stream))
        return pool

    # ---- blocks -----------------------------------------------------------------------------

    def take(self, pool: Pool, nbytes: int) -> tuple[int, bool]:
        """(address, whether it was used before) of `nbytes` for work of a pool's stream.

        Raises:
            OutOfMemory: the device has no room; nothing is changed.
            Busy: it has to come from the driver instead.
        """
        if nbytes <= classes.LARGEST:
            number = classes.class_of(nbytes)
            try:
                return pool.free[number].pop(), True
            except IndexError:
                return self._cut_slab(pool, number), False
        return self._take_large(pool, rounded(nbytes))

    def give(self, pool: Pool, address: int, nbytes: int) -> None:
        """Take back what `take` gave; later work of the pool's stream may use it at once.

        Raises:
            Busy: it has to be given back later.
        """
        if nbytes <= classes.LARGEST:
            pool.free[classes.class_of(nbytes)].append(address)
        else:
            self._give_large(pool, address, rounded(nbytes))

    def unit_of(self, address: int, nbytes: int) -> Place:
        """What a block's pages belong to: itself, or the slab that it is cut from."""
        if nbytes > classes.LARGEST:
            return address, nbytes
        for start, slab in tuple(self.slabs.items()):
            if start <= address < start + slab.nbytes:
                return start, slab.nbytes
        raise ValueError(f"{address:#x} is in no slab")

    def host_address(self, address: int) -> int:
        """The host's address of memory of this heap; 0: the host does not reach it."""
        return self.arena.space.host_address(address)

    # ---- what is left over --------------------------------------------------------------------

    def settle(self) -> None:
        """Let all streams have the large blocks that none uses any more.

        Raises:
            Busy: not now.
        """
        with self._guard.held():
            self._settle()

    def trim(self, enough: int = UNLIMITED) -> int:
        """Give free memory back to the device, `enough` bytes or all that is free; how much.

        Raises:
            Busy: not now.
        """
        with self._guard.held():
            self._settle()
            given = self.arena.trim(enough)
            if given < enough and self._free_slabs():
                given += self.arena.trim(enough - given)
            return given

    def cached(self) -> Iterator[Place]:
        """(address, bytes) of all that is held and no block has."""
        with self._guard.held():
            found = list(self.arena.free_extents)
            for pool in tuple(self.pools.values()):
                found += pool.parked
                for number, addresses in enumerate(pool.free):
                    found += [(address, classes.SIZES[number]) for address in tuple(addresses)]
        return iter(sorted(found))

    def retire(self, pool: Pool) -> None:
        """A pool's stream is gone and its work is done: the default stream's takes all over.

        Raises:
            Busy: not now.
        """
        with self._guard.held():
            heir = self.pool_of(0)
            for address, nbytes in pool.parked.drain():
                self.arena.free(address, nbytes)
            for address, slab in tuple(self.slabs.items()):
                if slab.pool is pool:
                    self.slabs[address] = slab._replace(pool=heir)
            for mine, its in zip(heir.free, pool.free, strict=True):
                while its:
                    mine.append(its.pop())
            heir.held += pool.held
            heir.direct += pool.direct
            pool.held = pool.direct = 0

    def renew_lock(self) -> None:
        """After a fork, in the child: who held the lock is not there."""
        self._guard = _Guard()

    # ---- inside -----------------------------------------------------------------------------

    def _cut_slab(self, pool: Pool, number: int) -> int:
        nbytes = classes.slab_bytes(number)
        size = classes.SIZES[number]
        with self._guard.held():
            # Another thread may have cut one meanwhile, or memory have come back.
            if pool.free[number]:
                return pool.free[number].pop()
            address = self._allocate(nbytes)
            self.slabs[address] = Slab(address, nbytes, number, pool)
            pool.held += nbytes
            count = nbytes // size
            pool.free[number] += range(address + (count - 1) * size, address, -size)
            return address

    def _free_slabs(self) -> int:
        """Give to the arena the slabs of which all is free, and that no work uses."""
        idle = [pool for pool in self.pools.values() if pool.is_idle()]
        given = 0
        for pool in idle:
            for number, cells in enumerate(pool.free):
                # Others take from and add to the list meanwhile, one by one.
                addresses = []
                while cells:
                    try:
                        addresses.append(cells.pop())
                    except IndexError:
                        break
                size = classes.SIZES[number]
                free_in: dict[int, int] = {}
                mine = [s for s in self.slabs.values() if s.pool is pool and s.number == number]
                starts = sorted(slab.address for slab in mine)
                for address in addresses:
                    start = _before(starts, address)
                    free_in[start] = free_in.get(start, 0) + 1
                whole = {
                    slab.address: slab
                    for slab in mine
                    if free_in.get(slab.address) == slab.nbytes // size
                }
                for slab in whole.values():
                    del self.slabs[slab.address]
                    self.arena.free(slab.address, slab.nbytes)
                    pool.held -= slab.nbytes
                    given += slab.nbytes
                cells += [a for a in reversed(addresses) if _before(starts, a) not in whole]
        return given

    def _take_large(self, pool: Pool, nbytes: int) -> tuple[int, bool]:
        with self._guard.held():
            address = pool.parked.take(nbytes) if pool.parked.nbytes else None
            used_before = address is not None
            if address is None:
                self._settle()
                address = self._allocate(nbytes)
            pool.held += nbytes
            return address, used_before

    def _give_large(self, pool: Pool, address: int, nbytes: int) -> None:
        try:
            is_idle = pool.is_idle()
        except DeviceError:
            is_idle = False  # not known
        with self._guard.held():
            pool.held -= nbytes
            if is_idle:
                self.arena.free(address, nbytes)
            else:
                pool.parked.add(address, nbytes)
            excess = 0 if self.spare is None else self.arena.free_bytes - self.spare
            if excess > 0:
                self.arena.trim(excess)

    def _allocate(self, nbytes: int) -> int:
        try:
            return self.arena.allocate(nbytes)
        except OutOfMemory:
            # Of what is free elsewhere, as much as may do.
            self._settle()
            if not (self._free_slabs() or self.arena.free_bytes):
                raise
            try:
                return self.arena.allocate(nbytes)
            except OutOfMemory:
                if not self.arena.trim():
                    raise
            return self.arena.allocate(nbytes)

    def _settle(self) -> None:
        for pool in tuple(self.pools.values()):
            if pool.parked.nbytes and pool.is_idle():
                for address, nbytes in pool.parked.drain():
                    self.arena.free(address, nbytes)


def _before(starts: list[int], address: int) -> int:
    return starts[bisect_right(starts, address) - 1]


class _Guard:
    """A lock that tells its own thread that it is inside already, rather than let it in again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        me = threading.get_ident()
        if self._owner == me:
            raise Busy
        with self._lock:
            self._owner = me
            try:
                yield
            finally:
                self._owner = 0


# (device, kind, flags) -> its heap
heaps: dict[tuple[Device, str, int], Heap] = {}
_making = threading.Lock()


def heap_of(device: Device, kind: str, flags: int, make: Callable[[], Heap]) -> Heap:
    """The heap of some memory; made when it is first asked for."""
    heap = heaps.get((device, kind, flags))
    if heap is None:
        with _making:
            heap = heaps.get((device, kind, flags))
            if heap is None:
                heap = heaps[device, kind, flags] = make()
    return heap


def _start_anew() -> None:
    global _making
    _making = threading.Lock()
    for heap in heaps.values():
        heap.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
