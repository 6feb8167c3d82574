"""Blocks of memory: who owns them, which streams still use them, and when they are given back."""

import gc
import itertools
import os
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

from haulage.backends.base import DEVICE, KINDS
from haulage.errors import OutOfMemory
from haulage.runtime import faults, finalize, ledger
from haulage.runtime.device import Device, at_reset
from haulage.runtime.ledger import Usage
from haulage.runtime.stream import Stream

__all__ = ["Block", "Usage", "adopt", "allocate", "close_all", "hold", "reap", "stats"]

_generations = itertools.count(1)

# A block remembers this many streams before it looks which of them are done with it.
_MANY_STREAMS = 8


# The blocks that are not given back, by generation.
_live: dict[int, "weakref.ref[Block]"] = {}


class Block:
    """A piece of memory that a device can reach, given back when the last reference to it goes.

    `device_ptr` and `host_ptr` are addresses (0: not addressable there, or no bytes), `kind` is
    'device', 'pinned', 'mapped' or 'managed', `generation` is never the same for two blocks.
    `release` is what gives the memory back where it is not a driver's allocation of ours.
    `exposed` is set where others, NumPy arrays for one, address the memory directly: `close` then
    stops its use by the device, and the memory lives as long as they hold the block.
    """

    __slots__ = (
        "__weakref__",
        "closed",
        "device",
        "device_ptr",
        "exposed",
        "generation",
        "host_ptr",
        "kind",
        "nbytes",
        "release",
        "returned",
        "streams",
    )

    def __init__(
        self,
        device: Device,
        device_ptr: int,
        host_ptr: int,
        nbytes: int,
        kind: str,
        release: Callable[[], object] | None = None,
    ) -> None:
        self.device = device
        self.device_ptr = device_ptr
        self.host_ptr = host_ptr
        self.nbytes = nbytes
        self.kind = kind
        self.generation = next(_generations)
        self.release = release
        self.streams: dict[int, Stream] = {}
        self.closed = False
        self.exposed = False
        self.returned = False
        _live[self.generation] = weakref.ref(self)

    def use(self, stream: Stream | None = None) -> None:
        """Note that work handed to `stream` uses this memory; to be called before each use.

        Raises:
            ValueError: the block is closed.
        """
        if self.closed:
            raise ValueError(
                f"this memory ({self.nbytes} bytes on {self.device}) was given back by close(); "
                "allocate a new array"
            )
        if stream is not None and stream.handle and stream.handle not in self.streams:
            if len(self.streams) >= _MANY_STREAMS:
                self.streams = {h: s for h, s in self.streams.items() if not s.idle()}
            self.streams[stream.handle] = stream

    def close(self) -> None:
        """Give the memory back now, or as soon as the streams that use it are done with it."""
        if not self.closed:
            self.closed = True
            if not self.exposed:
                self._give_back()

    def __repr__(self) -> str:
        state = ", closed" if self.closed else ""
        return f"<Block of {self.nbytes} bytes, {self.kind} memory on {self.device}{state}>"

    # Bound here, as module names may be gone by the time that the interpreter ends.
    def __del__(self, at_end: Callable[[], bool] = sys.is_finalizing) -> None:
        if not getattr(self, "returned", True) and not at_end():
            self._give_back()

    def _give_back(self) -> None:
        self.closed = self.returned = True
        _live.pop(self.generation, None)
        action = self.release
        if action is None and self.nbytes:
            action = partial(
                _free, self.device, self.device_ptr, self.host_ptr, self.nbytes, self.kind
            )
        if action is not None:
            self.release = None
            finalize.give_back(_release, self.device, self.streams, action)


class MemoryInfo(NamedTuple):
    """Bytes of a device's memory."""

    free: int
    total: int


class Provider(Protocol):
    """What gives memory of devices in place of their drivers: see `haulage.runtime.plugins`."""

    def allocate(self, device: Device, nbytes: int, kind: str, flags: int) -> Block:
        """A new block, as `haulage.runtime.memory.allocate` gives."""
        ...

    def pin(self, device: Device, owner: Any, address: int, nbytes: int) -> tuple[int, object]:
        """(the device's address of host memory that is pinned now, what undoes it when it goes).

        None for the latter leaves it to the driver to undo it.
        """
        ...

    def export(self, block: Block, pointer: int, nbytes: int) -> Any:
        """What other processes open `nbytes` at `pointer` by, as `Context.get_ipc_handle` gives.

        None for a block that it has not given.
        """
        ...

    def reset(self, device: Device) -> None:
        """All memory of the device was given back."""
        ...


_provider: Provider | None = None


def provider() -> Provider | None:
    """What gives memory in place of the drivers; None: they do it themselves."""
    return _provider


def set_provider(chosen: Provider | None) -> None:
    """Let `chosen` give all memory from now on, or the drivers again."""
    global _provider
    _provider = chosen


def allocate(device: Device, nbytes: int, kind: str = DEVICE, flags: int = 0) -> Block:
    """A new block of `nbytes` bytes on `device`, of one of the kinds of `backends.base.KINDS`.

    The contents are not initialised. A block of 0 bytes has the addresses 0.

    Raises:
        OutOfMemory: the device has no room, also after all that waits to be freed was freed.
    """
    if _provider is not None and nbytes > 0:
        return _provider.allocate(device, nbytes, kind, flags)
    return allocate_of_driver(device, nbytes, kind, flags)


def allocate_of_driver(device: Device, nbytes: int, kind: str = DEVICE, flags: int = 0) -> Block:
    """`allocate`, whoever else may give memory in place of the driver.

    Raises:
        OutOfMemory: the device has no room, also after all that waits to be freed was freed.
    """
    if kind not in KINDS:
        raise ValueError(f"kind of memory {kind!r}: expected one of {', '.join(KINDS)}")
    if nbytes < 0:
        raise ValueError(f"cannot allocate {nbytes} bytes")
    if nbytes == 0:
        return Block(device, 0, 0, 0, kind)
    finalize.drain()
    reap()
    device.activate()
    try:
        device_ptr, host_ptr = device.backend.alloc(nbytes, kind, flags)
    except OutOfMemory:
        gc.collect()
        finalize.drain(deferred=True)
        _pending.wait(device)
        device.activate()
        device_ptr, host_ptr = device.backend.alloc(nbytes, kind, flags)
    ledger.allocated(str(device), kind, nbytes)
    return Block(device, device_ptr, host_ptr, nbytes, kind)


def adopt(
    device: Device,
    device_ptr: int,
    host_ptr: int,
    nbytes: int,
    release: Callable[[], object],
    kind: str = DEVICE,
) -> Block:
    """A block over memory that someone else owns, which `device` can reach.

    `release()` is called once, when the last reference to the block has gone (or it was closed) and
    the streams that use it are done with it; never at the end of the process. To keep an object
    alive until then, let it hold the object, as `partial(id, owner)` does.
    """
    return Block(device, device_ptr, host_ptr, nbytes, kind, release)


def are_own(one: Block, other: Block) -> bool:
    """Whether two blocks are two allocations of drivers, so that no byte is in both."""
    return one is not other and one.release is None and other.release is None


def holding(device: Device, address: int, nbytes: int) -> Block | None:
    """The driver's allocation in which `nbytes` bytes at `address` lie; None if there is none."""
    for ref in tuple(_live.values()):
        block = ref()
        if (
            block is not None
            and block.device is device
            and block.release is None
            and block.device_ptr <= address
            and address + nbytes <= block.device_ptr + block.nbytes
        ):
            return block
    return None


def close_all(device: Device) -> int:
    """Close every block of `device`; how many there were."""
    found = [block for ref in tuple(_live.values()) if (block := ref()) is not None]
    mine = [block for block in found if block.device is device]
    for block in mine:
        block.close()
    if _provider is not None:
        _provider.reset(device)
    return len(mine)


def pending(device: Device) -> int:
    """How much waits to be given back: what work of `device` still uses, and what `defer_cleanup`
    holds back, of all devices."""
    return finalize.waiting() + sum(of is device for _, of, _ in tuple(_pending.waiting))


def flush(device: Device) -> None:
    """Give back to `device` what waits, after the work that uses it; not inside `defer_cleanup`."""
    if not finalize.deferring():
        finalize.drain()
        _pending.wait(device)


def reap() -> None:
    """Free the memory that waited for streams which are done with it by now; never waits."""
    if _pending.waiting:
        _pending.reap()


def stats() -> dict[str, dict[str, Usage]]:
    """What is held now: device (such as 'cpu:0') -> kind of memory -> `Usage`."""
    finalize.drain()
    reap()
    return ledger.usage()


def _release(device: Device, streams: dict[int, Stream], action: Callable[[], object]) -> None:
    busy = [stream for stream in streams.values() if not stream.idle()]
    if not device.default_stream.idle():
        busy.append(device.default_stream)
    if busy:
        _pending.add([_mark(stream) for stream in busy], device, action)
    else:
        action()


def hold(stream: Stream, thing: Any) -> None:
    """Keep `thing` alive until `stream` has passed the work that it holds now."""
    _pending.add([_mark(stream)], stream.device, partial(id, thing))


def _mark(stream: Stream) -> int:
    stream.device.activate()
    backend = stream.device.backend
    event = backend.event_create(False)
    backend.event_record(event, stream.handle)
    return event


def _free(device: Device, device_ptr: int, host_ptr: int, nbytes: int, kind: str) -> None:
    device.activate()
    device.backend.free(device_ptr, host_ptr, kind)
    ledger.freed(str(device), kind, nbytes)


_Waiting = tuple[list[int], Device, Callable[[], object]]


class _Pending:
    """What is to be done once streams have passed some events: mostly, memory to be freed."""

    def __init__(self) -> None:
        self.waiting: list[_Waiting] = []
        self._lock = threading.Lock()

    def add(self, events: list[int], device: Device, action: Callable[[], object]) -> None:
        with self._lock:
            self.waiting.append((events, device, action))

    def reap(self) -> None:
        """Do what has its events all reached."""
        self._take(_reached)

    def wait(self, device: Device) -> None:
        """Do all of `device`, waiting for its streams."""
        self._take(lambda events, of: of is device and _wait(events, device))

    def _take(self, is_ready: Callable[[list[int], Device], bool]) -> None:
        with self._lock:
            looked_at, self.waiting = self.waiting, []
        try:
            while looked_at:
                events, device, action = looked_at[-1]
                if is_ready(events, device):
                    looked_at.pop()
                    for event in events:
                        device.backend.event_destroy(event)
                    action()
                else:
                    self.add(*looked_at.pop())
        finally:
            # Not empty only if a kernel had failed or Ctrl-C came: it goes on waiting.
            with self._lock:
                self.waiting += looked_at


def _reached(events: list[int], device: Device) -> bool:
    device.activate()
    return all(device.backend.event_query(event) for event in events)


def _wait(events: list[int], device: Device) -> bool:
    device.activate()
    for event in events:
        faults.waited(device.backend.event_synchronize, event)
    return True


_pending = _Pending()


at_reset.append(close_all)


def _start_anew() -> None:
    # After a fork: what the parent's streams used stays the parent's to free.
    global _pending
    _pending = _Pending()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew)
