"""What was copied of each storage since the process began, and what needed no copy: for `explain`.

All of it is bounded: of each storage the last transfers, and sums by the lines that they are
between; of storages those that came last, and the sums of those before.
"""

import itertools
import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any, TypeVar

from haulage import forks
from haulage._core.coherence import AccountBase, SumsBase, Write
from haulage.runtime.geometry.ranges import Ranges
from haulage.runtime.process import call_sites, runtime
from haulage.runtime.process.call_sites import CallSite, Site
from haulage.runtime.transfers.entries import Transfer, View

K = TypeVar("K")
V = TypeVar("V")

# So many places are known; a program that makes code as it runs has no end of them.
_MOST_PLACES = 4096

# The numbers of what is made, by file and line.
_lines: dict[tuple[str, int], Iterator[int]] = {}
# The same by code and how far it is, to look no line up. The code is kept, so that its number is
# that of no other.
_places: dict[tuple[int, int], tuple[CodeType, Iterator[int]]] = {}


class StorageName:
    """A name, which is put together when somebody wants to read it.

    Args:
        what: what it is, in words.
        call_site: the line that makes it now.
    """

    __slots__ = ("_call_site", "_number", "_text", "_what")

    def __init__(self, what: str, call_site: CallSite) -> None:
        self._what = what
        self._call_site = call_site
        self._number = _number(call_site)
        self._text = ""

    @property
    def made(self) -> Site | None:
        """The line that made it; None: not known."""
        return call_sites.site(self._call_site) if self._call_site else None

    def __str__(self) -> str:
        if not self._text:
            text, made = self._what, self.made
            if made is not None:
                text += f" made at {os.path.basename(made.filename)}:{made.line}"
            if self._number > 1:
                text += f" (no. {self._number:,})"
            self._text = text
        return self._text


def _number(call_site: CallSite) -> int:
    """How many this line has made, with this one."""
    if not call_site:
        return 1
    code, at = call_site[0]
    place = _places.get((id(code), at))
    if place is None:
        made = call_sites.site(call_site)
        numbers = _known(_lines, (made.filename, made.line), itertools.count(1))
        place = _known(_places, (id(code), at), (code, numbers))
    return next(place[1])


def _known(known: dict[K, V], key: K, value: V) -> V:
    """What is known by a key, which is `value` if nothing was; the oldest go if there are many."""
    while len(known) >= _MOST_PLACES:
        known.pop(next(iter(known)), None)
    return known.setdefault(key, value)


# So many of the last transfers of a storage are remembered.
_REMEMBERED = 256
# So many causes of a storage are told apart, and so many storages.
_MOST_CAUSES = 64
# So many writes to parts of a storage are remembered.
_MOST_WRITES = 32
_MOST_STORAGES = 1024


@dataclass(slots=True)
class Cause:
    """Transfers that are alike: one of them, how many they are, and their bytes."""

    example: Transfer
    count: int = 0
    nbytes: int = 0


class Sums(SumsBase):
    """Transfers by cause, and uses on devices.

    Attributes:
        name, nbytes: what the storage is called, and its size; None and 0: of several.
        kept: whether `every` knows it.
        causes: by what makes them alike; beyond the first ones by (None, source, target).
        uses, used_bytes: how often work on a device was to have the bytes.
        found, found_bytes: how often they were there already, so that nothing was copied.
        launches, launched_bytes: how often they were an argument of a kernel or the like.
        as_host_arrays: how many bytes these would have copied as host arrays.
        pageable_bytes: how many were copied between a device with memory of its own and memory of
            the host that is not pinned.
    """

    __slots__ = ("causes", "name", "nbytes")

    def __init__(
        self, name: StorageName | None = None, nbytes: int = 0, kept: bool = False
    ) -> None:
        self.name = name
        self.nbytes = nbytes
        self.kept = kept
        self.causes: dict[Any, Cause] = {}

    def add(self, one: Transfer, count: int, nbytes: int) -> None:
        """Count transfers like this one."""
        # Code objects by identity: their hash is one of all their contents.
        lines = [(id(code), at) for code, at in one._looked + one._wrote]
        key = (one.array, one.source, one.target, one.why, one._view, *lines)
        self._count(key, one, count, nbytes)

    def _count(self, key: Any, one: Transfer, count: int, nbytes: int) -> None:
        if key not in self.causes and len(self.causes) >= _MOST_CAUSES:
            key = (None, one.source, one.target)
        cause = self.causes.get(key)
        if cause is None:
            cause = self.causes[key] = Cause(one)
        cause.count += count
        cause.nbytes += nbytes

    def merge(self, other: "Sums") -> None:
        """Count what another one has counted."""
        for key, cause in list(other.causes.items()):
            self._count(key, cause.example, cause.count, cause.nbytes)
        self.uses += other.uses
        self.used_bytes += other.used_bytes
        self.found += other.found
        self.found_bytes += other.found_bytes
        self.launches += other.launches
        self.launched_bytes += other.launched_bytes
        self.as_host_arrays += other.as_host_arrays
        self.pageable_bytes += other.pageable_bytes


class Account(AccountBase):
    """What a storage tells of its bytes. It sees to it that only one thread at a time does so.

    Args:
        name: what the storage is called.
        nbytes: its size.

    Attributes:
        name, nbytes: these.
        recent: its last transfers.
        sums: all of them.
        writes: who wrote which bytes, the last one at the end; none is all hidden by one behind it.
    """

    __slots__ = ("name", "nbytes", "recent")

    def __init__(self, name: StorageName, nbytes: int) -> None:
        self.name = name
        self.nbytes = nbytes
        self.recent: deque[Transfer] = deque(maxlen=_REMEMBERED)
        self.sums = Sums(name, nbytes)
        self.writes: list[Write] = []

    def wrote(self, call_site: CallSite, part: Ranges, view: View | None = None) -> None:
        """These bytes were written, by this line of the program; or it took a view of them through
        which they may have been."""
        if not self.wrote_again(part, call_site, view):
            others = [each for each in self.writes if not part.covers(each.part)]
            self.writes = [*others[1 - _MOST_WRITES :], Write(part, call_site, view)]

    def moved(
        self,
        source: str,
        target: str,
        part: Ranges,
        stream: int,
        why: str,
        is_pageable: bool = False,
    ) -> None:
        """These bytes were copied, for the line of the program that runs now; none: the copy at the
        source was dropped. `is_pageable`: pinned memory of the host would have been faster."""
        nbytes = part.nbytes
        written = next((write for write in reversed(self.writes) if write.part & part), _UNKNOWN)
        wrote, view = written.call_site, written.view
        lines = wrote, call_sites.current()
        one = Transfer(str(self.name), source, target, nbytes, stream, why, *lines, self, view)
        self.recent.append(one)
        if not nbytes:
            return
        sums = self.sums if self.sums.kept else self._entered()
        sums.add(one, 1, nbytes)
        if is_pageable:
            sums.pageable_bytes += nbytes
        for watcher in runtime.current.watchers:
            watcher.moved(one)

    def _entered(self) -> Sums:
        """Sums of this storage that `every` knows."""
        with _lock:
            # Those that were kept before are counted among the older ones.
            sums = self.sums = Sums(self.name, self.nbytes, kept=True)
            _kept.append(sums)
            while len(_kept) > _MOST_STORAGES:
                oldest = _kept.popleft()
                oldest.kept = False
                _older.merge(oldest)
        return sums


_UNKNOWN = Write(Ranges(), (), None)

# The sums of the storages that were used last, and of those before.
_kept: deque[Sums] = deque()
_older = Sums()
_lock = forks.lock()


def every() -> list[Sums]:
    """The sums of each storage that devices have used, the oldest first, after those of the ones
    that are too old to be told apart, if there are any."""
    with _lock:
        older = Sums()
        older.merge(_older)
        return [*([older] if older.uses else []), *_kept]
