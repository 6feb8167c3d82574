"""Memory of a replica that others have: other libraries (exports), and the program (handed out).

Other libraries, to which DLPack or the CUDA array interface gave memory, report no writes. As long
as one has memory that it may write to, its bytes count as changed there whenever another place
needs them. It stays where it is meanwhile, and is kept up to date with what is written elsewhere.
The program reports when it has written to a device array that it was handed (`mark_changed`).

Where NumPy views can write to the same bytes on the host, both sides may have written. A `Baseline`
then keeps what both had last, which tells who has.
"""

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from haulage._core.coherence import BaselineBase, HandedOutBase, Records
from haulage.errors import CoherenceError
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.geometry.ranges import Ranges, Run
from haulage.runtime.memory import Block
from haulage.runtime.process import call_sites
from haulage.runtime.process.call_sites import CallSite

# So many handed-out arrays are kept in mind before those are looked for that nobody has any more.
_MANY = 8


class Baseline(BaselineBase):
    """What the host and devices had in common last, of the bytes that both can write unseen.

    Args:
        grain: bytes of an element, which is written as a whole.

    Attributes:
        parts: these bytes, by device.
    """

    __slots__ = ("_grain", "_values")

    def __init__(self, grain: int) -> None:
        self._grain = grain
        self.parts: dict[Device, Ranges] = {}
        # At the places that they have on the host.
        self._values: np.ndarray | None = None

    @property
    def values(self) -> np.ndarray:
        """What both had, at the places that the bytes have on the host; only if there are any."""
        assert self._values is not None
        return self._values

    def of(self, device: Device) -> Ranges:
        """The bytes for which it is known what the device and the host had last."""
        return self.parts.get(device, Ranges())

    def of_all(self) -> Ranges:
        """`of`, for all devices."""
        found = Ranges()
        for part in self.parts.values():
            found |= part
        return found

    def take(self, device: Device, part: Ranges, host: np.ndarray) -> None:
        """The host and the device have the same bytes now; keep those of `part`, and no others."""
        known = self.of(device)
        if part:
            if self._values is None:
                self._values = np.empty_like(host)
            for start, stop in part - known:
                self._values[start:stop] = host[start:stop]
            self.parts[device] = part
        else:
            self.parts.pop(device, None)
        if not self.parts:
            self._values = None

    def forget(self, part: Ranges) -> None:
        """Some bytes were written by somebody who reported it."""
        for device, known in tuple(self.parts.items()):
            self.parts[device] = known - part

    def clear(self) -> None:
        """Forget all."""
        self.parts.clear()
        self._values = None

    def changed(self, part: Ranges, now: np.ndarray) -> Ranges:
        """The elements that differ in `part`, whose bytes must be known, from what is there now."""
        found: list[Run] = []
        for start, stop in part:
            first, last = start // self._grain * self._grain, -(-stop // self._grain) * self._grain
            differ = np.zeros(last - first, bool)
            differ[start - first : stop - first] = self.values[start:stop] != now[start:stop]
            edges = np.diff(differ.reshape(-1, self._grain).any(1), prepend=False, append=False)
            for begin, end in np.flatnonzero(edges).reshape(-1, 2).tolist():
                found.append((first + begin * self._grain, first + end * self._grain))
        return Ranges.union(found) & part


# ---- other libraries ------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Export:
    """What is known of memory that another library has.

    Attributes:
        device: whose memory it is.
        part: which bytes.
        writable: whether the other one may write to them.
        call_site: the line that exported it.
        is_alive: whether anybody still has it.
    """

    device: Device
    part: Ranges
    writable: bool
    call_site: CallSite
    is_alive: bool = True


class Hold:
    """What the other library holds; when it goes, nobody can write any more."""

    __slots__ = ("_export",)

    def __init__(self, export: Export) -> None:
        self._export = export

    def __del__(self) -> None:
        self._export.is_alive = False


class Exports(Records):
    """The memory of one storage that other libraries have.

    Args:
        name: that of the storage, for messages.
        grain: bytes of an element, which is written as a whole.

    Attributes:
        records: those that live, and those that are gone and have not been counted as written yet.
        baseline: what views of the host had in common with them.
    """

    __slots__ = ("_name", "baseline")

    def __init__(self, name: object, grain: int) -> None:
        self._name = name
        self.baseline = Baseline(grain)
        self.records: list[Export] = []

    def add(self, device: Device, part: Ranges, writable: bool, call_site: CallSite) -> Hold:
        """Note that another library has memory, as long as it holds what is returned.

        Raises:
            CoherenceError: one that may write has these bytes on another device.
        """
        for other in self.records:
            if writable and other.writable and other.device is not device and other.part & part:
                raise CoherenceError(
                    f"{self._name}: another library has it on {other.device}, to write to it, "
                    f"since {call_sites.site(other.call_site)}, and was to have it on {device} at "
                    f"{call_sites.site(call_site)}: nobody could tell what both write. Let go of "
                    "the first one before, or give one of them the array of get(where, 'r')"
                )
        made = Export(device, part, writable, call_site)
        self.records = [each for each in self.records if not _is_covered_by(each, made)]
        self.records.append(made)
        return Hold(made)

    def devices_in_use(self, place: Device | None, writing: bool, viewed: bool) -> Iterable[Device]:
        """The devices to be waited for before `place` (None: the host) has the bytes, as others may
        work there with them.

        Args:
            writing: the place is to write to them.
            viewed: there are views of the host that can be written to.
        """
        return {
            each.device: None
            for each in self.records
            if (each.writable or writing) and (viewed or each.device is not place)
        }

    def of(self, device: Device) -> Ranges:
        """The bytes of a device that somebody has."""
        return Ranges.union(
            run for each in self.records if each.device is device for run in each.part
        )

    def written(self, place: Device | None, needed: Ranges) -> list[tuple[Export, Ranges]]:
        """What counts as written on devices when `needed` is needed at `place` (None: the host),
        and through which export; of each that is gone everything, and it is forgotten."""
        found: list[tuple[Export, Ranges]] = []
        for each in tuple(self.records):
            if each.device is not place:
                if not each.is_alive:
                    self.records.remove(each)
                if each.writable:
                    found.append((each, each.part & needed if each.is_alive else each.part))
        if not self.records:
            # Nothing is kept up to date with the baseline any more.
            self.baseline.clear()
        return found

    def end(self, device: Device) -> list[Export]:
        """Forget all of a device, whose memory is gone; those that could be written to."""
        gone = [each for each in self.records if each.device is device]
        self.records = [each for each in self.records if each.device is not device]
        self.baseline.parts.pop(device, None)
        return [each for each in gone if each.writable]

    def not_counted(self, place: Device | None) -> Ranges:
        """What may have been written on other devices than `place` through exports that are gone,
        and was not counted yet."""
        gone = [each for each in self.records if each.writable and not each.is_alive]
        return Ranges.union(run for each in gone if each.device is not place for run in each.part)

    def is_written(self, device: Device) -> bool:
        """Whether another library may write to what it has of a device."""
        return any(each.writable and each.device is device for each in self.records)

    def call_site_of(self, device: Device, part: Ranges) -> CallSite:
        """The line that exported some of these bytes of a device for writing."""
        return next(
            each.call_site
            for each in self.records
            if each.device is device and each.writable and each.part & part
        )

    def collision(self, device: Device, both: Ranges, viewed: CallSite) -> CoherenceError:
        """The error for elements that another library and a view of the host, taken at a line, have
        both written."""
        given, taken = call_sites.site(self.call_site_of(device, both)), call_sites.site(viewed)
        return CoherenceError(
            f"{self._name}: another library, which was given it on {device} at {given}, and the "
            f"host, through a view that was taken at {taken}, have written the same elements; what "
            "the host wrote is lost. Call get() or synchronize() between the two"
        )


def _is_covered_by(one: Export, other: Export) -> bool:
    """Whether nobody has `one` any more, and all that it counts for counts for `other` as well."""
    if one.is_alive:
        return False
    if not one.writable:
        return True
    return one.device is other.device and other.writable and other.part.covers(one.part)


# ---- device arrays of the program -----------------------------------------------------------


class HandedOut(HandedOutBase):
    """The device arrays of one storage that the program was handed, to write to them.

    Args:
        grain: bytes of an element, which is written as a whole.

    Attributes:
        records: of each, its bytes, and the block that its views hold too.
        baseline: what views of the host had in common with them.
    """

    __slots__ = ()

    baseline: Baseline

    def __init__(self, grain: int) -> None:
        self.baseline = Baseline(grain)
        self.records: list[tuple[Ranges, weakref.ref[Block]]] = []

    def add(self, part: Ranges, block: Block) -> None:
        """The program has an array, as long as it holds the block."""
        if len(self.records) > _MANY:
            self.drop_dead()
        self.records.append((part, weakref.ref(block)))

    def drop_dead(self) -> None:
        """Forget the arrays that nobody has any more."""
        self.records = [each for each in self.records if each[1]() is not None]

    def of(self, device: Device) -> Ranges:
        """The bytes of a device that the program has or, where the baseline has them, had."""
        part = self.baseline.of(device)
        for own, held in self.records:
            block = held()
            if block is not None and block.device is device:
                part |= own
        return part


class Exporter(Protocol):
    """The storage that a replica is of."""

    def export(self, block: Block, start: int, stop: int, readonly: bool) -> object:
        """What another library is to hold as long as it has bytes of a replica's block."""
        ...


class HandedOutBlock(Block):
    """The block `of` a replica, for an array that the program is handed: `storage` is told when
    the program hands it on to another library. All that it does not have itself is that block's.
    """

    __slots__ = ("held", "of", "storage")

    of: Block
    storage: "weakref.ref[Exporter]"
    held: list[object]

    def __init__(self, of: Block, storage: Exporter) -> None:
        own = object.__setattr__
        own(self, "of", of)
        own(self, "storage", weakref.ref(storage))
        own(self, "held", [])

    def note_export(self, start: int, stop: int, readonly: bool, kept: bool = False) -> object:
        """As `Block.note_export`."""
        storage = self.storage()
        hold = None if storage is None else storage.export(self.of, start, stop, readonly)
        if kept and hold is not None:
            self.held.append(hold)
        return hold

    def use(self, stream: Stream | None = None) -> None:
        """As `Block.use`."""
        self.of.use(stream)

    def close(self) -> None:
        """As `Block.close`."""
        self.of.close()

    def __getattribute__(self, name: str) -> Any:
        own = object.__getattribute__
        return own(self, name) if name in _OWN else getattr(own(self, "of"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.of, name, value)


# What it has itself.
_OWN = {"__class__", *vars(HandedOutBlock)}
