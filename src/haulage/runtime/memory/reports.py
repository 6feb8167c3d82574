"""Who holds memory: live blocks by the line that asked for them; and `leaks`."""

import gc
import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from haulage.backends.base import DEVICE, KINDS, MANAGED
from haulage.errors import LeakError, OutOfMemory
from haulage.runtime.devices import pending
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import find
from haulage.runtime.memory.block import Block, live_blocks
from haulage.runtime.memory.heap import heaps
from haulage.runtime.process import call_sites, finalize, runtime
from haulage.runtime.process.call_sites import Site

# So many holders stand in the message of an OutOfMemory.
_TOP = 5
# So many arrays are named of a holder.
_MOST_NAMES = 3


class Holding(NamedTuple):
    """The live blocks of one kind on one device that one place of the program asked for.

    Attributes:
        sites: the place: one line, or as many as `track` says, the innermost first.
        device: such as 'cpu:0'.
        kind: 'device', 'pinned', 'mapped' or 'managed'.
        nbytes: bytes of all of them.
        blocks: how many they are.
        oldest, newest: seconds since the first and since the last of them was asked for.
        copies_of: the SmartArrays that some of them are copies of, by name; the first few.
    """

    sites: tuple[Site, ...]
    device: str
    kind: str
    nbytes: int
    blocks: int
    oldest: float
    newest: float
    copies_of: tuple[str, ...] = ()

    def __str__(self) -> str:
        blocks = "1 block" if self.blocks == 1 else f"{self.blocks:,} blocks"
        line = (
            f"{self.nbytes:>17,} bytes in {blocks}, {self.kind} memory on {self.device}, "
            f"{_ages(self.oldest, self.newest)} old: {self.sites[0]}"
        )
        if self.copies_of:
            line += f" (for {', '.join(self.copies_of)})"
        return "".join([line, *(f"\n{'':>23} called at {site}" for site in self.sites[1:])])


class Report(str):
    """The text of a report, with the `holdings` that it tells of."""

    __slots__ = ("holdings",)

    holdings: tuple[Holding, ...]

    def __repr__(self) -> str:
        return str(self)


def own_blocks(device: Device | None = None) -> list[Block]:
    """The live blocks that Haulage has allocated, on one device or on all."""
    return [
        block
        for block in live_blocks()
        if block.pool is not None and (device is None or block.device is device)
    ]


def holdings(blocks: Iterable[Block]) -> tuple[Holding, ...]:
    """Blocks by who asked for them, those who hold most first."""
    now = time.monotonic()
    groups: dict[Any, list[Block]] = {}
    for block in blocks:
        groups.setdefault((block.call_site, str(block.device), block.kind), []).append(block)
    by_site: dict[Any, list[Block]] = {}
    for (call_site, device, kind), members in groups.items():
        by_site.setdefault((call_sites.sites(call_site), device, kind), []).extend(members)
    names = {
        number: name for namer in runtime.current.block_names for number, name in namer().items()
    }
    found = [
        Holding(
            sites,
            device,
            kind,
            sum(block.nbytes for block in members),
            len(members),
            now - min(block.born for block in members),
            now - max(block.born for block in members),
            _named(members, names),
        )
        for (sites, device, kind), members in by_site.items()
    ]
    return tuple(sorted(found, key=lambda holding: -holding.nbytes))


def _named(blocks: list[Block], names: dict[int, str]) -> tuple[str, ...]:
    found = [names[block.generation] for block in blocks if block.generation in names]
    rest = len(found) - _MOST_NAMES
    return (*found[:_MOST_NAMES], *([f"{rest:,} others"] if rest > 0 else []))


def report_of(blocks: list[Block], what: str) -> Report:
    """A report on some blocks; `what` are they, for its first line."""
    held = holdings(blocks)
    count = "1 block" if len(blocks) == 1 else f"{len(blocks):,} blocks"
    first = f"{what}: {sum(block.nbytes for block in blocks):,} bytes in {count}"
    made = Report("\n".join([first, *map(str, held)]))
    made.holdings = held
    return made


def report(device: str | Device | None = None) -> Report:
    """Who holds memory: the live blocks, by the file and line that asked for them, largest first.

    It is a text, to be printed; its `holdings` have the same as numbers.

    Args:
        device: of which device, a `Device` or a name as in `haulage.use`; None: of all.

    Raises:
        DeviceNotFound: there is no such device.
    """
    of = None if device is None else find(device, "report: device")
    return report_of(own_blocks(of), "live memory" if of is None else f"live memory on {of}")


def described(refused: OutOfMemory, device: Device, nbytes: int, kind: str) -> OutOfMemory:
    """The error for the program: what was asked, what there is, and who has it."""
    properties = device.properties
    # Where the host has memory of its own, what is pinned there is none of the device's.
    on_device = KINDS if properties.host_memory_is_device_memory else (DEVICE, MANAGED)
    mine = [
        heap
        for heap in tuple(heaps.values())
        if heap.device is device and (heap.kind in on_device) == (kind in on_device)
    ]
    same = [heap for heap in mine if heap.kind == kind]
    reserved = sum(heap.reserved for heap in mine)
    in_use = sum(heap.counter.in_use for heap in mine)
    pieces = sum(heap.reserved - heap.counter.in_use for heap in same)
    largest = max((heap.arena.largest_free for heap in same), default=0)
    free, all_of_it = device.memory_info()
    lines = [
        f"{device} has no room for {nbytes:,} bytes of {kind} memory, asked for at "
        f"{call_sites.site(call_sites.current())}",
        f"  {refused}",
        f"  free on the device: {free:,} of {all_of_it:,} bytes; held by others: "
        f"{max(0, all_of_it - free - reserved):,}",
        f"  held by this program: {reserved:,} bytes, {in_use:,} of them in use; "
        f"{pieces:,} bytes of {kind} memory are free in pieces (fragmented), the largest of "
        f"{largest:,} bytes",
    ]
    held = [one for one in holdings(own_blocks(device)) if one.kind in {h.kind for h in mine}]
    if held:
        lines.append("  largest holders:")
        lines += [f"  {holding}" for holding in held[:_TOP]]
        rest = sum(holding.nbytes for holding in held[_TOP:])
        if rest:
            lines.append(f"  {rest:>17,} bytes more, in {len(held) - _TOP} other places")
    lines.append(
        "  close() arrays that are not needed, or see haulage.memory.report() for all holders"
    )
    return OutOfMemory("\n".join(lines))


def _ages(oldest: float, newest: float) -> str:
    first, last = _duration(newest), _duration(oldest)
    return first if first == last else f"{first} to {last}"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


class leaks:
    """`with leaks():` fails if memory that was allocated inside is still held at its end.

    What another thread allocates meanwhile counts as well. Objects that only a garbage collection
    frees are no leaks: one is made at the end.

    Args:
        device: only memory of this device counts, a `Device` or a name as in `haulage.use`; None:
            of all.

    Raises:
        LeakError: at the end: something is held; it has the report. Not where the body has failed
            itself.
        DeviceNotFound: there is no such device.
    """

    def __init__(self, device: str | Device | None = None) -> None:
        self._device = None if device is None else find(device, "leaks: device")
        self._before: frozenset[int] = frozenset()

    def __enter__(self) -> "leaks":
        _let_go()
        self._before = frozenset(each.generation for each in own_blocks(self._device))
        return self

    def __exit__(self, failed: type[BaseException] | None, *exception: Any) -> None:
        if failed is not None:
            return
        held = self.report()
        if held is not None:
            raise LeakError(f"{held}\nfree them inside, or keep what outlives it outside")

    def report(self) -> Report | None:
        """What was allocated since the beginning and is still held; None if nothing is."""
        if self._left():
            _let_go()
            gc.collect()
            finalize.drain()
            pending.reap()
        left = self._left()
        return report_of(left, "memory that was allocated inside is still held") if left else None

    def _left(self) -> list[Block]:
        return [each for each in own_blocks(self._device) if each.generation not in self._before]


def _let_go() -> None:
    for watcher in runtime.current.watchers:
        watcher.let_go()
