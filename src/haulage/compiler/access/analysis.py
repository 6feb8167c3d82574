"""From what the front end and LLVM know of a kernel to what it does with its arguments."""

from typing import TYPE_CHECKING

from haulage.compiler.access.attributes import is_without_faults, modes_of
from haulage.compiler.access.model import Access, Accesses, Mode, Path, Whole
from haulage.compiler.linked import DECLARED

if TYPE_CHECKING:
    from haulage.compiler.frontend import Lowered


def accesses(lowered: "Lowered", text: str, name: str) -> Accesses:
    """What a kernel does with its arguments.

    Args:
        text: a module with the kernel's function, optimised, and all that it calls inlined.
        name: the function's; its last parameters are the kernel's arguments, flattened.
    """
    given = lowered.memory
    modes = modes_of(text, name, len(lowered.arguments))
    # A thread that stops, or waits in vain, writes nothing more; code of others may end it too.
    waits = any(fault.exception is None for fault in lowered.faults.values())
    surely = lowered.wholes and not waits and DECLARED not in text and is_without_faults(text, name)
    paths = {}
    for path, addresses in given.addresses.items():
        mode = _together([modes[address] for address in addresses])
        wholes = _of(path, lowered.wholes) if surely and mode == "w" else ()
        paths[path] = Access(mode, wholes, given.names)
    return Accesses(given.names, paths, given.tree)


def _together(modes: list[Mode]) -> Mode:
    reads, writes = (any(letter in mode for mode in modes if mode != "none") for letter in "rw")
    if reads and writes:
        return "rw"
    return "r" if reads else "w" if writes else "none"


def _of(path: Path, wholes: tuple[Whole, ...]) -> tuple[Whole, ...]:
    return tuple(whole for whole in wholes if whole.path == path)
