"""Looking for the library of a driver: which names, in which places, and what came back."""

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Search:
    """What looking for a library gave: the library or None, and for each attempt what came back.

    `attempts` are (name or path, answer); the answer of the last one is "loaded" if it was found.
    """

    library: ctypes.CDLL | None
    attempts: tuple[tuple[str, str], ...]

    @property
    def looked_for(self) -> tuple[str, ...]:
        """Every name and path that was tried, in order."""
        return tuple(name for name, _ in self.attempts)

    @property
    def broken(self) -> str:
        """The first library that is there and cannot be loaded, and what the loader said of it or
        of what it needs; nothing if there is none."""
        for name, said in self.attempts:
            if said != "loaded" and not _is_missing(name, said):
                return said if name in said else f"{name}: {said}"
        return ""


def search(
    names: Sequence[str],
    folders: Sequence[str | None] = (),
    *,
    before: Sequence[str | None] = (),
    already: bool = False,
) -> Search:
    """Load the first library of `names` that is there; never raises.

    With `already`, one of the names that the process has loaded before is taken first (Linux and
    macOS). Each name is looked for in the folders `before`, left to the system's loader, then
    looked for in `folders` (None: passed over). A file that is not there is not tried.
    """
    attempts: list[tuple[str, str]] = []
    if already and hasattr(os, "RTLD_NOLOAD"):
        for name in names:
            try:
                library = ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
            except OSError:
                continue
            return Search(library, ((name, "loaded"),))
    places = [str(Path(folder) / name) for folder in before if folder for name in names]
    places += names
    places += [str(Path(folder) / name) for folder in folders if folder for name in names]
    for place in places:
        if os.sep in place and not Path(place).exists():
            attempts.append((place, f"{place}: no such file"))
            continue
        try:
            library = ctypes.CDLL(place)
        except OSError as error:
            attempts.append((place, str(error)))
            continue
        attempts.append((place, "loaded"))
        return Search(library, tuple(attempts))
    return Search(None, tuple(attempts))


class _Place(ctypes.Structure):
    """Dl_info."""

    _fields_ = (
        *(("file", ctypes.c_char_p), ("base", ctypes.c_void_p)),
        *(("symbol", ctypes.c_char_p), ("address", ctypes.c_void_p)),
    )


def file_of(library: ctypes.CDLL, function: str) -> str | None:
    """The path of the file that a library's function was loaded from, where the system tells."""
    address = ctypes.cast(getattr(library, function), ctypes.c_void_p)
    ask = None if os.name == "nt" else getattr(ctypes.CDLL(None), "dladdr", None)
    told = _Place()
    if ask is None or not ask(address, ctypes.byref(told)) or not told.file:
        return None
    return os.fsdecode(told.file)


def _is_missing(name: str, answer: str) -> bool:
    # The words of Windows are those of Python, and do not tell a library from what it needs.
    words = ("No such file", "no such file", "Could not find module")
    return name in answer and any(each in answer for each in words)


def failures(found: Search) -> str:
    """What came back for the names that were not loaded, in one line, each answer once."""
    answers: dict[str, None] = {}
    for name, answer in found.attempts:
        if answer != "loaded":
            answers[answer.removeprefix(f"{name}: ")] = None
    return "; ".join(answers)
