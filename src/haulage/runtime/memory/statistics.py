"""How much memory is held: the counters of all heaps, and what they hold piece by piece."""

import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from haulage._core.memory import Counter, Pool
from haulage.errors import DeviceError
from haulage.runtime.devices import pending
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import find
from haulage.runtime.memory.block import live_blocks
from haulage.runtime.memory.counters import of_device, peak_of_all, total
from haulage.runtime.memory.heap import Busy, Heap, heaps
from haulage.runtime.process import call_sites, finalize

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class Usage:
    """Memory in bytes, and how often it was asked for.

    Attributes:
        in_use: what arrays have asked for and hold; memory that streams still use is in it.
        reserved: what is held of the device for them, with what is free for the next ones.
        peak: the most that was in use at one time since the start or the last `reset_peak`. Of
            several parts whose peaks were not counted together it is the sum of these.
        allocations: how often memory was given out so far.
    """

    in_use: int
    reserved: int
    peak: int
    allocations: int


class Stats(Mapping[str, Mapping[str, Usage]]):
    """What is held: `in_use`, `reserved`, `peak` and `allocations`, of all and of each part.

    Attributes:
        in_use, reserved, peak, allocations: of all, as in `Usage`.
        by_device: `Usage` by the device's name.
        by_kind: by 'device', 'pinned', 'mapped', 'managed'.
        by_stream: by (device's name, stream's handle), with the handle None for memory that is no
            stream's, as the host writes to it.

    `stats[device][kind]` is the `Usage` of a kind of memory on a device.
    """

    def __init__(self, whole: Usage, by_device: dict[str, Usage], parts: list[Heap]) -> None:
        self.in_use = whole.in_use
        self.reserved = whole.reserved
        self.peak = whole.peak
        self.allocations = whole.allocations
        self.by_device = by_device
        self.by_kind = _by(lambda heap: heap.kind, parts)
        pools = [pool for heap in parts for pool in tuple(heap.pools.values())]
        self.by_stream = _by(lambda pool: (str(pool.heap.device), pool.stream), pools)
        self._kinds = {
            device: _by(lambda heap: heap.kind, [h for h in parts if str(h.device) == device])
            for device in by_device
        }

    def __getitem__(self, device: str) -> Mapping[str, Usage]:
        return self._kinds[str(device)]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    def __repr__(self) -> str:
        rows: list[tuple[str, Stats | Usage]] = [("all", self), *self.by_device.items()]
        rows += [(f"{d}, {k}", u) for d, kinds in self.items() for k, u in kinds.items()]
        return "\n".join(
            f"{name}: {usage.in_use:,} bytes in use, {usage.reserved:,} reserved, "
            f"peak {usage.peak:,}, {usage.allocations:,} allocations"
            for name, usage in rows
        )


def stats(device: str | Device | None = None) -> Stats:
    """How much memory is held, now: of one device, or of all.

    Args:
        device: a `Device` or a name as in `haulage.use`; None: all.

    Raises:
        DeviceNotFound: there is no such device.
    """
    of = None if device is None else find(device, "stats: device")
    finalize.drain()
    pending.reap()
    mine = [heap for heap in tuple(heaps.values()) if of is None or heap.device is of]
    by_device = {
        str(each): _usage(of_device(each), sum(h.reserved for h in mine if h.device is each))
        for each in dict.fromkeys(heap.device for heap in mine)
    }
    if of is None:
        whole = _usage(total, sum(heap.reserved for heap in mine))
        whole = replace(whole, peak=peak_of_all())
    else:
        whole = by_device.get(str(of), Usage(0, 0, 0, 0))
    return Stats(whole, by_device, mine)


def reset_peak(device: str | Device | None = None) -> None:
    """Let the peaks, of one device or of all, be what is in use now.

    Raises:
        DeviceNotFound: there is no such device.
    """
    of = None if device is None else find(device, "reset_peak: device")
    finalize.drain()
    pending.reap()
    for heap in tuple(heaps.values()):
        if of is None or heap.device is of:
            for pool in tuple(heap.pools.values()):
                pool.counter.reset_peak()
            heap.counter.reset_peak()
            of_device(heap.device).reset_peak()
    if of is None:
        total.reset_peak()


def trim(device: str | Device | None = None) -> int:
    """Give all memory that no array has back to the driver; how many bytes that was.

    It does not wait: memory that streams still use stays. `limit` and running out of memory do it
    by themselves.

    Args:
        device: a `Device` or a name as in `haulage.use`; None: all.

    Raises:
        DeviceNotFound: there is no such device.
    """
    of = None if device is None else find(device, "trim: device")
    finalize.drain()
    pending.reap()
    given = 0
    for heap in tuple(heaps.values()):
        if of is None or heap.device is of:
            try:
                given += heap.trim()
            except Busy:
                continue
    return given


def snapshot() -> dict[str, Any]:
    """All that is known of memory, as numbers and texts that `json.dumps` takes.

    Returns:
        'version' 1; 'time' in seconds since 1970; 'regions', a list of what is held of devices
        ('device', 'kind', 'address', 'nbytes'); 'blocks', a list of its parts with 'state' 'live'
        (with 'age' in seconds, 'stream' the handle of its stream or None, 'generation', and
        'owner', a list of {'filename', 'line', 'function'}, the innermost first), 'cached' (free
        for the next array) or 'adopted' (memory of others that arrays stand on); 'stats', the
        figures of `stats()` by device and kind.
    """
    now = time.monotonic()
    blocks: list[dict[str, Any]] = []
    for block in live_blocks():
        if not block.nbytes:
            continue
        blocks.append(
            {
                "device": str(block.device),
                "kind": block.kind,
                "address": int(block.device_ptr),
                "nbytes": block.nbytes,
                "state": "adopted" if block.of_others else "live",
                "stream": None if block.home is None else int(block.home.handle),
                "age": now - block.born,
                "generation": block.generation,
                "owner": [site._asdict() for site in call_sites.sites(block.call_site)],
            }
        )
    regions = []
    for heap in tuple(heaps.values()):
        place = {"device": str(heap.device), "kind": heap.kind}
        regions += [{**place, "address": a, "nbytes": n} for a, n in heap.arena.space.ranges()]
        try:
            cached = tuple(heap.cached())
        except Busy:
            raise DeviceError(
                "snapshot() was called by a signal's handler, or a finaliser, that came in while "
                f"this thread was changing the memory of {heap.device}; take it later"
            ) from None
        blocks += [{**place, "address": a, "nbytes": n, "state": "cached"} for a, n in cached]
    usage = stats()
    return {
        "version": 1,
        "time": time.time(),
        "regions": regions,
        "blocks": blocks,
        "stats": {
            device: {kind: vars(part) for kind, part in kinds.items()}
            for device, kinds in usage.items()
        },
    }


def _usage(counter: Counter, reserved: int) -> Usage:
    return Usage(counter.in_use, reserved, counter.peak, counter.allocations)


def _by(key: Callable[[Any], K], parts: Iterable[Heap | Pool]) -> dict[K, Usage]:
    """The sums of the parts with one key."""
    found: dict[K, Usage] = {}
    for part in parts:
        usage = _usage(part.counter, part.reserved)
        before = found.get(key(part), Usage(0, 0, 0, 0))
        found[key(part)] = Usage(
            before.in_use + usage.in_use,
            before.reserved + usage.reserved,
            before.peak + usage.peak,
            before.allocations + usage.allocations,
        )
    return found
