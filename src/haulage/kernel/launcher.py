"""Kernels with a launch configuration, and what makes their launches short when repeated."""

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from haulage import config
from haulage.errors import HaulageError
from haulage.runtime import adversary, device
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.capture import active as captures
from haulage.runtime.launching.arguments import pack_array
from haulage.runtime.launching.borrowing import Lender, Order, borrow, samples
from haulage.runtime.launching.launch import Configuration
from haulage.runtime.launching.moving import Moving
from haulage.runtime.launching.parts import (
    GREATEST_INT,
    MOVING,
    NUMBERS,
    host_kind,
    moving_kind,
    part_of,
)
from haulage.runtime.launching.placing import call_all
from haulage.runtime.stream import Stream, known_stream
from haulage.tracebacks import shorten

if TYPE_CHECKING:
    from haulage.kernel.kernel import Kernel


class Repeated(NamedTuple):
    """A launch that was made and may be made again with other arguments of the same kinds.

    It holds as long as `chosen` is that dictionary of the kernel, `way` the way that is chosen by
    the environment and, unless it does not depend on that, `device` the current device.
    `pack(header, *arguments)` makes the bytes that `start(handle of the stream, bytes)` takes.
    `waits` says that host arrays are among the arguments, which are used in place; `moving` is
    about those that move themselves, if there are any. The stream is not kept here.
    """

    chosen: dict[Any, Any]
    way: str
    device: device.Device
    anywhere: bool
    header: bytes
    pack: Callable[..., bytes]
    start: Callable[[int, bytes], None]
    handle: int
    waits: bool
    moving: Moving | None


# By the kinds of arguments; None: a launch with them cannot be repeated in short.
Known = dict[tuple[Any, ...], Repeated | None]
_UNKNOWN: Any = object()


class Launcher:
    """A kernel with a launch configuration; calling it launches the kernel.

    `known` is what was found out by launches with the same configuration.
    """

    __slots__ = ("configuration", "kernel", "known")

    def __init__(
        self, kernel: "Kernel", configuration: Configuration | None, known: Known | None = None
    ) -> None:
        self.kernel = kernel
        self.configuration: Any = configuration
        self.known: Known = {} if known is None else known

    def __call__(self, *args: Any, **named: Any) -> None:
        try:
            # What follows does not know what the default stream means inside of `with graph()`.
            if named or captures:
                self._launch(args, named)
                return
            kinds: list[Any] = []
            packed: list[Any] = []
            lenders: list[Lender | int] | None = None
            for value in args:
                kind = type(value)
                if kind is DeviceNDArray:
                    try:
                        part = value._launch_part
                    except AttributeError:
                        part = part_of(value)
                    if part.shape is not value.shape or part.strides is not value.strides:
                        part = part_of(value)
                    if value.block.closed:
                        break
                    kinds.append(part.kind)
                    packed.append(part.data)
                elif kind in NUMBERS and (
                    kind is not int or -GREATEST_INT <= value <= GREATEST_INT
                ):
                    kinds.append(kind)
                    packed.append(value)
                elif kind is np.ndarray:
                    kinds.append(host_kind(value))
                    packed.append(pack_array(value))
                elif kind in MOVING:
                    try:
                        kinds.append(value._launch_kind)
                    except AttributeError:
                        kinds.append(moving_kind(value))
                    packed.append(value)
                else:
                    borrowed = borrow(value)
                    if borrowed is None:
                        break
                    layout, data, lender = borrowed
                    kinds.append(layout.kind)
                    packed.append(data)
                    if lender is not None:
                        if lenders is None:
                            lenders = [lender]
                        elif lender not in lenders:
                            lenders.append(lender)
            else:
                known = self.known.get(tuple(kinds))
                if known is not None and not self.kernel.extensions:
                    chosen, way, place, anywhere, header, pack, start, handle, waits, moving = known
                    if (
                        chosen is self.kernel.chosen
                        and way == config.thread_way()
                        and (not anywhere or place is device.current_device())
                        and (not waits or adversary.seed is None)
                    ):
                        if moving is not None:
                            self._launch_moving(known, moving, args, packed, lenders)
                            return
                        try:
                            launch = pack(header, *packed)
                        except (struct.error, OverflowError):
                            # It converts the numbers, or says which does not fit.
                            self._launch(args, named)
                            return
                        stream = place.default_stream
                        if handle:
                            stream = self._used_in_stream(place, handle, args)
                        if lenders is None:
                            start(handle, launch)
                        else:
                            Order(place, handle, lenders).around(start, handle, launch)
                        if waits:
                            stream.finish()
                        return
                self._launch_and_note(tuple(kinds), args)
                return
            self._launch(args, named)
        except HaulageError as error:
            shorten(error)
            raise

    def _used_in_stream(self, place: device.Device, handle: int, args: tuple[Any, ...]) -> Stream:
        """The stream with that handle, which is noted to use the device arrays."""
        stream = known_stream(self.configuration.stream, place, handle)
        for value in args:
            if type(value) is DeviceNDArray:
                value.block.use(stream)
        return stream

    def _launch_moving(
        self,
        known: Repeated,
        moving: Moving,
        args: tuple[Any, ...],
        packed: list[Any],
        lenders: list[Lender | int] | None,
    ) -> None:
        """Repeat a launch with arrays that move themselves."""
        place, handle = known.device, known.handle
        if moving.matters(args, place):
            self._launch(args, {})
            return
        stream = self._used_in_stream(place, handle, args) if handle else place.default_stream
        dones: list[Callable[[bool], object]] = []
        handed = False
        try:
            moving.acquire(args, packed, stream, dones)
            launch = known.pack(known.header, *packed)
            if lenders is None:
                known.start(handle, launch)
            else:
                Order(place, handle, lenders).around(known.start, handle, launch)
            handed = True
        finally:
            call_all(dones, handed)
        if known.waits:
            stream.finish()

    def _launch_and_note(self, kinds: tuple[Any, ...], args: tuple[Any, ...]) -> None:
        """Launch, and find out whether launches like it can be repeated in short."""
        self._launch(args, {})
        kernel = self.kernel
        known = self.known.get(kinds, _UNKNOWN)
        if not (known is None or kernel.extensions or self.configuration is None):
            self.known[kinds] = kernel.repeated(self.configuration, kinds, samples(args))

    def _launch(self, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        # There is nothing to run in `forall(0)`.
        if self.configuration is None:
            return
        if self.kernel.extensions:
            self.kernel.launch_extended(self.configuration, args, named)
        else:
            self.kernel.launch(self.configuration, args, named)

    @property
    def griddim(self) -> Any:
        """(x, y, z) blocks; None for a launch of no tasks."""
        return self.configuration and self.configuration.grid

    @property
    def blockdim(self) -> Any:
        """(x, y, z) threads of a block; None for a launch of no tasks."""
        return self.configuration and self.configuration.block

    @property
    def stream(self) -> Any:
        """The stream, 0 for the default stream of the arguments' device."""
        return self.configuration and self.configuration.stream

    @property
    def sharedmem(self) -> Any:
        """Bytes of dynamic shared memory of a block; None for a launch of no tasks."""
        return self.configuration and self.configuration.shared_bytes

    def __reduce__(self) -> Any:
        # Streams are of their process.
        kept = self.configuration and self.configuration._replace(stream=0)
        return type(self), (self.kernel, kept)

    def __repr__(self) -> str:
        return f"<{self.kernel!r} with {self.configuration}>"
