"""From what a back end reports about a stopped kernel to the exception that its user sees."""

import struct
from collections.abc import Callable, Iterable
from typing import TypeVar, TypeVarTuple, cast

from haulage.backends.base import Backend, KernelCrashed, KernelStopped
from haulage.errors import IllegalAddress, KernelError, thread_error
from haulage.runtime.devices import printing
from haulage.runtime.process import runtime

Ts = TypeVarTuple("Ts")
R = TypeVar("R")


def translate(stopped: KernelStopped) -> Exception:
    """The exception for the user: the kernel's own description of the fault if it has one."""
    made = runtime.current.describe.get(stopped.function)
    if made is None:
        return KernelError(f"a kernel stopped: {stopped}")
    return made(stopped)


def crashed(stopped: KernelCrashed, kernel: str, order: str) -> Exception:
    """The exception for the user of a kernel that accessed what is no memory, or used up a stack;
    its blocks run along the axes of `order`, fastest last."""
    blocks = ""
    if stopped.blocks is not None:
        first, last = (_block(number, stopped.grid, order) for number in stopped.blocks)
        blocks = (
            f" of one of the blocks {first} to {last}" if first != last else f" of block {first}"
        )
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


def _block(number: int, grid: tuple[int, int, int], order: str) -> list[int]:
    """A block's indices of its number."""
    indices = [0, 0, 0]
    for axis in reversed(order):
        place = "xyz".index(axis)
        number, indices[place] = divmod(number, grid[place])
    return indices


# What threads told of themselves and nobody has read, fault -> the indices of a thread, of its
# block, and figures of a fault that has any.
_told: dict[int, tuple[int, ...]] = {}
_INDICES = 6


def read(backend: Backend) -> list[tuple[int, tuple[int, ...]]]:
    """Take what threads have told, and return it: (fault, indices of the thread, of its block, and
    figures). For errors that are not raised yet, the first of several with one fault in linear
    order is kept."""
    found: dict[int, tuple[int, ...]] = {}
    every = []
    for number, cells in backend.messages(-1)[0]:
        told = struct.unpack(f"={len(cells) // 8}q", cells)
        every.append((-number, told))
        known = found.get(-number)
        if known is None or _order(told) < _order(known):
            found[-number] = told
    _told.update(found)
    return every


def _order(told: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    # A function tells of what it calls again, without the figures.
    return told[:_INDICES][::-1], -len(told)


def told(
    backend: Backend, fault: int, words: str, faults_of_kernel: Iterable[int]
) -> tuple[str, str]:
    """`words` with the figures of the thread that met `fault`, and which thread it was, in words;
    the first of several in linear order.

    Each is nothing if that was not told, or more threads failed than the device could note.
    """
    read(backend)
    cells = _told.get(fault)
    for number in faults_of_kernel:
        _told.pop(number, None)
    if cells is None:
        return "", ""
    figures = cells[_INDICES:]
    thread = f"tid={list(cells[:3])} ctaid={list(cells[3:_INDICES])}"
    return words.format(*figures) if figures else "", thread


def waited(wait: Callable[[*Ts], R], *args: *Ts) -> R:
    """Make a synchronising call of a back end; every one of them goes through here.

    Raises:
        KernelError: threads of a kernel that was waited for had failed.
    """
    now = runtime.current
    try:
        watching = now.observer
        if watching is not None:
            return cast(R, watching.waited(wait, *args))
        return wait(*args)
    except KernelStopped as stopped:
        error = translate(stopped)
        for note in getattr(stopped, "__notes__", ()):
            error.add_note(note)
    finally:
        if now.printing:
            printing.flush()
    raise error
