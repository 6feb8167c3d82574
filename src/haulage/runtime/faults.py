"""From what a back end reports about a stopped kernel to the exception that its user sees."""

import struct
from collections.abc import Callable, Iterable
from typing import TypeVar, TypeVarTuple, cast

from haulage.backends.base import Backend, KernelCrashed, KernelStopped
from haulage.compiler.faults import FIGURES
from haulage.errors import IllegalAddress, KernelError, thread_error
from haulage.runtime import observing, printing

Ts = TypeVarTuple("Ts")
R = TypeVar("R")

# Filled by whoever loads a kernel: function handle -> the exception for how it stopped.
describe: dict[int, Callable[[KernelStopped], Exception]] = {}


def translate(stopped: KernelStopped) -> Exception:
    """The exception for the user: the kernel's own description of the fault if it has one."""
    made = describe.get(stopped.function)
    if made is None:
        return KernelError(f"a kernel stopped: {stopped}")
    return made(stopped)


def crashed(stopped: KernelCrashed, kernel: str) -> Exception:
    """The exception for the user of a kernel that accessed what is no memory, or used up a
    stack."""
    blocks = ""
    if stopped.blocks is not None:
        first, last = stopped.blocks
        several = first != last
        blocks = f" of one of the blocks {first} to {last}" if several else f" of block {first}"
    if stopped.stack:
        return thread_error(
            RecursionError,
            f"kernel {kernel}: a thread{blocks} used up its stack of {stopped.stack / 2**20:g} "
            "MiB: a recursion is too deep, or has no end",
        )
    place = "an unknown address" if stopped.address is None else f"address {stopped.address:#x}"
    why = "where the process has no memory that it may use so"
    if stopped.bus:
        why = "whose memory the system could not provide, as of a file that is too short"
    return IllegalAddress(
        f"kernel {kernel}: a thread{blocks} accessed {place}, {why}; run it with jit(debug=True), "
        "which finds an index out of bounds, with its thread and its array"
    )


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
