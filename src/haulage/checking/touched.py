"""What of an array a launch of the CPU device touches, where that can be worked out from its code,
its sizes and its integers: for kernels that are given a whole array and an offset into it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from haulage.compiler.access.model import named
from haulage.compiler.argument_block import Integers
from haulage.errors import CompileError

_RACES = frozenset(("race",))
# Of so many launches it is kept.
_MOST = 1024


class Touch(NamedTuple):
    """What a launch does with an array.

    Attributes:
        extent: the bytes that it touches, from the array's address on: from the first number on,
            and before the second; None: not known.
        is_atomic: whether it makes nothing but atomic operations there.
    """

    extent: tuple[float, float] | None
    is_atomic: bool


_UNKNOWN = Touch(None, False)


class Touched:
    """Works out what launches of an overload touch. The kernel is looked at when it is asked."""

    def __init__(self, overload: Any, device: Any, configuration: Any, skipped: int) -> None:
        self._overload, self._device = overload, device
        self._grid, self._block = configuration.grid, configuration.block
        self._skipped = skipped
        self._asked: Callable[[str, bytes], Touch] | None = None
        self._known: dict[tuple[str, bytes], Touch] = {}

    def __call__(self, array: str, packed: bytes) -> Touch:
        """What the launch with this argument block does with an array, by its name."""
        if self._asked is None:
            self._asked = self._look()
        known = self._known.get((array, packed))
        if known is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            known = self._known[array, packed] = self._asked(array, packed)
        return known

    def _look(self) -> Callable[[str, bytes], Touch]:
        if not self._device.checks_kernels:
            return _nothing
        try:
            body = self._overload.checked_body(self._device, _RACES)
            known = body.unneeded(self._block)
        except CompileError:
            return _nothing
        lowered = body.lowered
        numbers = {
            named(lowered.memory.names, each.path): number
            for number, each in enumerate(lowered.arrays)
        }
        integers = Integers(lowered.arguments, known.parameters)

        def asked(array: str, packed: bytes) -> Touch:
            number = numbers.get(array)
            if number is None:
                return _UNKNOWN
            values = integers.read(packed, self._skipped)
            return Touch(known.touched(number, values, self._grid), known.is_atomic(number))

        return asked


def _nothing(array: str, packed: bytes) -> Touch:
    return _UNKNOWN
