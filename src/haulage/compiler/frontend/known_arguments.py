"""Where a kernel's arrays and integers are among its flattened arguments."""

from typing import Any

from numba.core import types

from haulage.compiler.access.model import Path
from haulage.compiler.arguments import ArrayArgument, IntegerArgument

KnownArgument = ArrayArgument | IntegerArgument


def known_arguments(context: Any, argument_types: tuple[Any, ...]) -> tuple[KnownArgument, ...]:
    """The arrays and signed integers of Numba types, in tuples too, in the order of the
    arguments."""
    found: list[KnownArgument] = []
    _collect(context, argument_types, (), 0, found)
    return tuple(found)


def _collect(context: Any, kinds: Any, path: Path, start: int, found: list[KnownArgument]) -> int:
    """The number of the argument behind those of types of which the first has number `start`."""
    for place, given in enumerate(kinds):
        here = (*path, place)
        kind = given.dtype if isinstance(given, types.EnumMember) else given
        if isinstance(kind, types.BaseTuple):
            start = _collect(context, kind.types, here, start, found)
        elif isinstance(kind, types.Array):
            # Memory's owner, parent, number of elements, bytes of one, address, sizes, strides.
            nbytes = context.get_abi_sizeof(context.get_data_type(kind.dtype))
            found.append(ArrayArgument(here, start + 4, kind.ndim, nbytes, kind.layout != "A"))
            start += 5 + 2 * kind.ndim
        else:
            if isinstance(kind, types.Integer) and kind.signed:
                found.append(IntegerArgument(here, start, kind.bitwidth))
            start += _leaves(context.data_model_manager[kind].get_argument_type())
    return start


def _leaves(given: Any) -> int:
    return sum(map(_leaves, given)) if isinstance(given, (tuple, list)) else 1
