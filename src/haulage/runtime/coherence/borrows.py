"""NumPy views of the host's memory that a program has borrowed, to write through at any time.

Such a view, and each view and buffer made of it, holds a `BorrowedMemory`; once that has gone,
nobody can write any more. NumPy reports no writes, so as long as it lives the bytes count as
changed whenever a device needs them.

Where a device has written since, the view shows what was there before. A fingerprint of the host's
bytes then tells whether the program wrote there meanwhile, which would be lost.
"""

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from haulage import forks
from haulage._core import coherence as core
from haulage._core.coherence import Borrow, BorrowedMemory, Records
from haulage.errors import CoherenceError
from haulage.runtime.devices.device import Device
from haulage.runtime.geometry.ranges import Ranges
from haulage.runtime.memory import Block
from haulage.runtime.process import call_sites
from haulage.runtime.process.call_sites import CallSite
from haulage.runtime.transfers.entries import View

if TYPE_CHECKING:
    from haulage.runtime.coherence.state import State

# Words of a row, each of which has a weight of its own: the sum tells words that changed places.
_ROW = 4096
_WEIGHTS = np.random.default_rng(2654435761).integers(0, 2**64, _ROW, np.uint64) | np.uint64(1)


@dataclass(frozen=True, eq=False)
class Stale:
    """Bytes of a view that are out of date.

    Attributes:
        part: which.
        device: that wrote there.
        since: the line that let a device write there.
        fingerprint: of the host's bytes there, which nobody may write now; None: they are
            undefined, as a copy to them was cut short.
    """

    part: Ranges
    device: Device
    since: CallSite
    fingerprint: np.ndarray | None

    def was_written(self, host: np.ndarray) -> bool:
        """Whether somebody wrote there since it became stale, as far as is known."""
        before = self.fingerprint
        return before is not None and bool((before != _fingerprint_of(self.part, host)).any())


core.know(np.ndarray, View, Block, Ranges())


def _fingerprint_of(part: Ranges, host: np.ndarray) -> np.ndarray:
    return np.concatenate([fingerprint(host[start:stop]) for start, stop in part])


def borrow(
    host: np.ndarray, part: Ranges, call_site: CallSite, why: str, is_overwritten: bool
) -> tuple[np.ndarray, Borrow]:
    """All bytes of `host` as an array through which `part` may be written, and what is known of
    that."""
    made = Borrow(part, call_site, why, is_overwritten)
    memory: Any = BorrowedMemory(host, made)
    return np.ndarray(host.shape, host.dtype, memory), made


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


class Borrows(Records):
    """The borrows of one storage: what of them counts as written, and what is out of date.

    Args:
        name: that of the storage, for messages.

    Attributes:
        records: those that live, and those that are gone and have not been counted as written yet.
        pending: those for a `with` that overwrites, and that do not count as written yet.
    """

    __slots__ = ("_name",)

    def __init__(self, name: object) -> None:
        self._name = name
        self.records: list[Borrow] = []
        self.pending: list[Borrow] = []

    def no_longer_pending(self, one: Borrow) -> bool:
        """Remove one from `pending`; whether it was there."""
        is_pending = one in self.pending
        if is_pending:
            self.pending.remove(one)
        return is_pending

    def written(
        self, needed: Ranges | None, host: np.ndarray | None
    ) -> Iterator[tuple[Ranges, Borrow]]:
        """What counts as written on the host, and through which borrow: of each that lives what is
        `needed`; of each that is gone everything, and it is forgotten.

        Raises:
            CoherenceError: somebody wrote through one that is gone what was out of date.
        """
        for one in [one for one in self.records if not one.is_alive]:
            self.records.remove(one)
            yield one.fresh, one
            if one.stale:
                self.check(one, host)
        if needed is not None:
            for one in self.records:
                yield one.fresh & needed, one

    def not_counted(self) -> Ranges:
        """What can have been written through those that are gone, and was not counted yet."""
        gone = [one for one in self.records if not one.is_alive]
        return Ranges.union(run for one in gone for run in one.fresh)

    def fresh(self) -> Ranges:
        """The bytes that can be written through any, and are up to date in it."""
        return Ranges.union(run for one in self.records for run in one.fresh)

    def call_site_of(self, part: Ranges) -> CallSite:
        """The line that borrowed some of these bytes; () for none."""
        return next((one.call_site for one in self.records if one.part & part), ())

    def reach(self, part: Ranges) -> bool:
        """Whether some of these bytes are borrowed."""
        return any(one.part & part for one in self.records)

    def not_borrowed(self, part: Ranges) -> Ranges:
        """Those of some bytes that nobody has borrowed."""
        for one in self.records:
            part -= one.part
        return part

    # ---- what is out of date ----------------------------------------------------------------

    def outdate(self, part: Ranges, host: np.ndarray, device: Device, since: CallSite) -> bool:
        """A device wrote these bytes; whether a view that lives is out of date by that."""
        changed = False
        for one in self.records:
            own = one.fresh & part if one.is_alive else None
            if own:
                one.stale += (Stale(own, device, since, _fingerprint_of(own, host)),)
                changed = True
        return changed

    def out_of_date(self, device: Device) -> Iterator[Ranges]:
        """The stale pieces of live views that a device wrote; the caller brings each of them up to
        date before it asks for the next one."""
        for one in tuple(self.records):
            for stale in one.stale:
                if one.is_alive and stale.device is device and stale in one.stale:
                    yield stale.part

    def whole_pieces(self, part: Ranges) -> Ranges:
        """`part` and the rest of each stale piece that it overlaps: as a piece has one fingerprint,
        it is brought up to date as a whole."""
        while True:
            partly = self.partly_stale(part)
            if not partly:
                return part
            part |= partly

    def partly_stale(self, part: Ranges) -> Ranges:
        """The stale pieces that `part` overlaps but does not cover."""
        overlapped = [stale.part for _, stale in self._stale_in(part)]
        return Ranges.union(run for own in overlapped if not part.covers(own) for run in own)

    def forget_stale(self, part: Ranges) -> None:
        """The host has the current bytes of each stale piece that overlaps `part`."""
        for one in self.records:
            if one.stale:
                one.stale = tuple([stale for stale in one.stale if not stale.part & part])

    def copy_was_cut_short(self, part: Ranges) -> None:
        """A copy to the host was not finished: its bytes in stale pieces there are undefined."""
        for one in self.records:
            one.stale = tuple(
                [
                    replace(stale, fingerprint=None) if stale.part & part else stale
                    for stale in one.stale
                ]
            )

    def check_in(self, part: Ranges, host: np.ndarray | None) -> None:
        """`check`, for the stale pieces that overlap `part`."""
        self._check(self._stale_in(part), host)

    def check(self, one: Borrow, host: np.ndarray | None) -> None:
        """See that nobody wrote to stale pieces of a view; it is told once.

        Raises:
            CoherenceError: somebody did.
        """
        self._check([(one, stale) for stale in one.stale], host)

    def _check(self, pieces: list[tuple[Borrow, Stale]], host: np.ndarray | None) -> None:
        for one, stale in pieces:
            if host is not None and stale.was_written(host):
                one.stale = tuple(
                    [
                        replace(each, fingerprint=_fingerprint_of(each.part, host))
                        for each in one.stale
                    ]
                )
                given, taken = call_sites.site(stale.since), call_sites.site(one.call_site)
                raise CoherenceError(
                    f"{self._name}: a kernel was given it to write at {given}, and meanwhile the "
                    f"host wrote through a view that was taken at {taken}, which is lost. Call "
                    "get() or synchronize() between the kernel and the write"
                )

    def _stale_in(self, part: Ranges) -> list[tuple[Borrow, Stale]]:
        return [(one, stale) for one in self.records for stale in one.stale if stale.part & part]


class OutdatedViews(dict["weakref.ref[State]", set[Device]]):
    """The storages of which views show what is out of date, and the devices that wrote it: when the
    program has waited for these, `refresh` brings the views up to date."""

    def __init__(self) -> None:
        self._lock = forks.lock()

    def add(self, state: "State", device: Device) -> None:
        """A device wrote what views of a storage show."""
        with self._lock:
            self.setdefault(weakref.ref(state, self._forget), set()).add(device)

    def remove(self, state: "State", device: Device) -> None:
        """They are about to be brought up to date."""
        with self._lock:
            devices = self[weakref.ref(state)]
            devices.discard(device)
            if not devices:
                del self[weakref.ref(state)]

    def of(self, device: Device) -> list["State"]:
        """The storages of which a device wrote what views show."""
        with self._lock:
            found = [key() for key, devices in tuple(self.items()) if device in devices]
        return [state for state in found if state is not None]

    def _forget(self, key: "weakref.ref[State]") -> None:
        self.pop(key, None)


outdated_views = OutdatedViews()
