"""Findings that nobody wants to hear of: comments in lines of the program, and entries of files."""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from haulage.checking.excerpts import Sources, line_of, shown
from haulage.checking.findings import KINDS, Finding
from haulage.checking.names import ALSO, MAKES, USUAL, checks_of
from haulage.spelling import did_you_mean

_COMMENT = re.compile(r"#\s*haulage:\s*ignore\b(?:\[([^\]]*)\])?")
_KEYS = ("kind", "file", "line", "kernel", "reason")
# Where a project's own entries are.
PYPROJECT = "pyproject.toml"
_TABLE = "tool.haulage.check"


@dataclass
class Entry:
    """An entry of a file.

    Attributes:
        where: the file and the number of the entry in it, for messages.
        folder: that names of files are taken from.
        kinds: the kinds of findings that it covers.
        file: a pattern for the name of a file, or "".
        line: a line of that, or None.
        kernel: a pattern for the name of a kernel, or "".
        reason: why.
        used: how many findings it has covered.
    """

    where: str
    folder: str
    kinds: frozenset[str]
    file: str
    line: int | None
    kernel: str
    reason: str
    used: int = 0

    def covers(self, finding: Finding) -> bool:
        """Whether the finding, or the other access of it, is what the entry is for."""
        if finding.kind not in self.kinds:
            return False
        for access in (finding.access, finding.other):
            if access is None or not fnmatchcase(access.kernel, self.kernel or "*"):
                continue
            place = access.place
            if not self.file:
                return True
            if place and self.line in (None, place.line) and self._is_in(place.file):
                return True
        return False

    def _is_in(self, file: str) -> bool:
        inside = os.path.relpath(file, self.folder).replace(os.sep, "/")
        name = os.path.basename(file)
        names = [inside, file] if "/" in self.file else [inside, file, name]
        return any(fnmatchcase(each, self.file) for each in names)

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        words = ["any finding" if len(self.kinds) == len(KINDS) else ", ".join(sorted(self.kinds))]
        words += [f"in {where}"] if where else []
        words += [f"in kernel {self.kernel}"] if self.kernel else []
        return f"{self.where} ({' '.join(words)})"


@dataclass
class Suppressions:
    """What is not to be told.

    Attributes:
        entries: those of files; comments in lines count always.
        only: the checks that the project's file asks for, or "".
    """

    entries: list[Entry] = field(default_factory=list)
    only: str = ""

    def covers(self, finding: Finding, sources: Sources, notes: list[str]) -> bool:
        """Whether a finding is not to be told; `notes` gets what is wrong with a comment."""
        found = False
        for entry in self.entries:
            if entry.covers(finding):
                entry.used += 1
                found = True
        for access in (finding.access, finding.other):
            if access is not None and access.place is not None:
                file, line = access.place.file, access.place.line
                kinds = _comment(line_of(file, line, sources), f"{shown(file)}:{line}", notes)
                found = found or finding.kind in kinds
        return found

    def unused(self) -> list[str]:
        """A sentence for each entry that has covered nothing."""
        return [f"{each} covers nothing that was found; remove it" for each in self.unused_entries]

    @property
    def unused_entries(self) -> list[Entry]:
        """The entries that have covered nothing."""
        return [each for each in self.entries if not each.used]


def _comment(text: str, where: str, notes: list[str]) -> set[str]:
    """The kinds that a line's comment says are not to be told."""
    found = _COMMENT.search(text)
    if found is None:
        return set()
    if found[1] is None:
        return set(KINDS)
    kinds: set[str] = set()
    for word in found[1].split(","):
        try:
            kinds |= kinds_of(word.strip())
        except ValueError as wrong:
            notes.append(f"{where}: haulage: ignore[{found[1]}]: {wrong}")
    return kinds


def kinds_of(word: str) -> set[str]:
    """The kinds of findings that a word names: a kind, or a check that makes several.

    Raises:
        ValueError: it names none.
    """
    if word in KINDS:
        return {word}
    checks = ALSO.get(word, (word,))
    kinds = set().union(*(MAKES.get(each, set()) for each in checks))
    if not kinds:
        meant = did_you_mean(word, [*KINDS, *MAKES, *ALSO])
        expected = f"; expected one of {', '.join(KINDS)}"
        raise ValueError(f"there is no kind of finding {word!r}{meant or expected}")
    return kinds


def read(file: str | bytes | os.PathLike[str]) -> Suppressions:
    """The entries of a file in TOML: tables `[[ignore]]`, or `[[tool.haulage.check.ignore]]` where
    the file is a pyproject.toml.

    Raises:
        TypeError: that is no name of a file.
        ValueError: the file cannot be read, or something in it is wrong; one line that names it.
    """
    try:
        file = os.fsdecode(file)
    except TypeError:
        raise TypeError(f"suppressions {file!r}: expected the name of a file") from None
    name = shown(os.path.abspath(file))
    try:
        with open(file, "rb") as opened:
            data: Any = tomllib.load(opened)
    except OSError as error:
        raise ValueError(f"{name}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{name}: is no TOML: {error}") from error
    is_project = os.path.basename(file) == PYPROJECT
    allowed = ["ignore"]
    if is_project:
        allowed = ["ignore", "only"]
        for key in _TABLE.split("."):
            data = data.get(key, {})
            if not isinstance(data, dict):
                raise ValueError(f"{name}: {_TABLE} is no table")
        name = f"{name}: [{_TABLE}]"
    _known(data, allowed, name)
    only = data.get("only", [])
    if not isinstance(only, list) or not all(isinstance(each, str) for each in only):
        raise ValueError(f"{name}: only = {only!r}: expected a list of names of checks")
    try:
        checks_of(only or USUAL)
    except ValueError as wrong:
        raise ValueError(f"{name}: only: {wrong}") from None
    entries = data.get("ignore", [])
    if not isinstance(entries, list):
        raise ValueError(f"{name}: ignore is no array of tables; write [[ignore]] before each")
    folder = os.path.dirname(os.path.abspath(file))
    return Suppressions(
        [_entry(each, f"{name} ignore {n}", folder) for n, each in enumerate(entries, 1)],
        ",".join(only),
    )


def of_project(folder: str | None = None) -> Suppressions:
    """The entries of the nearest pyproject.toml, from a folder upwards, if it has any.

    Raises:
        ValueError: as for `read`.
    """
    folder = os.path.abspath(folder or os.getcwd())
    while True:
        file = os.path.join(folder, PYPROJECT)
        if os.path.isfile(file):
            return read(file)
        above = os.path.dirname(folder)
        if above == folder:
            return Suppressions()
        folder = above


def _known(table: Mapping[str, Any], allowed: "list[str] | tuple[str, ...]", where: str) -> None:
    for key in table:
        if key not in allowed:
            meant = did_you_mean(key, allowed)
            raise ValueError(
                f"{where}: unknown {key!r}{meant or '; expected ' + ', '.join(allowed)}"
            )


def _entry(data: Any, where: str, folder: str) -> Entry:
    if not isinstance(data, dict):
        raise ValueError(f"{where}: expected a table, and not {data!r}")
    _known(data, _KEYS, where)
    kinds = data.get("kind", list(KINDS))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    texts = {key: data.get(key, "") for key in ("file", "kernel", "reason")}
    for key, value in texts.items():
        if not isinstance(value, str):
            raise ValueError(f"{where}: {key} = {value!r}: expected a string")
    line = data.get("line")
    if line is not None and (isinstance(line, bool) or not isinstance(line, int) or line < 1):
        raise ValueError(f"{where}: line = {line!r}: expected the number of a line")
    if not isinstance(kinds, list) or not all(isinstance(each, str) for each in kinds):
        raise ValueError(
            f"{where}: kind = {kinds!r}: expected a kind of finding, or a list of them"
        )
    if not texts["reason"].strip():
        raise ValueError(f'{where}: has no reason; say in reason = "..." why it is right')
    if not {"kind", "file", "kernel"} & data.keys():
        raise ValueError(f"{where}: covers everything; name a kind, a file or a kernel")
    if line is not None and not texts["file"]:
        raise ValueError(f"{where}: line = {line} of no file; name the file")
    try:
        covered = set().union(*(kinds_of(each) for each in kinds))
    except ValueError as wrong:
        raise ValueError(f"{where}: {wrong}") from None
    return Entry(
        where=where,
        folder=folder,
        kinds=frozenset(covered),
        file=texts["file"],
        line=line,
        kernel=texts["kernel"],
        reason=texts["reason"],
    )
