"""NumPy views through which a program may write at any time, as long as they live.

A view that `Lease` gives, and each view and buffer that is made of it, holds the lease; so nobody
can write any more when that has gone. NumPy tells nobody of writes, so as long as it lives the
bytes count as changed whenever a device needs them.

Where a device has written since, the view shows what was there before. A fingerprint of the host's
bytes then tells later whether the program wrote there meanwhile, which would be lost.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from haulage.errors import CoherenceError
from haulage.runtime.arrays.address import address_of
from haulage.runtime.device import Device
from haulage.runtime.memory import owners
from haulage.runtime.ranges import Ranges
from haulage.runtime.transfers.entry import View

# Words of a row, each of which has a weight of its own: the sum tells words that changed places.
_ROW = 4096
_WEIGHTS = np.random.default_rng(2654435761).integers(0, 2**64, _ROW, np.uint64) | np.uint64(1)


class Lease:
    """What NumPy asks for the memory, and what its arrays hold."""

    __slots__ = ("__weakref__", "_host", "_record")

    def __init__(self, host: np.ndarray, record: "Record") -> None:
        self._host = host
        self._record = record

    @property
    def __array_interface__(self) -> dict[str, Any]:
        host = self._host
        return {
            "version": 3,
            "shape": host.shape,
            "typestr": host.dtype.str,
            "data": (address_of(host), False),
        }

    def __del__(self) -> None:
        self._record.is_alive = False


@dataclass(frozen=True, eq=False)
class Stale:
    """Bytes of a view that are out of date.

    Attributes:
        part: which.
        device: that wrote there.
        since: the line that let a device write there.
        fingerprint: of what the host has there, where nobody is to write now; None: what it has is
            open, as a copy to it was cut short.
    """

    part: Ranges
    device: Device
    since: owners.Mark
    fingerprint: np.ndarray | None

    def was_written(self, host: np.ndarray) -> bool:
        """Whether somebody wrote there since it became stale, as far as is known."""
        found = self.fingerprint
        return found is not None and bool((found != _fingerprint_of(self.part, host)).any())

    def as_it_is_now(self, host: np.ndarray) -> "Stale":
        """The same, for what somebody may write from now on."""
        return replace(self, fingerprint=_fingerprint_of(self.part, host))


class Record:
    """What is known of a lease.

    Attributes:
        part: the bytes that can be written by it.
        mark: the line that asked for it.
        why: what that called, in words.
        is_overwritten: whether it was asked for to write all of them.
        is_alive: whether somebody can still write.
        stale: what of it is out of date.
    """

    __slots__ = ("is_alive", "is_overwritten", "mark", "part", "stale", "why")

    def __init__(self, part: Ranges, mark: owners.Mark, why: str, is_overwritten: bool) -> None:
        self.part = part
        self.mark = mark
        self.why = why
        self.is_overwritten = is_overwritten
        self.is_alive = True
        self.stale: list[Stale] = []

    @property
    def fresh(self) -> Ranges:
        """What of it is up to date."""
        part = self.part
        for stale in self.stale:
            part -= stale.part
        return part

    @property
    def view(self) -> View | None:
        """By what its bytes count as written; None: they were written for sure."""
        if self.is_alive or not self.is_overwritten:
            return View(self.why, self.is_alive)
        return None

    def becomes_stale(
        self, part: Ranges, host: np.ndarray, device: Device, since: owners.Mark
    ) -> bool:
        """Note that the host's bytes of `part` are out of date; whether any of them were not."""
        own = self.fresh & part
        if own:
            self.stale.append(Stale(own, device, since, _fingerprint_of(own, host)))
        return bool(own)


def _fingerprint_of(part: Ranges, host: np.ndarray) -> np.ndarray:
    return np.concatenate([fingerprint(host[start:stop]) for start, stop in part])


def view(
    host: np.ndarray, part: Ranges, mark: owners.Mark, why: str, is_overwritten: bool
) -> tuple[np.ndarray, Record]:
    """All bytes of `host` as an array that holds a new lease of `part`, and what is known of it."""
    record = Record(part, mark, why, is_overwritten)
    leased: np.ndarray = np.asarray(Lease(host, record))
    return leased, record


def fingerprint(data: np.ndarray) -> np.ndarray:
    """Words that differ where bytes do, but with a chance of 2**-64: sums of products of the words
    and random odd numbers, for each row of 32 KiB."""
    words = data[: data.size & -8].view(np.uint64) if data.size >= 8 else np.empty(0, np.uint64)
    rows = words.size // _ROW
    rest = np.zeros(_ROW, np.uint64)
    left = np.ascontiguousarray(data[rows * _ROW * 8 :])
    rest.view(np.uint8)[: left.size] = left
    with np.errstate(over="ignore"):
        whole = words[: rows * _ROW].reshape(rows, _ROW) @ _WEIGHTS
        return np.append(whole, rest @ _WEIGHTS)


class Leases:
    """The leases of one storage: what of them counts as written, and what of them is out of date.

    Args:
        name: that of the storage, for messages.

    Attributes:
        records: what is known of each, until one that nobody holds has been counted.
    """

    __slots__ = ("_name", "records")

    def __init__(self, name: object) -> None:
        self._name = name
        self.records: list[Record] = []

    def written(
        self, needed: Ranges | None, host: np.ndarray | None
    ) -> Iterator[tuple[Ranges, Record]]:
        """What counts as written on the host, and by which lease: of those that live what is
        `needed`; of those that are gone, which are forgotten, all.

        Raises:
            CoherenceError: somebody wrote through one that is gone what was out of date.
        """
        for record in [record for record in self.records if not record.is_alive]:
            self.records.remove(record)
            yield record.fresh, record
            self.check(record, record.stale, host)
        if needed is not None:
            for record in self.records:
                yield record.fresh & needed, record

    def not_counted(self) -> Ranges:
        """What can have been written by those that are gone, until it is counted."""
        return _fresh(record for record in self.records if not record.is_alive)

    def fresh(self) -> Ranges:
        """What can have been written by any."""
        return _fresh(self.records)

    def fresh_of(self, part: Ranges) -> Ranges:
        """Those of some bytes that can be written by one, and are up to date in it."""
        found = Ranges()
        for record in self.records:
            found |= record.fresh & part
        return found

    def mark_of(self, part: Ranges) -> owners.Mark:
        """The line that asked for one by which some of these bytes can be written; () for none."""
        return next((each.mark for each in self.records if each.part & part), ())

    def reach(self, part: Ranges) -> bool:
        """Whether some of these bytes can be written by one."""
        return any(record.part & part for record in self.records)

    def out_of_reach(self, part: Ranges) -> Ranges:
        """Those of some bytes that can be written by none."""
        for record in self.records:
            part -= record.part
        return part

    # ---- what is out of date ----------------------------------------------------------------

    def become_stale(
        self, part: Ranges, host: np.ndarray, device: Device, since: owners.Mark
    ) -> bool:
        """Note that a device wrote these bytes; whether one that lives is out of date by that."""
        changed = False
        for record in self.records:
            if record.is_alive and record.becomes_stale(part, host, device, since):
                changed = True
        return changed

    def out_of_date(self, device: Device) -> Iterator[Ranges]:
        """The pieces that a device wrote of those that live; each is to be brought up to date."""
        for record in tuple(self.records):
            for stale in tuple(record.stale):
                if record.is_alive and stale.device is device and stale in record.stale:
                    yield stale.part

    def whole_pieces(self, part: Ranges) -> Ranges:
        """`part` and the rest of each piece that it has bytes of: as each has one fingerprint, it
        is brought up to date as a whole."""
        while True:
            partly = self.partly_stale(part)
            if not partly:
                return part
            part |= partly

    def partly_stale(self, part: Ranges) -> Ranges:
        """The pieces of which some bytes are in `part`, but not all."""
        found = Ranges()
        for _, stale in self._stale_in(part):
            if not part.covers(stale.part):
                found |= stale.part
        return found

    def forget_stale(self, part: Ranges) -> None:
        """Note that the host has the current bytes of each piece that has some of `part`."""
        for record in self.records:
            if record.stale:
                record.stale = [stale for stale in record.stale if not stale.part & part]

    def leave_open(self, part: Ranges) -> None:
        """Note that a copy to the host was cut short: what it has of these pieces is open."""
        for record in self.records:
            record.stale = [
                replace(stale, fingerprint=None) if stale.part & part else stale
                for stale in record.stale
            ]

    def check_in(self, part: Ranges, host: np.ndarray | None) -> None:
        """`check`, for each piece that has bytes of `part`."""
        for record, stale in self._stale_in(part):
            self.check(record, [stale], host)

    def check(self, record: Record, pieces: Iterable[Stale], host: np.ndarray | None) -> None:
        """See that nobody wrote through a view what is out of date; that is told once.

        Raises:
            CoherenceError: somebody did.
        """
        for stale in pieces:
            if host is not None and stale.was_written(host):
                record.stale = [each.as_it_is_now(host) for each in record.stale]
                given, taken = owners.site(stale.since), owners.site(record.mark)
                raise CoherenceError(
                    f"{self._name}: a kernel was given it to write at {given}, and meanwhile the "
                    f"host wrote through a view that was taken at {taken}, which is lost. Call "
                    "get() or synchronize() between the kernel and the write"
                )

    def _stale_in(self, part: Ranges) -> list[tuple[Record, Stale]]:
        return [
            (record, stale)
            for record in self.records
            for stale in record.stale
            if stale.part & part
        ]


def _fresh(records: Iterable[Record]) -> Ranges:
    found = Ranges()
    for record in records:
        found |= record.fresh
    return found
