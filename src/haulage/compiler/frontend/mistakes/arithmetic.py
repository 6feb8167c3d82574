"""Mistakes with operators, and with values that are taken apart."""

from numba.core import types

from haulage.compiler.frontend.described import described, is_number, is_text
from haulage.compiler.frontend.mistakes.diagnosis import (
    Diagnosis,
    is_none,
    not_a_value,
    nothing,
    of_tuple,
)
from haulage.compiler.frontend.operations import Operation


def wrong_operand(operation: Operation) -> Diagnosis | None:
    """An operand that is no value, None, a tuple of `cuda.grid`, or text."""
    for each in operation.operands:
        found = not_a_value(each)
        if found is not None:
            return found
        if is_none(each.kind):
            return Diagnosis(
                f"{nothing(each)}, and {operation.symbol} takes numbers", operation.text
            )
        if advice := of_tuple(each):
            return Diagnosis(f"{each.text} is no number: {advice}", operation.text)
    kinds = [each.kind for each in operation.operands]
    if any(map(is_text, kinds)) and not all(map(is_text, kinds)):
        return Diagnosis(
            f"a kernel cannot put text and numbers together by {operation.symbol}; print takes "
            'them one after another, as in print("x is", x)',
            operation.text,
        )
    return None


def cannot_be_iterated(operation: Operation) -> Diagnosis | None:
    """A loop over a number, or over a function that is not called."""
    value = operation.operands[0]
    if is_number(value.kind):
        return Diagnosis(
            f"{value.text} is {described(value.kind)}, a single number: write range({value.text})",
            value.text,
        )
    return not_a_value(value)


def cannot_be_unpacked(operation: Operation) -> Diagnosis | None:
    """A value that is no tuple of as many items."""
    value, count = operation.operands[0], operation.detail
    if isinstance(value.kind, types.BaseTuple):
        return Diagnosis(
            f"{value.text} is {described(value.kind)}, and is unpacked into {count} names",
            value.text,
        )
    if is_number(value.kind):
        return Diagnosis(
            f"{value.text} is {described(value.kind)}, a single number, and is unpacked into "
            f"{count} names",
            value.text,
        )
    return None


def on_whole_arrays(operation: Operation) -> Diagnosis | None:
    """Arithmetic on arrays, where one element was meant."""
    arrays = [each.text for each in operation.operands if isinstance(each.kind, types.Array)]
    named = [text for text in arrays if text.isidentifier()] or arrays
    if not named:
        return None
    return Diagnosis(
        f"{named[0]} is an array, and an expression of whole arrays makes a new array: a kernel "
        "cannot allocate memory; use cuda.local.array, or write it for one element, as in "
        f"{named[0]}[i]",
        named[0],
    )


def nothing_like_it(operation: Operation) -> Diagnosis | None:
    """That kernels have no such operator for operands of these types."""
    if not operation.symbol:
        return None
    listed = " and ".join(f"{each.text}, {described(each.kind)}," for each in operation.operands)
    return Diagnosis(f"a kernel has no {operation.symbol} for {listed.rstrip(',')}", operation.text)
