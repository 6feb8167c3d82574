"""One copy between two places, and the lines of the program that it is between."""

from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from haulage.runtime.memory import owners
from haulage.runtime.memory.owners import Mark, Site

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
    _wrote: Mark = field(default=(), repr=False)
    _looked: Mark = field(default=(), repr=False)
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
        return owners.site(self._wrote) if self._wrote else None

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
        return owners.site(self._looked) if self._looked else None

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
