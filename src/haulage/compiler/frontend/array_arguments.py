"""Where a kernel's arrays are among its flattened arguments."""

from typing import Any

from numba.core import types

from haulage.compiler.arrays import ArrayArgument


def array_arguments(context: Any, argument_types: tuple[Any, ...]) -> tuple[ArrayArgument, ...]:
    """The arrays of Numba types, in tuples too, in the order of the arguments."""
    found: list[ArrayArgument] = []
    _collect(context, argument_types, 0, found)
    return tuple(found)


def _collect(context: Any, kinds: Any, start: int, found: list[ArrayArgument]) -> int:
    """The number of the argument behind those of types of which the first has number `start`."""
    for kind in kinds:
        if isinstance(kind, types.BaseTuple):
            start = _collect(context, kind.types, start, found)
        elif isinstance(kind, types.Array):
            # Memory's owner, parent, number of elements, bytes of one, address, sizes, strides.
            nbytes = context.get_abi_sizeof(context.get_data_type(kind.dtype))
            found.append(ArrayArgument(start + 4, kind.ndim, nbytes, kind.layout != "A"))
            start += 5 + 2 * kind.ndim
        else:
            start += _leaves(context.data_model_manager[kind].get_argument_type())
    return start


def _leaves(given: Any) -> int:
    return sum(map(_leaves, given)) if isinstance(given, (tuple, list)) else 1
