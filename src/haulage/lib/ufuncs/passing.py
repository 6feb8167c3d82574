"""What a ufunc's kernel is given: numbers, and the memory of operands in other shapes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from haulage.lib.ufuncs.operands import Array, memory_of, shown
from haulage.runtime.devices.stream_arguments import StreamLike


class Constant(NamedTuple):
    """A value that no operand tells."""

    value: Any

    def of(self, operands: Sequence[Any], stream: StreamLike) -> Any:
        """What the kernel gets."""
        return self.value


class Itself(NamedTuple):
    """The operand at a place."""

    place: int

    def of(self, operands: Sequence[Any], stream: StreamLike) -> Any:
        """What the kernel gets."""
        return operands[self.place]


class View(NamedTuple):
    """The memory of the array at a place, from its first element on, in another shape."""

    place: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def of(self, operands: Sequence[Any], stream: StreamLike) -> Any:
        """What the kernel gets."""
        return shown(operands[self.place], self.shape, self.strides, stream)


class Memory(NamedTuple):
    """All the memory that the array at a place touches, as an array with one axis."""

    place: int

    def of(self, operands: Sequence[Any], stream: StreamLike) -> Any:
        """What the kernel gets."""
        return memory_of(operands[self.place], stream)[0]


Argument = Constant | Itself | View | Memory


def view(place: int, array: Array, shape: tuple[int, ...], strides: tuple[int, ...]) -> Argument:
    """`View`, or `Itself` where that is the same."""
    if array.shape == shape and array.strides == strides:
        return Itself(place)
    return View(place, shape, strides)


def arranged(
    arguments: Sequence[Argument], operands: Sequence[Any], stream: StreamLike
) -> tuple[Any, ...]:
    """The arguments of a kernel for some operands, which are the inputs and then the outputs."""
    return tuple([argument.of(operands, stream) for argument in arguments])
