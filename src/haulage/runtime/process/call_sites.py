"""Who asked for memory: lines of the program, taken so cheaply that it is always done.

A `CallSite` keeps the code of a frame and how far it was; the file and the line, a `Site`, are
looked up when somebody wants to read them.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import numpy as np

from haulage._core.memory import conditions
from haulage._core.memory import current_call_site as current

_ROOT = Path(__file__).parents[2]
# What lies in the package counts as Haulage itself, but for the programs in it.
_PACKAGE = f"{_ROOT}{os.sep}"
_PROGRAMS = f"{_ROOT / 'cli'}{os.sep}"
# So does what is between it and the program: `with` over generators, NumPy's functions.
_BETWEEN = (contextlib.__file__, f"{Path(np.__file__).parent}{os.sep}")

# Folders of installed libraries, and how many frames are looked at to get past these.
_INSTALLED = {"site-packages", "dist-packages"}
_MOST_LOOKED_AT = 32

# (code, offset of its instruction) of each frame that is kept, the innermost one first.
CallSite = tuple[tuple[CodeType, int], ...]


class Site(NamedTuple):
    """A line of a program: file, line (0: not known) and name of the function that it is in."""

    filename: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.filename}:{self.line} in {self.function}"


class _Own(dict[str, bool]):
    """Whether a file of code is one of Haulage's own."""

    def __missing__(self, name: str) -> bool:
        own = name.startswith(_PACKAGE) and not name.startswith(_PROGRAMS)
        self[name] = found = own or name.startswith(_BETWEEN)
        return found


_is_own = _Own()
conditions.own_files = _is_own


def is_own(code: CodeType) -> bool:
    """Whether code is Haulage's own, and not a program's."""
    return _is_own[code.co_filename]


def of_program() -> CallSite:
    """As `current`, but past the frames of installed libraries if there are others: for what these
    call when a program hands something to them."""
    frames = [each for each in _outwards(sys._getframe(1), _MOST_LOOKED_AT) if not is_own(each[0])]
    for number, (code, _) in enumerate(frames):
        if not _INSTALLED & {*Path(code.co_filename).parts}:
            return tuple(frames[number : number + conditions.frames_kept])
    return tuple(frames[: conditions.frames_kept]) or current()


def _outwards(frame: FrameType | None, count: int) -> Iterator[tuple[CodeType, int]]:
    while frame is not None and count:
        yield frame.f_code, frame.f_lasti
        frame = frame.f_back
        count -= 1


conditions.outer_frames = _outwards


def sites(call_site: CallSite) -> tuple[Site, ...]:
    """The lines of a call site, the innermost one first."""
    return tuple(
        Site(code.co_filename, _line(code, at), code.co_qualname) for code, at in call_site
    )


def site(call_site: CallSite) -> Site:
    """The innermost line of a call site."""
    return sites(call_site[:1])[0]


def _line(code: CodeType, at: int) -> int:
    for start, stop, line in code.co_lines():
        if start <= at < stop:
            return line or 0
    return code.co_firstlineno


class track:
    """Keep `frames` frames of whoever asks for memory from now on; one at least.

    `with track(frames=8):` does so inside only.

    Raises:
        TypeError, ValueError: `frames` is no whole number, or less than 1.
    """

    def __init__(self, frames: int = 1) -> None:
        if isinstance(frames, bool) or not hasattr(frames, "__index__"):
            raise TypeError(f"track(frames={frames!r}): expected a number of frames")
        if frames.__index__() < 1:
            raise ValueError(f"track(frames={frames}): expected 1 or more; one is always kept")
        self._before = conditions.frames_kept
        conditions.frames_kept = frames.__index__()

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        conditions.frames_kept = self._before
