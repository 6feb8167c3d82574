"""Arrays that move themselves, in repeated launches."""

from collections.abc import Callable, Sequence
from typing import Any

from haulage.runtime.device import Device
from haulage.runtime.launching.parts import MOVING, current_part
from haulage.runtime.launching.placing import mode_of
from haulage.runtime.stream import Stream


class Moving:
    """What a kernel does with those of its arguments that move themselves.

    Args:
        why: the launch, in words, for records and errors.
        args: of a launch that was made.
        uses: for each of them its `compiler.access.model.Access`.
    """

    __slots__ = ("_modes", "_overwritten", "_why")

    def __init__(self, why: str, args: Sequence[Any], uses: Sequence[Any]) -> None:
        moving = [number for number, value in enumerate(args) if type(value) in MOVING]
        self._why = why
        self._modes = [(number, mode_of(uses[number])) for number in moving]
        self._overwritten = [number for number in moving if uses[number] and uses[number].wholes]

    def matters(self, args: Sequence[Any], place: Device) -> bool:
        """Whether elements would be moved that the kernel may be known to overwrite: `acquire` does
        not ask what it overwrites."""
        overwritten = self._overwritten
        return bool(overwritten) and not all(
            args[number].__haulage_is_there__(place) for number in overwritten
        )

    def acquire(
        self,
        args: Sequence[Any],
        packed: list[Any],
        stream: Stream,
        dones: list[Callable[[bool], object]],
    ) -> None:
        """Put the bytes of the arrays on the device in the places of `packed` that have arrays that
        move themselves. What is to be called with whether the kernel has been handed to the stream
        is put into `dones`, also where this raises something."""
        for number, mode in self._modes:
            array, done = args[number].__haulage_acquire__(stream, self._why, mode, False)
            dones.append(done)
            packed[number] = current_part(array).data
