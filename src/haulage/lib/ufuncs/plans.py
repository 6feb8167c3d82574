"""What a call of a ufunc does, kept for the next one with arguments of the same kinds and shapes.

Most calls in a program are such repetitions, and on small arrays finding out costs far more than
the kernel.
"""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from haulage.kernel import Kernel
from haulage.kernel.configuration import in_blocks
from haulage.kernel.launcher import Launcher
from haulage.lib.ufuncs.operands import (
    Array,
    as_scalar,
    collides,
    is_number,
    new_array,
)
from haulage.lib.ufuncs.passing import Argument, arranged
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import current_device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.devices.stream_arguments import StreamLike, for_work
from haulage.runtime.launch.placement import in_place

# Programs whose shapes change with each call would fill the memory with plans.
_MOST = 256


def plan_key(args: Sequence[Any], stream: StreamLike) -> Hashable | None:
    """What of a call's arguments, outputs included, decides what it does; None if more may.

    Outputs that are to be made are None.
    """
    parts: list[Hashable] = []
    is_placed = isinstance(stream, Stream)
    for value in args:
        kind = type(value)
        if kind is np.ndarray:
            parts.append((value.dtype, value.shape, value.strides, value.flags.num))
        elif kind is DeviceNDArray:
            aligned = not value.device_pointer % 16
            place = value.device
            parts.append((value.dtype, value.shape, value.strides, place, aligned, value.readonly))
            is_placed = True
        elif is_number(value):
            parts.append((kind.__name__, getattr(value, "dtype", None)))
        elif value is None:
            parts.append(None)
        else:
            return None
    parts.append(stream.device if isinstance(stream, Stream) else None)
    return (*parts, None if is_placed else current_device())


class Made(NamedTuple):
    """An output that the call makes."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: str
    on_device: bool


class Launched(NamedTuple):
    """A launch that was made: its kernel, its blocks and their size, and what the kernel got."""

    kernel: Kernel
    grid: int
    block: tuple[int, ...]
    arguments: Sequence[Argument]
    passed: tuple[Any, ...]


class Plan(NamedTuple):
    """One call.

    Attributes:
        place: the device.
        uses_host: whether arrays of the host take part.
        scalars: for each input the dtype of a number, None for an array.
        made: for each output how to make it, None for one that is given.
        arguments: what the kernel gets.
        same_is_fine: as for `collides`.
        launcher: of the kernel.
    """

    place: Device
    uses_host: bool
    scalars: tuple[np.dtype[Any] | None, ...]
    made: tuple[Made | None, ...]
    arguments: Sequence[Argument]
    same_is_fine: bool
    launcher: Launcher

    def is_open(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> bool:
        """Whether it can be followed.

        The adversarial mode does not use host arrays in place, and arrays with the same strides
        may overlap or not.
        """
        if self.uses_host and not in_place(self.place):
            return False
        written = [given for given in outputs if given is not None]
        return not written or not any(
            dtype is None and collides(value, written, self.same_is_fine)
            for value, dtype in zip(inputs, self.scalars, strict=True)
        )

    def follow(
        self, inputs: Sequence[Any], outputs: Sequence[Any], stream: StreamLike
    ) -> list[Array]:
        """Make the call; gives back its outputs, those that were given and those that it made."""
        place = self.place
        results = [
            given if made is None else new_array(*made, place, stream)
            for given, made in zip(outputs, self.made, strict=True)
        ]
        values = [
            value if dtype is None else as_scalar(value, dtype)
            for value, dtype in zip(inputs, self.scalars, strict=True)
        ]
        passed = arranged(self.arguments, (*values, *results), stream)
        self.launcher.launch_in(for_work(stream, place), passed)
        return results


class Plans:
    """The plans of one ufunc, by `plan_key`."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Plan] = {}

    def get(
        self, key: Hashable | None, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> Plan | None:
        """The plan for a key, if there is one and the call with these arrays can follow it."""
        plan = None if key is None else self._known.get(key)
        return plan if plan is not None and plan.is_open(inputs, outputs) else None

    def put(
        self,
        key: Hashable,
        given: Sequence[Any],
        used: Sequence[Any],
        place: Device,
        scalars: Sequence[np.dtype[Any] | None],
        made: Sequence[Made | None],
        launched: Launched,
        same_is_fine: bool = True,
    ) -> None:
        """Keep what a call did, if it worked on the very arrays that it was given, where they are.

        Args:
            given: inputs and outputs of the call, None for each output that it made.
            used: what the kernel worked on.
            place, scalars, made, same_is_fine: as for `Plan`.
            launched: the launch that it made.
        """
        same = all(
            one is other or one is None or is_number(one)
            for one, other in zip(given, used, strict=True)
        )
        on_host = [each for each in used if isinstance(each, np.ndarray)]
        if not same or (
            on_host and (not in_place(place) or not all(each.flags.aligned for each in on_host))
        ):
            return
        kernel, grid, block, arguments, _ = launched
        launcher = Launcher(kernel, in_blocks(grid, block))
        while len(self._known) >= _MOST:
            self._known.pop(next(iter(self._known)), None)
        self._known[key] = Plan(
            place=place,
            uses_host=bool(on_host),
            scalars=tuple(scalars),
            made=tuple(made),
            arguments=arguments,
            same_is_fine=same_is_fine,
            launcher=launcher,
        )

    def clear(self) -> None:
        """Forget all, as something changed that the keys do not tell."""
        self._known.clear()
