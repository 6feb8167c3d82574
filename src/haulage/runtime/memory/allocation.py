"""Where a new block comes from: a pool, the driver alone, or who gives memory in their place."""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from haulage import config
from haulage._core.memory import Pool, conditions
from haulage._core.memory import allocate as allocate_at_once
from haulage.backends.base import DEVICE, KINDS
from haulage.errors import OutOfMemory
from haulage.runtime.devices import pending
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.memory import limits, out_of_memory
from haulage.runtime.memory.arena import Arena, Segments, Space, Virtual
from haulage.runtime.memory.block import Block
from haulage.runtime.memory.heap import Busy, Heap, heap_of, heaps
from haulage.runtime.process import call_sites, finalize, runtime
from haulage.runtime.process.call_sites import CallSite

if sys.platform != "win32":
    import resource

_Answer = TypeVar("_Answer")

# Where memory is the host's too, other programs need what is free; elsewhere it is kept.
# What was not used for a second goes back as well: see `decay`.
_SPARE_SHARE, _LEAST_SPARE, _SPARE_SHARE_OF_LITTLE = 16, 256 << 20, 8
# Memory grows by so much, as pages of that size are fastest to get and to use.
_STEP = 2 << 20
# The host's memory that is pinned can be used for nothing else.
_SPARE_PINNED = 128 << 20


# More than any device has, or a program can address.
MOST = 1 << 60


class MemoryInfo(NamedTuple):
    """Bytes of a device's memory."""

    free: int
    total: int


class Provider(Protocol):
    """What gives memory of devices in place of their drivers: see `haulage.runtime.plugins`."""

    def allocate(self, device: Device, nbytes: int, kind: str, flags: int) -> Block:
        """A new block, as `haulage.runtime.memory.allocate` gives."""
        ...

    def pin(
        self, device: Device, owner: Any, address: int, nbytes: int
    ) -> tuple[int, Callable[[], object]]:
        """(the device's address of host memory that is pinned now, what undoes it)."""
        ...

    def export(self, block: Block, pointer: int, nbytes: int) -> Any:
        """What other processes open `nbytes` at `pointer` by, as `Context.get_ipc_handle` gives.

        None for a block that it has not given.
        """
        ...

    def reset(self, device: Device) -> None:
        """All memory of the device was given back."""
        ...


def provider() -> Provider | None:
    """What gives memory in place of the drivers; None: they do it themselves."""
    chosen: Provider | None = conditions.provider
    return chosen


def set_provider(chosen: Provider | None) -> None:
    """Let `chosen` give all memory from now on, or the drivers again."""
    conditions.provider = chosen


def reset(device: Device) -> None:
    """Tell the provider, if there is one, that all memory of the device was given back."""
    chosen = provider()
    if chosen is not None:
        chosen.reset(device)


def allocate(
    device: Device,
    nbytes: int,
    kind: str = DEVICE,
    flags: int = 0,
    stream: Stream | int | None = None,
) -> Block:
    """A new block of `nbytes` bytes on `device`, of one of the kinds of `backends.base.KINDS`.

    The contents are not initialised. A block of 0 bytes has the addresses 0. `stream` is where it
    will mostly be used: later blocks for that stream can have its memory as soon as it is given
    back, those for others when that stream is done with it.

    Raises:
        OutOfMemory: the device has no room, also after all that could be freed was freed, or the
            limit that was set is reached.
    """
    if kind in KINDS and nbytes < MOST:
        block = allocate_at_once(device, nbytes, stream, kind, flags)
        if block is not None:
            return block
    if nbytes > 0 and (chosen := provider()) is not None:
        return chosen.allocate(device, nbytes, kind, flags)
    return allocate_of_driver(device, nbytes, kind, flags, stream)


def allocate_of_driver(
    device: Device,
    nbytes: int,
    kind: str = DEVICE,
    flags: int = 0,
    stream: Stream | int | None = None,
) -> Block:
    """`allocate`, whoever else may give memory in place of Haulage.

    Raises:
        OutOfMemory: as for `allocate`.
    """
    if kind not in KINDS:
        raise ValueError(f"kind of memory {kind!r}: expected one of {', '.join(KINDS)}")
    if nbytes < 0:
        raise ValueError(f"cannot allocate {nbytes} bytes")
    if nbytes == 0:
        return Block(device, 0, 0, 0, kind)
    finalize.drain()
    pending.reap_some()
    heap = heaps.get((device, kind, flags)) or _heap(device, kind, flags)
    take = _within_limit if conditions.limited else _pooled
    # Here, and not where the block is made: fewer frames are looked at.
    call_site = call_sites.current()
    try:
        return take(heap, nbytes, stream, call_site)
    except OutOfMemory:
        pass  # now step by step
    return out_of_memory.climb(
        device, nbytes, kind, lambda: _within_limit(heap, nbytes, stream, call_site)
    )


def _within_limit(
    heap: Heap, nbytes: int, stream: Stream | int | None, call_site: CallSite
) -> Block:
    with limits.counting:
        limits.check(heap.device, heap.kind, nbytes)
        return _pooled(heap, nbytes, stream, call_site)


def _pooled(heap: Heap, nbytes: int, stream: Stream | int | None, call_site: CallSite) -> Block:
    device = heap.device
    if nbytes >= MOST:
        raise OutOfMemory(f"{nbytes:,} bytes are more than a program can address")
    if not is_pooling():
        return _from_driver(heap, nbytes, call_site)
    home = _home(device, heap.kind, stream)
    pool = heap.pool_of(None if home is None else home.handle)
    # It is there before its memory is, so that it gives that back whatever happens.
    block = Block(
        device, 0, 0, nbytes, heap.kind, None, pool, home, True, False, call_site=call_site
    )
    try:
        heap.provide(pool, block)
    except Busy:
        return _from_driver(heap, nbytes, call_site)
    block.begun(heap.host_address(block.device_ptr))
    return block


def _from_driver(heap: Heap, nbytes: int, call_site: CallSite) -> Block:
    device, kind, pool = heap.device, heap.kind, heap.pool_of(None)

    def release() -> None:
        pool.direct -= nbytes
        device.activate()
        device.backend.free(address, host, kind)

    block = Block(device, 0, 0, nbytes, kind, release, pool, has_memory=False, call_site=call_site)
    device.activate()
    address, host = device.backend.alloc(nbytes, kind, heap.flags)
    pool.direct += nbytes
    pool.begin(block, address)
    block.begun(host)
    return block


def pin(device: Device, address: int, nbytes: int) -> tuple[int, Callable[[], object]]:
    """(the device's address of host memory that its driver pins now, what undoes it)."""

    def undo() -> None:
        device.activate()
        device.backend.unregister(address)

    device.activate()
    return device.backend.register(address, nbytes), undo


def _home(device: Device, kind: str, stream: Stream | int | None) -> Stream | None:
    if kind != DEVICE:
        return None  # the host writes to it, without a look at streams
    if isinstance(stream, Stream) and stream.handle and stream.owned and stream._is_blocking:
        return stream
    return device.default_stream


def is_pooling() -> bool:
    """Whether memory is kept for the next arrays; else the driver is asked for each."""
    return runtime.current.adversary_seed is None and config.pools_memory()


def pool_of(device: Device, kind: str = DEVICE) -> Pool:
    """The pool of memory that is no stream's: what is given back to it is in use by none."""
    return _heap(device, kind, 0).pool_of(None)


def _heap(device: Device, kind: str, flags: int) -> Heap:
    heap = heap_of(device, kind, flags, lambda: _new_heap(device, kind, flags))
    device.heaps[kind, flags] = heap
    if kind == DEVICE and not flags:
        device.heap = heap
    return heap


def _new_heap(device: Device, kind: str, flags: int) -> Heap:
    properties = device.properties
    virtual = _virtual(device) if kind == DEVICE else None
    space: Space
    if virtual is None:
        # Later something else may stand in front of the driver.
        def segment(nbytes: int) -> tuple[int, int]:
            device.activate()
            return device.backend.alloc(nbytes, kind, flags)

        def release(address: int, host: int) -> None:
            device.activate()
            device.backend.free(address, host, kind)

        space = Segments(segment, release)
    else:
        space = virtual
    spare = None
    if kind != DEVICE:
        spare = _SPARE_PINNED
    elif properties.host_memory_is_device_memory:
        total = min(properties.total_memory, address_limit() or properties.total_memory)
        spare = max(total // _SPARE_SHARE, min(_LEAST_SPARE, total // _SPARE_SHARE_OF_LITTLE))
    heap = Heap(device, kind, flags, Arena(space), spare)
    if kind != DEVICE:
        device.activate()
        heap.is_default_idle = device.backend.idle_query(device.id)
    return heap


def address_limit() -> int | None:
    """Bytes of addresses that this process may have (`ulimit -v`); None: no limit."""
    if sys.platform == "win32":  # it has no such limits
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else int(soft)


class _Pages:
    """What a `Virtual` space asks of a device. A signal's handler may have made another one active
    in the midst of it, so each call says whom it asks."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def reserve(self, nbytes: int) -> int:
        self._device.activate()
        return self._device.backend.reserve(nbytes)

    def map(self, address: int, nbytes: int) -> None:
        self._device.activate()
        self._device.backend.map(address, nbytes)

    def unmap(self, address: int, nbytes: int) -> None:
        self._device.activate()
        self._device.backend.unmap(address, nbytes)

    def release(self, address: int, nbytes: int) -> None:
        self._device.activate()
        self._device.backend.release(address, nbytes)

    def limit(self) -> int | None:
        on_host = self._device.properties.host_memory_is_device_memory
        return address_limit() if on_host else None


def _virtual(device: Device) -> Virtual | None:
    """Virtual memory, where the device has it and there are addresses to be had."""
    properties = device.properties
    device.activate()
    granularity = device.backend.granularity()
    if not granularity:
        return None
    step = max(granularity, _STEP)
    on_host = properties.host_memory_is_device_memory
    try:
        return Virtual(_Pages(device), step, 2 * properties.total_memory, on_host)
    except OutOfMemory:
        return None


# ---- memory that is not Haulage's own but stands below its arrays ----------------------------


def allocate_external(
    device: Device, nbytes: int, kind: str, ask: Callable[[], _Answer]
) -> _Answer:
    """`ask()`, which gives memory that is not Haulage's own, within the limit of the device.

    What it gives is to be counted there by `count_external`.

    If it raises a MemoryError, it is called once more after all was done that may make room, and
    again after each function of the program that says it has made some; but not after an error that
    has an attribute `is_final` that is true.

    Raises:
        OutOfMemory: the limit is reached, or `ask` raised one each time; says who holds the memory.
        MemoryError: another one of `ask`, with a note that says the same.
    """
    errors: list[MemoryError] = []
    finalize.drain()
    pending.reap()
    try:
        return _allocate_external(device, nbytes, kind, ask, errors)
    finally:
        errors.clear()  # they hold the frames that hold them


def _allocate_external(
    device: Device,
    nbytes: int,
    kind: str,
    ask: Callable[[], _Answer],
    errors: list[MemoryError],
) -> _Answer:
    def attempt() -> _Answer:
        try:
            with limits.claimed(device, kind, nbytes):
                return ask()
        except MemoryError as error:
            errors.append(error)
            raise OutOfMemory(str(error)) from None

    try:
        return attempt()
    except OutOfMemory:
        if getattr(errors[-1], "is_final", False):
            raise errors[-1] from None
    try:
        return out_of_memory.climb(device, nbytes, kind, attempt, at_once=True)
    except OutOfMemory as described:
        if not isinstance(errors[-1], OutOfMemory):
            errors[-1].add_note(str(described))
            raise errors[-1] from None
        for note in getattr(errors[-1], "__notes__", ()):
            described.add_note(note)
        raise


def count_external(block: Block, reserves: bool) -> Block:
    """The block, counted as memory in use until it is given back.

    Args:
        block: over memory of others that is not counted yet.
        reserves: whether its bytes count as reserved too; not if a pool of Haulage's has them.
    """
    pool = pool_of(block.device, block.kind)
    reserved = block.nbytes if reserves else 0
    release = partial(_given_back, pool, reserved, block.release)
    # No call in between, nor behind the count: what is not counted is not taken off.
    pool.direct += reserved
    block.release = release
    pool.begin(block, block.device_ptr)
    block.pool = pool
    host_checker = runtime.current.host_checker
    if host_checker is not None:
        host_checker.allocated(block)
    return block


def _given_back(pool: Pool, reserved: int, release: Callable[[], object] | None) -> None:
    pool.direct -= reserved
    if release is not None:
        release()


conditions.pools_memory = config.pools_memory
