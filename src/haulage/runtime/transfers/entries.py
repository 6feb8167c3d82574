"""One copy between two places, and several of them as a sequence that can be shown."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, overload

import numpy as np

from haulage.runtime.geometry import layout
from haulage.runtime.geometry.numpy_arrays import address_of
from haulage.runtime.process import call_sites
from haulage.runtime.process.call_sites import CallSite, Site

HOST: Final = "host"
# Who holds memory of a device that is no NumPy array.
OTHERS: Final = "another library"

Direction = Literal["host to device", "device to host", "device to device"]


class View(NamedTuple):
    """How a NumPy array was got through which bytes could be written, so that they counted as such;
    or that another library has the memory.

    Attributes:
        taken_by: in words: "get('host')", "a function compiled by Numba", "another library".
        is_held: whether it could be written still when they were counted.
    """

    taken_by: str
    is_held: bool


@dataclass(frozen=True, slots=True)
class Transfer:
    """One copy between two places.

    Attributes:
        array: whose bytes, in words: "SmartArray (1000,) float64 made at program.py:13", with "(no.
            2)" for the second one of a line; "array (1000,) float64".
        source, target: 'host', or a device such as 'cpu:0'.
        nbytes: bytes copied; 0 where the copy at the source was dropped, as they were elsewhere.
        stream: handle of the stream that it was handed to.
        why: who needed the bytes at the target, or the room at the source.
    """

    array: str
    source: str
    target: str
    nbytes: int
    stream: int
    why: str
    # Where the bytes were written last and where they were needed, looked up when asked for.
    _wrote: CallSite = field(default=(), repr=False)
    _looked: CallSite = field(default=(), repr=False)
    # The account of a SmartArray's bytes, or addresses (first, end) on the host and on the device.
    _of: Any = field(default=None, repr=False, compare=False)
    _view: View | None = field(default=None, repr=False)

    @property
    def direction(self) -> Direction:
        """'host to device', 'device to host' or 'device to device'."""
        if self.source == HOST:
            return "host to device"
        return "device to host" if self.target == HOST else "device to device"

    @property
    def wrote(self) -> Site | None:
        """The line of the program that wrote the bytes last, or took the `view` by which they
        counted as written; None: not known."""
        return call_sites.site(self._wrote) if self._wrote else None

    @property
    def view(self) -> str | None:
        """How the NumPy view was got, in words, by which the bytes counted as written, or "another
        library" that had the memory; None: they were written."""
        return None if self._view is None else self._view.taken_by

    @property
    def is_held(self) -> bool:
        """Whether that view was held still, so that they count as written at each launch."""
        return self._view is not None and self._view.is_held

    @property
    def looked(self) -> Site | None:
        """The line of the program that needed them at the target; None: not known."""
        return call_sites.site(self._looked) if self._looked else None

    def __str__(self) -> str:
        stream = f", stream {self.stream:#x}" if self.stream else ""
        text = (
            f"{self.nbytes:,} bytes from {self.source} to {self.target}{stream}: "
            f"{self.array}, for {self.why}"
        )
        if self._looked:
            text += f" at {self.looked}"
        if self._wrote:
            text += f"; {written(self._view)} {self.wrote}"
        return text


def written(view: View | None) -> str:
    """How bytes were written or counted as such, in words that the line follows."""
    if view is None:
        return "written last at"
    if view.taken_by == OTHERS:
        when = ("be", "has") if view.is_held else ("have been", "had")
        return "may {} written by another library that {} the memory since".format(*when)
    if view.is_held:
        return f"may be written through the view of {view.taken_by} held since"
    return f"may have been written by {view.taken_by} at"


DIRECTIONS = ("host to device", "device to host", "device to device")
# So many are shown; of more, as many as half of these from each end.
_SHOWN = 40


class Transfers(Sequence[Transfer]):
    """Transfers in the order in which they were handed to their streams.

    `print(t)` shows them in lines, notebooks show a table.
    """

    def __init__(self, entries: Iterable[Transfer] = ()) -> None:
        self._entries = list(entries)

    @property
    def nbytes(self) -> int:
        """Bytes of all of them."""
        return sum(one.nbytes for one in tuple(self._entries))

    def count(self, direction: Any = None) -> int:
        """How many there are of a direction: 'host to device', 'device to host' or 'device to
        device'; None: of all.

        Raises:
            ValueError: there is no such direction.
        """
        return len(self) if direction is None else len(self.where(direction))

    def where(self, direction: str) -> "Transfers":
        """Those of a direction, as for `count`.

        Raises:
            ValueError: there is no such direction.
        """
        if direction not in DIRECTIONS:
            known = ", ".join(map(repr, DIRECTIONS))
            raise ValueError(f"direction {direction!r}: expected {known}")
        return Transfers(one for one in tuple(self._entries) if one.direction == direction)

    def of(self, array: Any) -> "Transfers":
        """Those of the bytes of one array.

        Args:
            array: a SmartArray, of which all views count; or a NumPy or device array: what was
                copied from or to any part of its memory, while it was there.

        Raises:
            TypeError: it is none of these.
        """
        account = account_of(array)
        if account is not None:
            return Transfers(one for one in tuple(self._entries) if one._of is account)
        low, high = extent(array)
        return Transfers(
            one
            for one in tuple(self._entries)
            if isinstance(one._of, tuple)
            and any(start < high and low < stop for start, stop in one._of)
        )

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Transfer]:
        return iter(self._entries)

    @overload
    def __getitem__(self, index: int) -> Transfer: ...

    @overload
    def __getitem__(self, index: slice) -> "Transfers": ...

    def __getitem__(self, index: int | slice) -> "Transfer | Transfers":
        if isinstance(index, slice):
            return Transfers(self._entries[index])
        return self._entries[index]

    def __repr__(self) -> str:
        return "\n".join([self._title(), *lines(tuple(self._entries))])

    def _repr_html_(self) -> str:
        entries = tuple(self._entries)
        rows = [_cells(one) for one in _ends_of(entries)[0]]
        left_out = len(entries) - len(rows)
        if left_out:
            rows.insert(_SHOWN // 2, [f"... {left_out:,} more ..."])
        return table([self._title()], HEADS, rows)

    def _title(self) -> str:
        return total(len(self), self.nbytes)


HEADS = ("bytes", "from", "to", "array", "for", "needed at", "written last at")


def account_of(array: Any) -> Any:
    """The account of a SmartArray; None for other things."""
    return getattr(getattr(array, "coherence", None), "account", None)


def extent(array: Any) -> tuple[int, int]:
    """The addresses of the first byte of a NumPy or device array, and of the one behind the last.

    Raises:
        TypeError: it is neither.
    """
    host = isinstance(array, np.ndarray)
    pointer = address_of(array) if host else getattr(array, "device_pointer", None)
    shape = getattr(array, "shape", None)
    if pointer is None or shape is None:
        raise TypeError(
            f"transfers of a {type(array).__name__}: expected a SmartArray, a NumPy array or a "
            "device array"
        )
    low, high = layout.extent(shape, array.strides, array.dtype.itemsize)
    return pointer + low, pointer + high


def counted(count: int, what: str = "transfer", several: str = "") -> str:
    """A number of things, in words; `several` of them are called `what` with an s."""
    return f"1 {what}" if count == 1 else f"{count:,} {several or f'{what}s'}"


def total(count: int, nbytes: int) -> str:
    """A number of transfers and their bytes, in words."""
    return f"{counted(count)}, {nbytes:,} bytes"


def _ends_of(entries: Sequence[Transfer]) -> tuple[Sequence[Transfer], int]:
    """The first and the last ones, if there are more than are shown; and how many are left out."""
    if len(entries) <= _SHOWN:
        return entries, 0
    half = _SHOWN // 2
    return [*entries[:half], *entries[-half:]], len(entries) - 2 * half


def lines(entries: Sequence[Transfer]) -> list[str]:
    """A line for each transfer, the middle ones left out where there are too many."""
    shown, left_out = _ends_of(entries)
    found = [f"  {one}" for one in shown]
    if left_out:
        found.insert(_SHOWN // 2, f"  ... {left_out:,} more ...")
    return found


def _cells(one: Transfer) -> list[str]:
    return [
        *(f"{one.nbytes:,}", one.source, one.target, one.array, one.why),
        *(str(one.looked or ""), written_cell(one._view, str(one.wrote or ""))),
    ]


def written_cell(view: View | None, line: str) -> str:
    """What stands under "written last at"."""
    return line if view is None else f"{written(view)} {line}"


# Of these columns of tables the figures stand below each other.
_FIGURES = ("bytes", "transfers")
_CELL = "padding: 0.15em 0.6em; vertical-align: top; text-align"


def table(sentences: Sequence[str], heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Sentences and a table for notebooks, with the looks that those give to neither."""
    from html import escape

    text = "".join(f"<p>{escape(each)}</p>" for each in sentences)
    if not rows:
        return text
    styles = [f"{_CELL}: {'right' if head in _FIGURES else 'left'}" for head in heads]
    lines = [
        "".join(
            f'<{tag} style="{style}">{escape(cell)}</{tag}>'
            for style, cell in zip(styles, cells, strict=False)
        )
        for tag, cells in (("th", heads), *(("td", row) for row in rows))
    ]
    return f"{text}<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
