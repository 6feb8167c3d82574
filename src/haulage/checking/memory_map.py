"""Which bytes work uses, and what of them another piece of work used before."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from haulage.checking.findings import Access, Index
from haulage.checking.order import Moment
from haulage.checking.places import place_of
from haulage.checking.touched import Touch
from haulage.runtime.geometry import layout
from haulage.runtime.process.call_sites import CallSite

# So much work is done to find out whether two views with gaps have a common byte.
_MOST_WORK = 10_000
# Before a piece of memory has so many entries nothing is looked for that is over.
_MANY = 32


@dataclass(frozen=True, slots=True)
class Region:
    """Elements of an array, by the device's or the host's addresses: `address` is that of the
    element (0, ..., 0), and `strides` are in bytes."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @classmethod
    def of_bytes(cls, address: int, nbytes: int) -> "Region":
        """So many bytes, one after the other."""
        return cls(address, (nbytes,), (1,), 1)

    @property
    def extent(self) -> tuple[int, int]:
        """The addresses of its first byte, and behind its last one."""
        low, high = layout.extent(self.shape, self.strides, self.itemsize)
        return self.address + low, self.address + high

    @property
    def is_dense(self) -> bool:
        """Whether every byte between its first and its last one is one of its elements'."""
        low, high = self.extent
        return prod(self.shape) * self.itemsize == high - low

    def at(self, address: int) -> "Region":
        """The same elements elsewhere."""
        return Region(address, self.shape, self.strides, self.itemsize)

    def meets(self, other: "Region") -> bool:
        """Whether some byte is in both; of views with gaps only if that is found out soon."""
        low, high = self.extent
        first, last = other.extent
        if high <= first or last <= low:
            return False
        if self.is_dense and other.is_dense:
            return True
        try:
            return bool(np.shares_memory(_array(self), _array(other), max_work=_MOST_WORK))  # type: ignore[arg-type]
        except np.exceptions.TooHardError:
            return False

    def index_of(self, address: int) -> Index | None:
        """The index of the element that has a byte; None: that is not known."""
        if any(step < 0 for step in self.strides):
            return None
        rest, index = address - self.address, [0] * len(self.shape)
        order = sorted(range(len(self.shape)), key=lambda axis: -self.strides[axis])
        for axis in order:
            step = self.strides[axis]
            if step and self.shape[axis] > 1:
                index[axis], rest = divmod(rest, step)
        inside = all(0 <= n < size for n, size in zip(index, self.shape, strict=True))
        return tuple(index) if inside and 0 <= rest < self.itemsize else None


class _Raw:
    def __init__(self, interface: dict[str, object]) -> None:
        self.__array_interface__ = interface


def _array(region: Region) -> np.ndarray:
    """An array over the bytes of a region, which nobody reads."""
    return np.asarray(
        _Raw(
            {
                "data": (region.address, False),
                "shape": region.shape,
                "strides": region.strides,
                "typestr": f"|V{region.itemsize}",
                "version": 3,
            }
        )
    )


@dataclass(frozen=True, slots=True)
class Use:
    """What a piece of work, or the host, does with a region.

    Attributes:
        what: the work in words: "kernel f", "a copy to the host", ...
        where: the stream in words, or "the host".
        reads, writes: whether it does so there.
        kernel, array: names of the kernel and of its argument, or "".
        call_site: the line of the program that asked for it.
        look: a `Touched`, which works out what a kernel touches of the region, and what it takes;
            None: all of it.
    """

    region: Region
    moment: Moment
    what: str
    where: str
    reads: bool
    writes: bool
    call_site: CallSite
    kernel: str = ""
    array: str = ""
    look: tuple[Callable[[str, bytes], Touch], str, bytes] | None = None

    def touch(self) -> Touch:
        """What is touched of the region: `extent` in addresses, at most."""
        low, high = self.region.extent
        if self.look is None:
            return Touch((low, high), False)
        touched, array, packed = self.look
        extent, is_atomic = touched(array, packed)
        if extent is None:
            return Touch((low, high), is_atomic)
        first, last = (self.region.address + each for each in extent)
        return Touch((max(low, first), min(high, last)), is_atomic)

    @property
    def access(self) -> Access:
        """What a finding has of it."""
        verb = "write" if self.writes else "read"
        return Access(
            place_of(self.call_site), verb if self.kernel else f"{verb} by {self.what}", self.kernel
        )


@dataclass(eq=False, slots=True)
class Piece:
    """A piece of memory: a block of Haulage's, or host memory that is registered.

    Attributes:
        key: what it is known by.
        start, stop: its addresses.
        call_site: the line that allocated it.
        uses: of its bytes, those that something to come may not be ordered with.
        on_host: whether it is the host's memory, be it that devices reach it too.
    """

    key: Any
    start: int
    stop: int
    call_site: CallSite
    uses: list[Use]
    on_host: bool = False


class Pieces:
    """Finds the piece of memory that has an address."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._by_start: dict[int, Piece] = {}
        self._by_key: dict[Any, Piece] = {}

    def __iter__(self) -> Iterator[Piece]:
        return iter(tuple(self._by_start.values()))

    def of_key(self, key: Any) -> Piece | None:
        """The piece that is known by a key."""
        return self._by_key.get(key)

    def add(self, piece: Piece) -> None:
        """There is a new piece; what had its addresses before is gone."""
        self.remove_all(piece.start, piece.stop)
        insort(self._starts, piece.start)
        self._by_start[piece.start] = self._by_key[piece.key] = piece

    def remove(self, start: int) -> Piece | None:
        """The piece that begins at an address is no more; it, if there was one."""
        piece = self._by_start.pop(start, None)
        if piece is not None:
            del self._starts[bisect_right(self._starts, start) - 1]
            if self._by_key.get(piece.key) is piece:
                del self._by_key[piece.key]
        return piece

    def find(self, address: int) -> Piece | None:
        """The piece that has a byte; None: none has."""
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        piece = self._by_start[self._starts[at]]
        return piece if address < piece.stop else None

    def remove_all(self, start: int, stop: int) -> None:
        """The pieces that have some byte from `start` on and before `stop` are no more."""
        first = max(bisect_right(self._starts, start) - 1, 0)
        last = bisect_left(self._starts, stop, first)
        for each in self._starts[first:last]:
            if self._by_start[each].stop > start:
                self.remove(each)


def note(uses: list[Use], new: Use, is_over: Callable[[Moment], bool]) -> list[Use]:
    """Add a use to those of a piece of memory; gives those that it is not ordered with."""
    found = []
    kept = []
    low, high = new.region.extent
    # A kernel may touch less.
    covers = new.region.is_dense and (new.look is None or len(uses) >= _MANY)
    for use in uses:
        if use.moment.actor is new.moment.actor and use.moment.time == new.moment.time:
            kept.append(use)  # of the same work
            continue
        ordered = use.moment.is_ordered_with(new.moment)
        if not ordered and (use.writes or new.writes) and use.region.meets(new.region):
            found.append(use)
        alike = new.look is not None and use.look == new.look
        if ordered and (covers or alike) and (new.writes or not use.writes):
            first, last = use.region.extent
            if low <= first and last <= high and use.moment.is_before(new.moment.clock):
                continue  # what comes and is not ordered with it is not with the new one, either
        kept.append(use)
    if len(kept) >= _MANY:
        kept = [use for use in kept if not is_over(use.moment)]
    kept.append(new)
    uses[:] = kept
    return found


def common(one: Use, other: Use) -> tuple[int, int] | None:
    """The first byte that both may touch, and how many there are between it and the last one; None:
    they touch no common one, or both by atomic operations only."""
    (extent, is_atomic), (also, is_also) = one.touch(), other.touch()
    assert extent is not None, "a region has one"
    assert also is not None, "a region has one"
    begin, end = max(extent[0], also[0]), min(extent[1], also[1])
    return None if begin >= end or (is_atomic and is_also) else (int(begin), int(end - begin))


def region_of(array: np.ndarray) -> Region:
    """The elements of an array of NumPy."""
    address = array.__array_interface__["data"][0]
    return Region(address, array.shape, array.strides, array.itemsize)


def region_of_fields(fields: Sequence[int], axes: int) -> Region:
    """The elements of an array, by the words of its field in the argument block of a launch."""
    itemsize, address = fields[3], fields[4]
    return Region(address, tuple(fields[5 : 5 + axes]), tuple(fields[5 + axes :]), itemsize)
