"""What is wrong with an operation of a program, and what to write in its place.

`diagnosis` asks the functions of a table, by the kind of the operation. Each looks at the operands'
types and at how the program made them, and has something to say or not.
"""

from collections.abc import Callable

from haulage.compiler.frontend.mistakes import arithmetic, attributes, calls, items
from haulage.compiler.frontend.mistakes.diagnosis import Diagnosis
from haulage.compiler.frontend.operations import Operation

__all__ = ["Diagnosis", "advice", "diagnosis", "nothing_like_it"]

_Diagnose = Callable[[Operation], Diagnosis | None]

_MISTAKES: dict[str, tuple[_Diagnose, ...]] = {
    "getitem": (items.of_no_array, items.no_such_field, items.wrong_index, items.too_many_indices),
    "setitem": (
        items.of_no_array,
        items.no_such_field,
        items.of_read_only_array,
        items.wrong_index,
        items.too_many_indices,
        items.wrong_value,
    ),
    "getattr": (attributes.no_such_attribute,),
    "setattr": (attributes.cannot_be_set,),
    "call": (calls.of_no_function, calls.wrong_arguments, calls.of_no_array),
    "operator": (arithmetic.wrong_operand,),
    "iterate": (arithmetic.cannot_be_iterated,),
    "unpack": (arithmetic.cannot_be_unpacked,),
    "whole arrays": (arithmetic.on_whole_arrays,),
}

_NOTHING_LIKE_IT: dict[str, _Diagnose] = {
    "getitem": items.nothing_like_it,
    "setitem": items.nothing_like_it,
    "call": calls.nothing_like_it,
    "operator": arithmetic.nothing_like_it,
}


def diagnosis(operation: Operation | None) -> Diagnosis | None:
    """What is wrong with an operation that failed, None if that is not known."""
    if operation is None or any(each.kind is None for each in operation.operands[:1]):
        return None
    found = (diagnose(operation) for diagnose in _MISTAKES.get(operation.name, ()))
    return next((each for each in found if each is not None), None)


def nothing_like_it(operation: Operation | None) -> Diagnosis | None:
    """That kernels have no such operation for operands of these types."""
    diagnose = None if operation is None else _NOTHING_LIKE_IT.get(operation.name)
    return None if diagnose is None or operation is None else diagnose(operation)


def advice(operation: Operation | None) -> str:
    """What to write for an argument of a call, where that is known; else ""."""
    return calls.advice(operation) if operation is not None and operation.name == "call" else ""
