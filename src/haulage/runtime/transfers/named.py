"""What a storage is called: what it is, and the line of the program that made it."""

import itertools
import os
from collections.abc import Iterator
from types import CodeType
from typing import TypeVar

from haulage.runtime.memory import owners
from haulage.runtime.memory.owners import Mark, Site

K = TypeVar("K")
V = TypeVar("V")

# So many places are known; a program that makes code as it runs has no end of them.
_MOST_PLACES = 4096

# The numbers of what is made, by file and line.
_lines: dict[tuple[str, int], Iterator[int]] = {}
# The same by code and how far it is, to look no line up. The code is kept, so that its number is
# that of no other.
_places: dict[tuple[int, int], tuple[CodeType, Iterator[int]]] = {}


class Named:
    """A name, which is put together when somebody wants to read it.

    Args:
        what: what it is, in words.
        mark: the line that makes it now.
    """

    __slots__ = ("_mark", "_number", "_text", "_what")

    def __init__(self, what: str, mark: Mark) -> None:
        self._what = what
        self._mark = mark
        self._number = _number(mark)
        self._text = ""

    @property
    def made(self) -> Site | None:
        """The line that made it; None: not known."""
        return owners.site(self._mark) if self._mark else None

    def __str__(self) -> str:
        if not self._text:
            text, made = self._what, self.made
            if made is not None:
                text += f" made at {os.path.basename(made.filename)}:{made.line}"
            if self._number > 1:
                text += f" (no. {self._number:,})"
            self._text = text
        return self._text


def _number(mark: Mark) -> int:
    """How many this line has made, with this one."""
    if not mark:
        return 1
    code, at = mark[0]
    place = _places.get((id(code), at))
    if place is None:
        made = owners.site(mark)
        numbers = _kept(_lines, (made.filename, made.line), itertools.count(1))
        place = _kept(_places, (id(code), at), (code, numbers))
    return next(place[1])


def _kept(known: dict[K, V], key: K, value: V) -> V:
    """What is known by a key, which is `value` if nothing was; the oldest go if there are many."""
    while len(known) >= _MOST_PLACES:
        known.pop(next(iter(known)), None)
    return known.setdefault(key, value)
