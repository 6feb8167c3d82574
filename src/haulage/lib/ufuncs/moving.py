"""Ufuncs of arrays that move themselves: a call with the arrays that they are on the device."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from haulage.lib.ufuncs.operands import operand, place_of, target
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.arrays.movers import moves_itself, overwritten_in, read_in
from haulage.runtime.stream_arguments import StreamLike, for_work


def is_mover(value: Any) -> bool:
    """Whether an operand moves itself. One without axes is a number, as NumPy's are."""
    return moves_itself(value) and bool(value.shape)


def call(
    inputs: Sequence[Any],
    wanted: Sequence[Any],
    stream: StreamLike,
    name: str,
    follow: Callable[[Sequence[Any], Sequence[Any], frozenset[int]], Sequence[Any]],
) -> list[Any]:
    """The outputs of a call some of whose inputs, or arrays for outputs, move themselves.

    Args:
        inputs: of the call.
        wanted: the array for each output; None: one is to be made.
        stream: in which it happens.
        name: of the function.
        follow: makes the call with other inputs and outputs, the former being on the device, and
            gives its outputs. Those inputs whose numbers it is given are not to be written to.
    """
    moving = frozenset(number for number, value in enumerate(inputs) if is_mover(value))
    values = [
        value if number in moving else operand(value, stream, name)
        for number, value in enumerate(inputs)
    ]
    targets = [
        each if each is None or moves_itself(each) else target(each, stream, name)
        for each in wanted
    ]
    is_there = any(isinstance(value, DeviceNDArray) for value in values)
    place = place_of([*values, *targets], stream, name)
    bound, why = for_work(stream, place), f"ufunc {name}"
    with ExitStack() as acquired:
        # First what is read, as an output may be the same array.
        read = [
            read_in(bound, value, why) if number in moving else value
            for number, value in enumerate(values)
        ]
        written = [
            acquired.enter_context(overwritten_in(bound, each, why)) if moves_itself(each) else each
            for each in targets
        ]
        made = follow(read, written, moving)
    if is_there or not moving:
        return _given_back(wanted, made)
    from haulage.smart.made_there import made_there

    return _given_back(
        wanted,
        [made_there(each, bound) if isinstance(each, DeviceNDArray) else each for each in made],
    )


def _given_back(wanted: Sequence[Any], made: Sequence[Any]) -> list[Any]:
    return [own if given is None else given for given, own in zip(wanted, made, strict=True)]
