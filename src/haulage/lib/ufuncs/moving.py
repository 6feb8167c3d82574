"""Ufuncs of arrays that move themselves: a call with the arrays that they are on the device."""

from collections.abc import Callable, Sequence
from typing import Any

from haulage.lib.ufuncs.operands import operand, place_of, target
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.buffers.coherent import is_coherent, read_in
from haulage.runtime.devices.stream import Stream
from haulage.runtime.devices.stream_arguments import StreamLike, for_work
from haulage.runtime.launch.placement import call_all


def are_there(inputs: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """Whether inputs of a call, or arrays for its outputs, move themselves."""
    return any(map(is_mover, inputs)) or any(map(is_coherent, wanted))


def is_mover(value: Any) -> bool:
    """Whether an input moves itself. One without axes is a number, as NumPy's are."""
    return is_coherent(value) and bool(value.shape)


def call(
    inputs: Sequence[Any],
    wanted: Sequence[Any],
    stream: StreamLike,
    name: str,
    whole: bool,
    follow: Callable[[Sequence[Any], Sequence[Any], frozenset[int]], Sequence[Any]],
) -> list[Any]:
    """The outputs of a call some of whose inputs, or arrays for outputs, move themselves.

    Args:
        inputs: of the call.
        wanted: the array for each output; None: one is to be made.
        stream: in which it happens.
        name: of the function.
        whole: whether it overwrites all elements of its outputs, which then need not be there.
        follow: makes the call with other inputs and outputs, the former being on the device, and
            gives its outputs. Those inputs whose numbers it is given are not to be written to.
    """
    moving = frozenset(number for number, value in enumerate(inputs) if is_mover(value))
    values = [
        value if number in moving else operand(value, stream, name)
        for number, value in enumerate(inputs)
    ]
    targets: list[Any] = [
        each if each is None or is_coherent(each) else target(each, stream, name) for each in wanted
    ]
    is_there = any(isinstance(value, DeviceNDArray) for value in values)
    place = place_of([*values, *targets], stream, name)
    bound, why = for_work(stream, place), f"ufunc {name}"
    dones: list[Callable[[bool], object]] = []
    handed = False
    try:
        # First what is read, as an output may be the same array.
        read = [
            read_in(bound, value, why) if number in moving else value
            for number, value in enumerate(values)
        ]
        written = []
        for each in targets:
            if is_coherent(each):
                each, done = each.__haulage_acquire__(bound, why, "rw", whole, 1)
                dones.append(done)
            written.append(each)
        made = follow(read, written, moving)
        handed = True
    finally:
        call_all(dones, handed)
    keeps_moving = moving and not is_there
    return [
        _result(own, bound if keeps_moving else None) if each is None else each
        for each, own in zip(wanted, made, strict=True)
    ]


def _result(made: Any, stream: Stream | None) -> Any:
    """What a call has made; with a stream, as a SmartArray if it is on the device."""
    if stream is None or not isinstance(made, DeviceNDArray):
        return made
    from haulage.smart.array import made_on_device

    return made_on_device(made, stream)
