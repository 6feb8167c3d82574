"""The plan of a launch: what is done for arguments of some kinds, found out once.

A launch looks at each argument's kind (`launch.kinds`), takes the plan for these kinds, and follows
it: acquire, pack, start, release, and wait or copy back where that is needed.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from haulage import config
from haulage._core.coherence import acquire, release
from haulage.errors import CaptureError, LaunchError
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.arrays.keys import Key
from haulage.runtime.buffers.coherent import Whole
from haulage.runtime.devices.capture import capture_of
from haulage.runtime.devices.registry import current_device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.devices.stream_arguments import device_of, for_work, known_stream, resolve
from haulage.runtime.geometry import layout
from haulage.runtime.launch.foreign_arrays import Order, Producer
from haulage.runtime.launch.hints import ArgHint, In, Out, leaves, without_hints
from haulage.runtime.launch.kinds import (
    MAPPED,
    MOVING,
    ON_DEVICE,
    ON_HOST,
    OPENED,
    ORDERED,
    TUPLE,
    Kind,
    classifiers,
    classify,
    current_part,
)
from haulage.runtime.launch.loaded import Configuration, check_limits
from haulage.runtime.launch.packing import Block
from haulage.runtime.launch.placement import Placement, call_all, in_place, place_of_launch
from haulage.runtime.process import runtime


class LaunchedKernel(Protocol):
    """What a launch asks of a kernel.

    Attributes:
        chosen: the code chosen for keys; another dictionary once that does not hold any more.
        waits: whether the host waits for each launch.
        names: of its parameters.
    """

    chosen: dict[Any, Any]
    waits: bool
    names: tuple[str, ...]
    __qualname__: str

    @property
    def aligned(self) -> bool:
        """Whether its arrays have to have aligned elements."""
        ...

    def overload_for(self, code_for: tuple[str, str], keys: tuple[Key, ...]) -> Any:
        """The code for arguments with these keys, compiled now if need be."""
        ...

    def plan(
        self,
        configuration: Configuration,
        stream: Any,
        kinds: tuple[Kind, ...],
        args: tuple[Any, ...],
    ) -> "LaunchPlan":
        """The plan, with the kernel's own words for what is refused."""
        ...

    def no_argument(self, args: tuple[Any, ...], why: TypeError) -> Exception:
        """The error for arguments one of which no kernel takes."""
        ...


# Of one kernel and configuration, by the kinds of the arguments.
Plans = dict[tuple[Kind, ...], "LaunchPlan"]
_MOST_PLANS = 1024
# Of one launch; each after the first is for a change of another thread's in between.
_MOST_ATTEMPTS = 100


def launch(
    kernel: LaunchedKernel,
    plans: Plans,
    configuration: Configuration,
    stream: Any,
    args: tuple[Any, ...],
) -> None:
    """Start a kernel; returns before it has run where it can.

    Args:
        kernel: with one value of `args` for each of its parameters.
        plans: those known of this kernel and configuration.
        configuration: whose stream does not count here.
        stream: as `Configuration` has it.

    Raises:
        LaunchError: the configuration or the arguments do not fit; nothing ran.
        DeviceMismatch: arrays and stream are of different devices; nothing ran.
        CompileError: the kernel cannot be compiled for these arguments.
    """
    fields: list[Any] = []
    try:
        own: list[Kind] = []
        for one in args:
            own.append(classifiers[type(one)](one, fields))
    except KeyError:  # of a type that was not met before
        own, fields = _classified(kernel, args)
    except TypeError as error:
        raise kernel.no_argument(args, error) from None
    kinds = tuple(own)
    plan = plans.get(kinds)
    made = 0
    while plan is None or not plan.launch(stream, args, fields):
        if made == _MOST_ATTEMPTS:
            raise LaunchError(
                f"kernel {kernel.__qualname__} was not launched: its code, or the device that is "
                f"meant, changed before each of {made} attempts; recompile it, or choose the "
                "device, while no other thread launches it"
            )
        made += 1
        plan = kernel.plan(configuration, stream, kinds, args)
        if len(plans) >= _MOST_PLANS:
            plans.clear()
        plans[kinds] = plan


def _classified(kernel: LaunchedKernel, args: tuple[Any, ...]) -> tuple[list[Kind], list[Any]]:
    fields: list[Any] = []
    try:
        return [classify(one, fields) for one in args], fields
    except TypeError as error:
        raise kernel.no_argument(args, error) from None


class LaunchPlan:
    """How a kernel is launched with one configuration and arguments of some kinds.

    Args:
        kernel, configuration, stream: of the launches, as for `launch`.
        kinds: of the arguments.
        args: of one of the launches.

    Raises:
        As `launch`.
    """

    __slots__ = (
        *(
            "_apart",
            "_arrays",
            "_asked",
            "_block",
            "_current",
            "_by_moment",
            "_captured",
            "_chosen",
        ),
        *("_configuration", "_conversions", "_device", "_flat", "_handle", "_header", "_in_place"),
        *("_kernel", "_moving", "_notes", "_on_host", "_ordered", "_pack", "_placed", "_special"),
        *("_start", "_waits", "_way", "_why"),
    )

    def __init__(
        self,
        kernel: LaunchedKernel,
        configuration: Configuration,
        stream: Any,
        kinds: tuple[Kind, ...],
        args: tuple[Any, ...],
    ) -> None:
        self._kernel = kernel
        self._why = f"kernel {kernel.__qualname__}"
        self._chosen, self._way = kernel.chosen, config.thread_way_text()
        # Each launch gives its stream, which is not kept here.
        self._configuration = configuration._replace(stream=0)
        self._asked = device_of(stream)
        self._flat = all(kind.role != TUPLE and kind.hint is None for kind in kinds)
        each = tuple(leaf for kind in kinds for leaf in kind.leaves())
        self._arrays = _numbers(each, ON_DEVICE, MAPPED)
        self._ordered = _numbers(each, ORDERED)
        self._on_host = any(
            kind.role == ON_HOST or (kind.role == ORDERED and kind.device is None) for kind in each
        )

        arrays = self._arrays_of(args)
        place, together = place_of_launch(arrays, self._asked, self._why)
        mapped = bool(_numbers(each, MAPPED))
        # The current device, where the choice depends on it.
        by_current = place is None or (mapped and self._asked is None)
        self._current = current_device() if by_current else None
        self._apart = not together
        self._by_moment = by_current or self._on_host or self._apart
        self._device = device = place or self._current or current_device()
        self._handle = resolve(stream, device).handle
        self._in_place = in_place(device)
        check_limits(configuration, device.properties, kernel.__qualname__)

        self._waits = kernel.waits or (self._on_host and self._in_place)
        self._placed: Plans | None = None
        if any(map(self._is_placed, each)):
            self._placed = {}
            self._special, self._notes = True, False
            return
        keys = tuple([kind.key for kind in kinds if kind.key is not None])
        overload = kernel.overload_for(device.code_for, keys)
        loaded = overload.load(device, configuration.block)
        self._captured = loaded.captured
        self._header, self._start = loaded.prepare(configuration)
        self._block = Block(self._header, overload.keys, keys)
        self._pack, self._conversions = self._block.pack, self._block.conversions
        self._moving = _moving(each, kinds, overload) if _numbers(each, MOVING) else []
        self._special = bool(self._moving or self._ordered or self._conversions)
        # The default stream's use of memory is noted anyway, but that of other devices' memory.
        self._notes = bool(self._captured) or self._apart

    def _is_placed(self, kind: Kind) -> bool:
        """Whether an argument has to be copied or opened before its key is known."""
        if kind.role == ON_HOST:
            aligned = kind.key is not None and kind.key[-1]
            unaligned = self._kernel.aligned and not aligned
            return kind.hint is In or not self._in_place or unaligned
        if kind.role == ORDERED:
            elsewhere = (
                not self._in_place if kind.device is None else kind.device is not self._device
            )
            return elsewhere or kind.hint is not None
        return kind.role == OPENED

    def _holds_now(self, args: tuple[Any, ...]) -> bool:
        """Whether the device, and what is done with host arrays, are what would be chosen now."""
        return (
            (self._current is None or self._current is current_device())
            and (not self._on_host or self._in_place == in_place(self._device))
            and (not self._apart or self._device is self._place_of(args))
        )

    def _place_of(self, args: tuple[Any, ...]) -> Any:
        return place_of_launch(self._arrays_of(args), self._asked, self._why)[0]

    def _arrays_of(self, args: tuple[Any, ...]) -> list[Any]:
        each = args if self._flat else leaves(args)
        return [each[number] for number in self._arrays]

    # ---- following it -------------------------------------------------------------------------

    def launch(self, given: Any, args: tuple[Any, ...], fields: list[Any]) -> bool:
        """Start the kernel in the stream that `given` names, with arguments of the plan's kinds.

        `fields` are those of the argument block, as `kinds.classify` made them of `args`.

        Returns:
            False if nothing was done, as the plan does not hold any more: its code, its device or
            what it does with host arrays are not those that would be chosen now.
        """
        if (
            self._chosen is not self._kernel.chosen
            or self._way != config.thread_way_text()
            or (self._by_moment and not self._holds_now(args))
        ):
            return False
        if runtime.current.captures:
            stream = self._taking_work(given)
        elif not given:
            stream = self._device.default_stream
        elif isinstance(given, Stream):
            stream = given
        else:
            stream = self._known(given)
        handle = stream.handle
        if self._special:
            self._launch_specially(stream, args, fields)
        else:
            if handle or self._notes:
                self._note(stream, args)
            try:
                packed = self._pack(self._header, *fields)
            except (struct.error, OverflowError):
                packed = self._block.converted(fields)
            self._start(handle, packed)
        if self._waits:
            if runtime.current.captures:
                wait_for(stream)
            else:
                stream.finish()
        return True

    def _known(self, given: Any) -> Stream:
        """The stream that an object of another package names."""
        if not self._handle:
            return self._device.default_stream
        return known_stream(given, self._device, self._handle)

    def _taking_work(self, given: Any) -> Stream:
        """The stream, where some stream is captured."""
        stream = for_work(given, self._device)
        if self._on_host and self._in_place and stream.handle in self._device.capturing:
            raise CaptureError(
                "a launch with host arrays waits until it is done, so a graph cannot have it; give "
                "it arrays of the device, mapped or managed ones"
            )
        return stream

    def _note(self, stream: Stream, args: tuple[Any, ...]) -> None:
        """Note which memory the stream uses."""
        each = args if self._flat else leaves(args)
        for number in self._arrays:
            each[number].block.use(stream)
        if self._captured:
            for array in self._captured:
                array.block.use(stream)

    def _launch_specially(self, stream: Stream, args: tuple[Any, ...], fields: list[Any]) -> None:
        # A graph cannot be ordered with other libraries' streams: their arrays are opened for it.
        if self._placed is not None or (self._ordered and stream.handle in self._device.capturing):
            self._launch_placed(stream, args)
            return
        if stream.handle or self._notes:
            self._note(stream, args)
        each = args if self._flat else leaves(args)
        device, held = self._device, list[DeviceNDArray]()
        written: list[Any] = []
        dones: list[Callable[[bool], object]] = []
        handed = False
        try:
            for number, mode, use, hint in self._moving:
                own = each[number]
                array = (
                    acquire(own, device, stream, stream.handle, mode, 2, written)
                    if hint is None
                    else None
                )
                if array is None:
                    array = self._acquired(stream, args, each, own, mode, use, hint, dones)
                    if stream.handle:
                        array.block.use(stream)
                held.append(array)
                fields[number] = current_part(array).data
            producers: list[Producer | int] = []
            for number in self._ordered:
                fields[number], producer = fields[number]
                if producer is not None and producer not in producers:
                    producers.append(producer)
            for number, convert in self._conversions:
                fields[number] = convert(fields[number])
            try:
                packed = self._pack(self._header, *fields)
            except (struct.error, OverflowError):
                packed = self._block.converted(fields)
            if producers:
                order = Order(self._device, stream.handle, producers)
                order.around(self._start, stream.handle, packed)
            else:
                self._start(stream.handle, packed)
            handed = True
        finally:
            # Also when it failed or was interrupted: a part of it may have run.
            if written:
                release(written, device, stream, stream.handle, dones)
            if dones:
                call_all(dones, handed)

    def _acquired(
        self,
        stream: Stream,
        args: tuple[Any, ...],
        each: Sequence[Any],
        array: Any,
        mode: str,
        use: Any,
        hint: type[ArgHint] | None,
        dones: list[Callable[[bool], object]],
    ) -> DeviceNDArray:
        """What an array that moves itself is on the device; what says that the kernel is done with
        it is appended to `dones`."""
        there: DeviceNDArray
        if hint is not In:
            whole: Whole = False
            if mode == "rw" and (hint is Out or (use is not None and use.wholes)):
                whole = partial(self._overwrites, None if hint is Out else use, array, args, each)
            ways = 1 if hint is Out else 2
            there, done = array.__haulage_acquire__(stream, self._why, mode, whole, ways)
            dones.append(done)
            return there
        used = "r" if mode == "rw" else mode
        there, done = array.__haulage_acquire__(stream, self._why, used, False, 1)
        dones.append(done)
        if mode == "none" or (mode == "r" and _is_alone(array, each)):
            return there
        strides = layout.dense_strides(there.shape, there.strides, there.dtype.itemsize)
        copy = DeviceNDArray(there.shape, strides, there.dtype, device=stream.device)
        copy.copy_to_device(there, stream)
        return copy

    def _overwrites(self, use: Any, array: Any, args: tuple[Any, ...], each: Sequence[Any]) -> bool:
        """Whether the launch overwrites all of an array, which no other argument reads."""
        grid, block, _, _ = self._configuration
        return _is_alone(array, each) and (
            use is None or bool(use.overwrites(grid, block, without_hints(args)))
        )

    def _launch_placed(self, stream: Stream, args: tuple[Any, ...]) -> None:
        """Bring the arguments to the device, and launch with what they are there."""
        kernel, plans = self._kernel, self._placed
        placement = Placement(stream, self._why, kernel.aligned, kernel.names, kernel)
        try:
            there = placement.place(args)
        except TypeError as error:
            raise kernel.no_argument(without_hints(args), error) from error
        launch(kernel, {} if plans is None else plans, self._configuration, stream, there)
        placement.copy_back()


def wait_for(stream: Stream) -> None:
    """Wait for a launch; if it was only recorded, let each launch of its graph wait."""
    captured = capture_of(stream)
    if captured is None:
        stream.finish()
    else:
        captured.waits = True


def _numbers(kinds: Sequence[Kind], *roles: str) -> list[int]:
    return [number for number, kind in enumerate(kinds) if kind.role in roles]


def _moving(
    each: Sequence[Kind], kinds: tuple[Kind, ...], overload: Any
) -> list[tuple[int, str, Any, type[ArgHint] | None]]:
    """Of each argument that moves itself: its number, what the kernel does with it, as
    `__haulage_acquire__` takes it and as `compiler.access.model.Access` if known, and its hint."""
    uses = [
        one
        for kind, use in zip(kinds, overload.access.arguments, strict=True)
        for one in _uses(kind, use)
    ]
    return [
        (number, "rw" if use is None or use.writes else str(use.mode), use, kind.hint)
        for number, (kind, use) in enumerate(zip(each, uses, strict=True))
        if kind.role == MOVING
    ]


def _uses(kind: Kind, use: Any) -> Iterator[Any]:
    """What is done with each entry of a tuple, or with another argument."""
    if kind.role != TUPLE:
        yield use
        return
    for part, own in zip(kind.parts, use or (None,) * len(kind.parts), strict=True):
        yield from _uses(part, own)


def _is_alone(array: Any, each: Sequence[Any]) -> bool:
    """Whether of the arguments of a launch only `array` has its memory."""
    return sum(array.__haulage_shares__(other) for other in each) == 1
