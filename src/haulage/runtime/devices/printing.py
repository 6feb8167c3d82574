"""What kernels print: kept by the device until somebody waits for it, then to `sys.stdout`."""

import struct
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from haulage import forks
from haulage.backends.base import Backend
from haulage.runtime.process import runtime

if TYPE_CHECKING:
    import numpy as np

Items = tuple["str | np.dtype[Any]", ...]
# How values of a dtype's kind stand in their cells.
_FORMATS = {"i": "=q", "f": "=d", "c": "=dd"}

# What the calls of `print` in loaded code print, by their numbers.
_calls: dict[int, Items] = {}
_lock = forks.lock()


def expect(backend: Backend, calls: dict[int, Items]) -> None:
    """Say that code with these calls of `print` was loaded."""
    _calls.update(calls)
    if calls:
        runtime.current.printing[id(backend)] = backend


def flush() -> None:
    """Write to `sys.stdout` what kernels have printed so far; never waits.

    Lines of one thread of a kernel keep their order. Where a device had no room for more lines, a
    line at the end says how many are missing.
    """
    with _lock:
        for backend in tuple(runtime.current.printing.values()):
            messages, missing = backend.messages(1)
            lines = [_line(_calls[number], cells) for number, cells in messages]
            if missing:
                lines.append(
                    f"haulage: {missing} more prints found no room on {backend.name} since the "
                    "last synchronise"
                )
            if lines:
                sys.stdout.write("\n".join(lines) + "\n")


def _line(items: Items, cells: bytes) -> str:
    values = _values(items, cells)
    return "".join(item if isinstance(item, str) else str(next(values)) for item in items)


def _values(items: Items, cells: bytes) -> Iterator[Any]:
    at = 0
    for item in items:
        if isinstance(item, str):
            continue
        form = _FORMATS.get(item.kind, "=Q")
        parts = struct.unpack_from(form, cells, at)
        yield item.type(complex(*parts) if item.kind == "c" else parts[0])
        at += struct.calcsize(form)
