"""What a diagnosis is made of."""

from typing import Any, NamedTuple

from numba.core import types

from haulage.compiler.frontend.described import described, function_name
from haulage.compiler.frontend.operations import Operand
from haulage.compiler.frontend.words import Register3Type
from haulage.lang.index import grid, gridsize


class Diagnosis(NamedTuple):
    """`reason`: what is wrong and what to write. `mark`: the expression that it is about."""

    reason: str
    mark: str


def not_a_value(operand: Operand) -> Diagnosis | None:
    """What is wrong with an operand that is no value: a function that is not called, or registers
    of which no axis is named; None if it is neither."""
    kind, text = operand.kind, operand.text
    if isinstance(kind, Register3Type):
        return Diagnosis(
            f"{text} has three axes and is no number: write {text}.x (or .y, .z)", text
        )
    if isinstance(kind, types.Function) and kind.typing_key in (grid, gridsize):
        name = function_name(kind)
        return Diagnosis(f"{text} is the function {name}: call it, as in cuda.{name}(1)", text)
    if isinstance(kind, (types.Function, types.BoundFunction, types.Dispatcher)):
        name = function_name(kind) if operand.is_name else text
        return Diagnosis(f"{text} is {described(kind)}: call it, as in {name}(...)", text)
    return None


def of_tuple(operand: Operand) -> str:
    """What to write where a tuple of `cuda.grid(2)`, or a shape, is taken for a number; "" for
    other tuples and other values."""
    if not isinstance(operand.kind, types.BaseTuple):
        return ""
    array = operand.owner("shape")
    if array is not None:
        return f"write {operand.text}[0], or {array.text}.size"
    called = operand.called()
    if called is None or not isinstance(called.kind, types.Function):
        return ""
    if called.kind.typing_key not in (grid, gridsize):
        return ""
    count = len(operand.kind)
    names = ", ".join(("x", "y", "z")[:count])
    return (
        f"{called.text}({count}) gives a tuple of {count} numbers: write {names} = "
        f"{called.text}({count}), or {called.text}(1) for one axis"
    )


def nothing(operand: Operand) -> str:
    """Why an operand is None."""
    called = operand.called()
    if called is not None:
        return f"{operand.text} is None: {function_name(called.kind)} returns nothing"
    if operand.parameter:
        return f"the argument {operand.parameter!r} is None in this call"
    return "this is None" if operand.text == "None" else f"{operand.text} is None"


def is_none(kind: Any) -> bool:
    """Whether a type is that of None."""
    return isinstance(kind, types.NoneType)
