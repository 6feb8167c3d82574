"""All pooled memory of one kind on one device: streams' lists of small blocks over an arena.

A small block goes back to the list of its stream and class, and comes from there again: work in one
stream runs in order, so nothing has to be waited for. Large blocks go back to the arena, or, while
work of their stream may still use them, to a place where only that stream finds them.
"""

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from haulage._core.memory import Allocation, HeapBase, Pool
from haulage.backends.base import DEVICE
from haulage.errors import DeviceError, OutOfMemory
from haulage.runtime.devices.device import Device
from haulage.runtime.memory import classes, decay
from haulage.runtime.memory.arena import Arena, rounded
from haulage.runtime.memory.counters import of_device, total

# From so many slabs of 64 KiB on somebody looks whether their blocks come back.
_MANY_SLABS = 512

# No limit: more bytes than there are.
UNLIMITED = 1 << 62

Extent = tuple[int, int]  # (address, bytes)


class Busy(Exception):
    """This very thread is inside a heap already: a signal's handler or a finaliser came in between.

    It must not wait there, not for another heap either, whose lock a thread may hold that waits
    for this one's.
    """


class Slab(NamedTuple):
    """A piece of an arena that was cut into blocks of one class."""

    address: int
    nbytes: int
    number: int  # of the class
    pool: Pool


class Heap(HeapBase):
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
        space = arena.space
        super().__init__(device, kind, flags, arena.free_extents, space.host_address)
        self.on_host = space.on_host
        self.arena = arena
        self.spare = UNLIMITED if spare is None else spare
        self.slabs: dict[int, Slab] = {}
        # Those whose stream is gone, with work still in it.
        self.retiring: list[Pool] = []
        on_host = device.properties.host_memory_is_device_memory
        self.decay = decay.watch(self) if on_host else None
        self.unwatched = decay.LEAST_KEPT if on_host else UNLIMITED
        self._lock = threading.Lock()

    @property
    def reserved(self) -> int:
        """Bytes held of the device."""
        return self.arena.reserved + sum(pool.direct for pool in tuple(self.pools.values()))

    def pool_of(self, stream: int | None) -> Pool:
        """The pool of the blocks of a stream, by its handle."""
        pool = self.pools.get(stream)
        if pool is None:
            made = Pool(self, stream, len(classes.SIZES), of_device(self.device), total)
            pool = self.pools.setdefault(stream, made)
            if stream == (0 if self.kind == DEVICE else None):
                self.of_default = pool
        return pool

    @property
    def idle_bytes(self) -> int:
        """Bytes of free large blocks."""
        return self.arena.free_bytes + sum(p.parked.nbytes for p in tuple(self.pools.values()))

    # ---- blocks -----------------------------------------------------------------------------

    def provide(self, pool: Pool, block: Allocation, counted: bool = True) -> None:
        """Let `block` have memory of its size for work of a pool's stream.

        Who counts it otherwise says that it is not to be `counted` here; the same for `give`.

        Raises:
            OutOfMemory: the device has no room; nothing is changed.
            Busy: it has to come from the driver instead.
        """
        if block.nbytes <= classes.LARGEST:
            number = classes.class_of(block.nbytes)
            while not pool.take(block, counted):
                self.refill(pool, number)
            return
        with self._held():
            self._settle()
            pool.misses = 0
            if not pool.take(block, counted):
                self._provide(rounded(block.nbytes))
                has_taken = pool.take(block, counted)
                assert has_taken

    def give(self, pool: Pool, of: Allocation, counted: bool = True) -> None:
        """Take back what `of` has; later work of the pool's stream may use it at once.

        Raises:
            Busy: it has to be given back later.
        """
        if of.nbytes <= classes.LARGEST:
            pool.give(of, False, counted)
            return
        try:
            is_idle = pool.is_idle()
        except DeviceError:
            is_idle = False  # not known
        with self._held():
            pool.give(of, is_idle, counted)
            if self.idle_bytes > self.spare:
                self._settle()
                excess = self.arena.free_bytes - self.spare
                if excess > 0:
                    self.arena.trim(excess)
        if self.decay is not None:
            self.decay.freed()

    def refill(self, pool: Pool, number: int) -> None:
        """Cut a slab into blocks of a class, if none of them is free now.

        Raises:
            OutOfMemory: the device has no room; nothing is changed.
            Busy: they have to come from the driver instead.
        """
        nbytes = classes.slab_bytes(number)
        size = classes.SIZES[number]
        with self._held():
            # Another thread may have cut one meanwhile, or memory have come back.
            if pool.free[number]:
                return
            address = self._allocate(nbytes)
            self.slabs[address] = Slab(address, nbytes, number, pool)
            pool.held += nbytes
            count = nbytes // size
            pool.free[number] += range(address + (count - 1) * size, address - size, -size)
        # Small blocks come back without a call: the thread that sees to them begins here.
        if self.decay is not None and len(self.slabs) >= _MANY_SLABS:
            decay.start()

    def unit_of(self, address: int, nbytes: int) -> Extent:
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
        with self._held():
            self._settle()

    def trim(self, enough: int = UNLIMITED) -> int:
        """Give free memory back to the device, `enough` bytes or all that is free; how much.

        Raises:
            Busy: not now.
        """
        with self._held():
            self._settle()
            released = self.arena.trim(enough)
            if released < enough and self._free_slabs():
                released += self.arena.trim(enough - released)
            return released

    @property
    def free_in_lists(self) -> int:
        """Bytes of slabs that no small block has, about."""
        counter, arena = self.counter, self.arena
        pools = (*tuple(self.pools.values()), *tuple(self.retiring))
        elsewhere = arena.free_bytes + sum(pool.parked.nbytes for pool in pools)
        return max(0, self.reserved - counter.in_use - elsewhere)

    def free_slabs(self) -> int:
        """Give to the arena the slabs of which all is free; bytes of these.

        Raises:
            Busy: not now.
        """
        with self._held():
            return self._free_slabs()

    def give_back_idle(self, enough: int) -> int:
        """Give free memory of the arena back to the device, `enough` bytes; how much that was.

        Raises:
            Busy: not now.
        """
        with self._held():
            return self.arena.trim(enough)

    def cached(self) -> Iterator[Extent]:
        """(address, bytes) of all that is held and no block has.

        Raises:
            Busy: not now.
        """
        with self._held():
            found = list(self.arena.free_extents)
            for pool in (*self.pools.values(), *self.retiring):
                found += pool.parked
                for number, addresses in enumerate(pool.free):
                    found += [(address, classes.SIZES[number]) for address in tuple(addresses)]
        return iter(sorted(found))

    def retire(self, pool: Pool) -> None:
        """A pool's stream is gone and its work is done: what is free goes to the arena, where new
        streams find it, and what is left, with blocks that are in use, to the default stream's.

        Raises:
            Busy: not now.
        """
        with self._held():
            if pool in self.retiring:
                self.retiring.remove(pool)
            heir = self.pool_of(0)
            pool.parked.move_to(self.arena.free_extents)
            starts = sorted(self.slabs)
            for cells in filter(None, pool.free):
                self._free_slabs_of(pool, cells, starts)
            for address, slab in tuple(self.slabs.items()):
                if slab.pool is pool:
                    self.slabs[address] = slab._replace(pool=heir)
            for mine, its in zip(heir.free, pool.free, strict=True):
                while True:  # see `_free_slabs_of`
                    if not its:
                        break
                    address = its[-1]
                    del its[-1]
                    mine += (address,)
            heir.held += pool.held
            heir.direct += pool.direct
            pool.held = pool.direct = 0

    def renew_lock(self) -> None:
        """After a fork, in the child: who held the lock is not there."""
        self._lock = threading.Lock()

    # ---- inside -----------------------------------------------------------------------------

    @contextmanager
    def _held(self) -> Iterator[None]:
        me = threading.get_ident()
        if me in _inside:
            raise Busy
        try:
            _inside.add(me)
            with self._lock:
                if self.changing:
                    # Something has come out of the middle of a change, such as Ctrl-C, or a fork
                    # into it.
                    self.arena.repair()
                    self.on_host = self.arena.space.on_host
                self.changing = True
                try:
                    yield
                except DeviceError:
                    self.changing = False
                    raise
                self.changing = False
        finally:
            _inside.discard(me)

    def _free_slabs(self) -> int:
        """Give to the arena the slabs of which all is free, and that no work uses."""
        starts = sorted(self.slabs)
        released = 0
        for pool in [pool for pool in tuple(self.pools.values()) if pool.is_idle()]:
            for cells in pool.free:
                released += self._free_slabs_of(pool, cells, starts) if cells else 0
        return released

    def _free_slabs_of(self, pool: Pool, cells: list[int], starts: list[int]) -> int:
        # Others take from the list and add to it meanwhile, one by one.
        taken: list[int] = []
        by_slab: dict[int, list[int]] = {}
        left: Iterable[list[int]] = (taken,)
        released = 0
        try:
            # No call in between, so each is in one of the two lists, also after Ctrl-C; and nothing
            # is made between look and removal, as a collection could come of that, whose finalisers
            # put addresses in. Nor is the look the loop's own: Python lets others in after that.
            while True:
                if not cells:
                    break
                address = cells[-1]
                del cells[-1]
                taken += (address,)
            for address in taken:
                by_slab.setdefault(_before(starts, address), []).append(address)
            left = by_slab.values()
            for start in tuple(by_slab):
                slab = self.slabs[start]
                if len(by_slab[start]) == slab.nbytes // classes.SIZES[slab.number]:
                    del by_slab[start]
                    del self.slabs[start]
                    pool.held -= slab.nbytes
                    self.arena.free(start, slab.nbytes)
                    released += slab.nbytes
        finally:
            for addresses in left:
                cells += addresses
        return released

    def _allocate(self, nbytes: int) -> int:
        self._provide(nbytes)
        address = self.arena.allocate(nbytes)
        self.lowest = min(self.lowest, self.arena.free_bytes)
        return address

    def _provide(self, nbytes: int) -> None:
        try:
            self._grow(nbytes)
        finally:
            self.on_host = self.arena.space.on_host

    def _grow(self, nbytes: int) -> None:
        try:
            self.arena.provide(nbytes)
        except OutOfMemory:
            # Of what is free elsewhere, as much as may do.
            self._settle()
            if not (self._free_slabs() or self.arena.free_bytes):
                raise
            try:
                self.arena.provide(nbytes)
            except OutOfMemory:
                if not self.arena.trim():
                    raise
                self.arena.provide(nbytes)

    def _settle(self) -> None:
        for pool in tuple(self.pools.values()):
            if pool.parked.nbytes and pool.is_idle():
                pool.parked.move_to(self.arena.free_extents)


def _before(starts: list[int], address: int) -> int:
    return starts[bisect_right(starts, address) - 1]


# The threads that are inside of a heap, or wait to be.
_inside: set[int] = set()

# (device, kind, flags) -> its heap
heaps: dict[tuple[Device, str, int], Heap] = {}
# Reentrant, as a finaliser that allocates may come in between.
_making = threading.RLock()


def heap_of(device: Device, kind: str, flags: int, make: Callable[[], Heap]) -> Heap:
    """The heap of some memory; made when it is first asked for."""
    heap = heaps.get((device, kind, flags))
    if heap is None:
        with _making:
            heap = heaps.get((device, kind, flags))
            if heap is None:
                heap = heaps.setdefault((device, kind, flags), make())
    return heap


def start_anew() -> None:
    """After a fork, in the child: threads that held the locks are not there any more."""
    global _making
    _making = threading.RLock()
    _inside.clear()
    for heap in heaps.values():
        heap.renew_lock()
