"""Mistakes with elements: of what has none, with a wrong index, of a wrong value."""

import operator
from collections.abc import Iterator
from typing import Any

from numba.core import types

from haulage.compiler.frontend.captured import CapturedArray
from haulage.compiler.frontend.described import axes, described, is_number, is_text, short
from haulage.compiler.frontend.mistakes.diagnosis import (
    Diagnosis,
    is_none,
    not_a_value,
    nothing,
    of_tuple,
)
from haulage.compiler.frontend.operations import Operand, Operation, tidy
from haulage.spelling import did_you_mean


def of_no_array(operation: Operation) -> Diagnosis | None:
    """An index behind a number, None, a function or a tuple that is to be changed."""
    owner = operation.operands[0]
    kind, text = owner.kind, owner.text
    if is_none(kind):
        return Diagnosis(f"{nothing(owner)}, which has no elements; give it an array", text)
    if is_number(kind):
        if owner.parameter:
            reason = (
                f"the argument {text!r} is {described(kind)} in this call, a single number, and "
                f"the function indexes it: give it an array, or write {text} without an index"
            )
        else:
            reason = f"{text} is {described(kind)}, a single number: write {text} without an index"
        return Diagnosis(reason, operation.text)
    if isinstance(kind, types.Dispatcher):
        return Diagnosis(
            f"a kernel cannot launch another one; call {text}(...) as a function, without [...], "
            "or launch it from the host",
            operation.text,
        )
    if isinstance(kind, types.BaseTuple) and operation.name == "setitem":
        return Diagnosis(
            f"{text} is {described(kind)}, and the items of a tuple cannot be changed; use an "
            "array, as cuda.local.array makes one",
            operation.text,
        )
    if isinstance(kind, types.BaseTuple) and not isinstance(kind, types.UniTuple):
        return Diagnosis(
            f"{text} is {described(kind)}: where the types differ, its index has to be a constant",
            operation.text,
        )
    if isinstance(kind, (types.Array, types.BaseTuple)) or not _has_no_items(kind):
        return None
    found = not_a_value(owner)
    return found or Diagnosis(f"{text} is {described(kind)}, which has no elements", text)


def _has_no_items(kind: Any) -> bool:
    return isinstance(kind, (types.Opaque, types.Dummy)) or is_number(kind)


def no_such_field(operation: Operation) -> Diagnosis | None:
    """A key of a record that is none of its fields."""
    owner, key = operation.operands[:2]
    kind = owner.kind.dtype if isinstance(owner.kind, types.Array) else owner.kind
    name = getattr(key.kind, "literal_value", None)
    if not isinstance(kind, types.Record) or not isinstance(name, str) or name in kind.fields:
        return None
    return Diagnosis(missing_field(owner, kind, name), operation.text)


def missing_field(owner: Operand, kind: Any, name: str) -> str:
    """That a record has no field of a name, and what it has."""
    fields = list(kind.fields)
    return (
        f"{owner.text} has no field {name!r}; its fields are {', '.join(fields)}"
        f"{did_you_mean(name, fields)}"
    )


def of_read_only_array(operation: Operation) -> Diagnosis | None:
    """An element of an array that cannot be written to is set."""
    owner = operation.operands[0]
    if not isinstance(owner.kind, types.Array) or owner.kind.mutable:
        return None
    if isinstance(owner.kind, CapturedArray) or owner.parameter:
        reason = (
            f"{owner.text} is a readonly array (its flags.writeable is False, as of "
            "np.broadcast_to, or it is a read-only view): give the kernel a copy"
        )
    elif owner.captured:
        reason = (
            f"{owner.text} is a readonly array: a global array of NumPy is a constant of the "
            "kernel, copied when it is compiled; give it to the kernel as an argument"
        )
    else:
        reason = f"{owner.text} is a readonly array, and its elements cannot be set"
    return Diagnosis(reason, operation.text)


def wrong_index(operation: Operation) -> Diagnosis | None:
    """An index that is a float, a text, a function ..."""
    owner, index = operation.operands[:2]
    if not isinstance(owner.kind, types.Array):
        return None
    for each in _indices(index):
        found = _wrong(owner, each)
        if found is not None:
            return found
    return None


def _indices(index: Operand) -> Iterator[Operand]:
    """Each of several indices by itself."""
    if not isinstance(index.kind, types.BaseTuple):
        yield index
        return
    parts = index.parts()
    for number, kind in enumerate(index.kind):
        part = parts[number] if number < len(parts) else index
        yield Operand(kind, part.text, part.origin, part.source)


def _wrong(owner: Operand, index: Operand) -> Diagnosis | None:
    kind, text = types.unliteral(index.kind), index.text
    if isinstance(kind, types.Float):
        return Diagnosis(
            f"the index {text} is {described(kind)}, and an index has to be an int{_as_int(index)}",
            text,
        )
    if isinstance(kind, types.Complex):
        return Diagnosis(f"the index {text} is {described(kind)}; expected an int", text)
    if is_text(kind):
        return Diagnosis(
            f"the index {text} is text, and the elements of {owner.text}, of type "
            f"{short(owner.kind.dtype)}, have no fields; expected an int",
            text,
        )
    if isinstance(kind, types.BaseTuple):
        return Diagnosis(f"the index {text} is {described(kind)}; expected an int", text)
    return not_a_value(index)


def _as_int(index: Operand) -> str:
    """What to write for an index that is a float."""
    function, parts = index.operator(), index.parts()
    if function is operator.truediv:
        quotient = tidy(f"({parts[0].text}) // ({parts[1].text})")
        return f": / gives a float, write {quotient}"
    return f": write int({index.text})"


def too_many_indices(operation: Operation) -> Diagnosis | None:
    """More indices than the array has axes."""
    owner, index = operation.operands[:2]
    if not isinstance(owner.kind, types.Array) or not isinstance(index.kind, types.BaseTuple):
        return None
    counted = [
        each for each in index.kind if not isinstance(each, (types.NoneType, types.EllipsisType))
    ]
    if len(counted) <= owner.kind.ndim:
        return None
    advice = of_tuple(index)
    if not advice:
        advice = (
            f"give it an array with {axes(len(counted))}"
            if owner.parameter
            else f"write {owner.kind.ndim} of them"
        )
    listed = f"{index.text} is {described(index.kind)}" if index.is_name else index.text.strip("()")
    return Diagnosis(
        f"cannot index array {owner.text}, which has {axes(owner.kind.ndim)}, with "
        f"{len(counted)} indices ({listed}); {advice}",
        operation.text,
    )


def wrong_value(operation: Operation) -> Diagnosis | None:
    """A value that an element cannot be set to."""
    owner, _, value = operation.operands
    if not isinstance(owner.kind, types.Array):
        return None
    kind, element = types.unliteral(value.kind), owner.kind.dtype
    if is_none(kind):
        return Diagnosis(f"{nothing(value)}, and an element cannot be", value.text)
    if not_a_value(value) is not None:
        return not_a_value(value)
    holds = (
        f"the elements of {owner.text} are of type {short(element)} and cannot hold {value.text}"
    )
    if isinstance(kind, types.Complex) and is_number(element):
        return Diagnosis(
            f"{holds}, {described(kind)}: take its .real or .imag, or abs() of it", value.text
        )
    if isinstance(kind, types.Array) and is_number(element):
        return Diagnosis(f"{holds}, {described(kind)}: take one element of it", value.text)
    if is_text(kind) or isinstance(kind, types.BaseTuple):
        return Diagnosis(f"{holds}, which is {described(kind)}", value.text)
    return None


def nothing_like_it(operation: Operation) -> Diagnosis:
    """That such elements cannot be read, or set to such a value."""
    owner, index, *value = operation.operands
    of = f"{owner.text}[{index.text}], where {owner.text} is {described(owner.kind)} and "
    of += f"{index.text} is {described(index.kind)}"
    if value:
        return Diagnosis(
            f"a kernel cannot set {of}, to {value[0].text}, {described(value[0].kind)}",
            operation.text,
        )
    return Diagnosis(f"a kernel cannot read {of}", operation.text)
