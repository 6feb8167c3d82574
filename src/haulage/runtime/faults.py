"""From what a back end reports about a stopped kernel to the exception that its user sees."""

import struct
from collections.abc import Callable, Iterable
from typing import TypeVar, TypeVarTuple, cast

from haulage.backends.base import Backend, KernelStopped
from haulage.compiler.faults import FIGURES
from haulage.errors import KernelError
from haulage.runtime import observing, printing

Ts = TypeVarTuple("Ts")
R = TypeVar("R")

# Filled by whoever loads a kernel: function handle -> the exception for a fault code.
describe: dict[int, Callable[[int], Exception]] = {}


def translate(stopped: KernelStopped) -> Exception:
    """The exception for the user: the kernel's own description of the fault if it has one."""
    made = describe.get(stopped.function)
    if made is None:
        return KernelError(f"a kernel stopped: {stopped}")
    return made(stopped.code)


# What threads of debug kernels told of themselves and nobody has read: fault -> its cells.
_told: dict[int, tuple[int, ...]] = {}
_INDICES = struct.Struct("=6q")
# The same for figures of faults that have any.
_figures: dict[int, tuple[int, ...]] = {}


def _read(backend: Backend) -> None:
    """Take what threads have told; of several with one fault the first in linear order counts."""
    found: dict[int, tuple[int, ...]] = {}
    for number, cells in backend.messages(-1)[0]:
        if -number >= FIGURES:
            _figures[-number - FIGURES] = struct.unpack(f"={len(cells) // 8}q", cells)
            continue
        indices = _INDICES.unpack(cells)
        known = found.get(-number)
        if known is None or indices[::-1] < known[::-1]:
            found[-number] = indices
    _told.update(found)


def figures(backend: Backend, fault: int, words: str) -> str:
    """`words` with the numbers that a thread told when it met `fault`; nothing if these found no
    room."""
    _read(backend)
    told = _figures.pop(fault, None)
    return words.format(*told) if told else ""


def failed_thread(backend: Backend, fault: int, faults_of_kernel: Iterable[int]) -> str:
    """Which thread of a debug kernel met `fault`, in words; the first of several in linear order.

    Nothing if more threads failed than the device could note.
    """
    _read(backend)
    failed = _told.get(fault)
    for number in faults_of_kernel:
        _told.pop(number, None)
    return f"tid={list(failed[:3])} ctaid={list(failed[3:])}" if failed else ""


def waited(wait: Callable[[*Ts], R], *args: *Ts) -> R:
    """Make a synchronising call of a back end; every one of them goes through here.

    Raises:
        KernelError: threads of a kernel that was waited for had failed.
    """
    try:
        watching = observing.observer
        if watching is not None:
            return cast(R, watching.waited(wait, *args))
        return wait(*args)
    except KernelStopped as stopped:
        error = translate(stopped)
        for note in getattr(stopped, "__notes__", ()):
            error.add_note(note)
    finally:
        if printing.backends:
            printing.flush()
    raise error
