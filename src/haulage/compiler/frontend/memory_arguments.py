"""Which of a kernel's parameters have memory, and where among its flattened arguments."""

from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import types

from haulage.compiler.access.model import Path


@dataclass(frozen=True)
class MemoryArguments:
    """The parameters of a kernel: their `names`; `tree` has for each a tuple of the same for its
    entries if it is a tuple, else None; `addresses` has for each array, record and other thing with
    an address in it the numbers of these among the flattened arguments."""

    names: tuple[str, ...]
    tree: Any
    addresses: dict[Path, tuple[int, ...]]


def memory_arguments(
    context: Any, names: tuple[str, ...], argument_types: tuple[Any, ...]
) -> MemoryArguments:
    """The parameters of Numba types."""
    addresses: dict[Path, tuple[int, ...]] = {}
    tree, _ = _collect(context, argument_types, (), 0, addresses)
    return MemoryArguments(names, tree, {path: at for path, at in addresses.items() if at})


def _collect(
    context: Any, kinds: Any, path: Path, start: int, addresses: dict[Path, tuple[int, ...]]
) -> tuple[Any, int]:
    tree = []
    for number, kind in enumerate(kinds):
        here = (*path, number)
        if isinstance(kind, types.BaseTuple):
            entries, start = _collect(context, kind, here, start, addresses)
            tree.append(entries)
            continue
        tree.append(None)
        leaves = _leaves(context.data_model_manager[kind].get_argument_type())
        if isinstance(kind, types.Array):
            # Memory's owner, parent, number of elements, bytes of one, address, sizes, strides.
            addresses[here] = (start + 4,)
        # What has no value at run time, as None, is an address too.
        elif isinstance(kind, types.RawPointer) or not isinstance(kind, types.Dummy):
            addresses[here] = tuple(start + at for at, each in enumerate(leaves) if each)
        start += len(leaves)
    return tuple(tree), start


def _leaves(given: Any) -> list[bool]:
    """For each flattened argument of one, whether it is an address."""
    if isinstance(given, (tuple, list)):
        return [leaf for each in given for leaf in _leaves(each)]
    return [isinstance(given, ir.PointerType)]
