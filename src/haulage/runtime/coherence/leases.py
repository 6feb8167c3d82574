"""NumPy views through which a program may write at any time, as long as they live.

A view that `Lease` gives, and each view and buffer that is made of it, holds the lease; so nobody
can write any more when that has gone. NumPy tells nobody of writes, so as long as it lives the
bytes count as changed whenever a device needs them.

Where a device has written since, the view shows what was there before. A fingerprint of the host's
bytes then tells later whether the program wrote there meanwhile, which would be lost.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from haulage.runtime.arrays.address import address_of
from haulage.runtime.device import Device
from haulage.runtime.memory import owners
from haulage.runtime.ranges import Ranges

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
        fingerprint: of what the host has there, where nobody is to write now.
    """

    part: Ranges
    device: Device
    since: owners.Mark
    fingerprint: np.ndarray


class Record:
    """What is known of a lease.

    Attributes:
        part: the bytes that can be written by it.
        mark: the line that asked for it.
        is_alive: whether somebody can still write.
        stale: what of it is out of date.
    """

    __slots__ = ("is_alive", "mark", "part", "stale")

    def __init__(self, part: Ranges, mark: owners.Mark) -> None:
        self.part = part
        self.mark = mark
        self.is_alive = True
        self.stale: list[Stale] = []

    @property
    def fresh(self) -> Ranges:
        """What of it is up to date."""
        part = self.part
        for stale in self.stale:
            part -= stale.part
        return part

    def becomes_stale(
        self, part: Ranges, host: np.ndarray, device: Device, since: owners.Mark
    ) -> bool:
        """Note that the host's bytes of `part` are out of date; whether any of them were not."""
        own = self.fresh & part
        if own:
            self.stale.append(Stale(own, device, since, _fingerprint_of(own, host)))
        return bool(own)

    @staticmethod
    def was_written(stale: Stale, host: np.ndarray) -> bool:
        """Whether somebody wrote there since it became stale."""
        return not np.array_equal(stale.fingerprint, _fingerprint_of(stale.part, host))


def _fingerprint_of(part: Ranges, host: np.ndarray) -> np.ndarray:
    return np.concatenate([fingerprint(host[start:stop]) for start, stop in part])


def view(host: np.ndarray, part: Ranges, mark: owners.Mark) -> tuple[np.ndarray, Record]:
    """All bytes of `host` as an array that holds a new lease of `part`, and what is known of it."""
    record = Record(part, mark)
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
