"""Mistakes with calls: of what is no function, and with wrong arguments."""

from numba.core import types

from haulage.compiler.frontend.described import described, function_name, is_number
from haulage.compiler.frontend.mistakes.diagnosis import (
    Diagnosis,
    is_none,
    not_a_value,
    nothing,
    of_tuple,
)
from haulage.compiler.frontend.operations import Operation
from haulage.compiler.frontend.words import NamespaceType, Register3Type


def of_no_function(operation: Operation) -> Diagnosis | None:
    """A call of an array, a number, registers ..."""
    called, *given = operation.operands
    kind, text = called.kind, called.text
    if isinstance(kind, Register3Type):
        return Diagnosis(
            f"{text} is no function: write {text}.x (or .y, .z), without ()", operation.text
        )
    if isinstance(kind, (types.Array, types.BaseTuple)):
        index = ", ".join(each.text for each in given) or "i"
        return Diagnosis(
            f"{text} is {described(kind)}, and no function: an element is {text}[{index}]",
            operation.text,
        )
    if is_number(kind) or is_none(kind) or isinstance(kind, (types.Module, NamespaceType)):
        return Diagnosis(f"{text} is {described(kind)}, and no function", operation.text)
    return None


def wrong_arguments(operation: Operation) -> Diagnosis | None:
    """An argument that is no value, or None, where a function of the language takes numbers."""
    called, *given = operation.operands
    if isinstance(called.kind, types.Dispatcher):
        return None
    for each in (*given, *operation.keywords.values()):
        if is_none(each.kind) and each.text != "None":
            return Diagnosis(f"{nothing(each)}; {function_name(called.kind)} takes none", each.text)
        if isinstance(each.kind, Register3Type):
            return not_a_value(each)
        if advice := of_tuple(each):
            return Diagnosis(f"{each.text} is no number: {advice}", each.text)
    return None


def of_no_array(operation: Operation) -> Diagnosis | None:
    """The length of a single number."""
    called, *given = operation.operands
    if not isinstance(called.kind, types.Function) or called.kind.typing_key is not len:
        return None
    if len(given) != 1 or not is_number(given[0].kind):
        return None
    return Diagnosis(
        f"{given[0].text} is {described(given[0].kind)}, a single number, and has no len()",
        operation.text,
    )


def advice(operation: Operation) -> str:
    """What to write for an argument that is a tuple, behind the reason that a word gives."""
    return next(filter(None, map(of_tuple, operation.operands[1:])), "")


def nothing_like_it(operation: Operation) -> Diagnosis:
    """That kernels have no such function of arguments of these types."""
    called, *given = operation.operands
    listed = [described(each.kind) for each in given]
    listed += [f"{name}={described(each.kind)}" for name, each in operation.keywords.items()]
    arrays = [each.text for each in given if isinstance(each.kind, types.Array)]
    return Diagnosis(
        f"a kernel has no {called.text} of {', '.join(listed) or 'nothing'}"
        f"{f'; give it one element, as in {arrays[0]}[i]' if arrays else ''}",
        operation.text,
    )
