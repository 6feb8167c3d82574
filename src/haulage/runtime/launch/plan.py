"""The plan of a launch: what is done for arguments of some kinds, found out once.

A launch looks at each argument's kind (`launch.kinds`), takes the plan for these kinds, and follows
it: acquire, pack, start, release, and wait or copy back where that is needed.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

from haulage import config
from haulage._core import launches
from haulage._core.launches import PlanBase, in_place, launch
from haulage.compiler.versions import END
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
    int_kinds,
    number_kinds,
)
from haulage.runtime.launch.loaded import Configuration, Loaded, check_limits
from haulage.runtime.launch.packing import Block
from haulage.runtime.launch.placement import Placement, call_all, place_of_launch
from haulage.runtime.process import runtime


class LaunchedKernel(Protocol):
    """What a plan asks of a kernel, besides what `haulage._core.launches` does.

    Attributes:
        chosen, waits: see `LaunchedBase`.
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

    def no_argument(self, args: tuple[Any, ...], why: TypeError) -> Exception:
        """The error for arguments one of which no kernel takes."""
        ...


# Of one kernel and configuration, by the kinds of the arguments; the last one under None.
Plans = dict[tuple[Kind, ...] | None, "LaunchPlan"]


class LaunchPlan(PlanBase):
    """How a kernel is launched with one configuration and arguments of some kinds.

    Args:
        kernel, configuration, stream: of the launches, as for `launch`.
        kinds: of the arguments.
        args: of one of the launches.

    Raises:
        As `launch`.
    """

    __slots__ = (*("_asked", "_block", "_configuration", "_handle", "_why"),)

    # Whether launches are checked where somebody checks kernels.
    _may_be_checked = True

    def __init__(
        self,
        kernel: LaunchedKernel,
        configuration: Configuration,
        stream: Any,
        kinds: tuple[Kind, ...],
        args: tuple[Any, ...],
    ) -> None:
        self._kernel, self._kinds = kernel, kinds
        self._why = f"kernel {kernel.__qualname__}"
        self._chosen, self._way = kernel.chosen, config.thread_way_text()
        self._checker = runtime.current.checker
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
        by_current = place is None or (mapped and self._asked is None)
        self._current = current_device() if by_current else None
        self._apart = not together
        self._device = device = place or self._current or current_device()
        self._handle = resolve(stream, device).handle
        self._in_place = in_place(device)
        check_limits(configuration, device.properties, kernel.__qualname__)

        self._waits = kernel.waits or (self._on_host and self._in_place)
        if any(map(self._is_placed, each)):
            self._placed = {}
            return
        keys = tuple([kind.key for kind in kinds if kind.key is not None])
        overload = kernel.overload_for(device.code_for, keys)
        checker = self._checker
        is_checked = False
        if (
            self._may_be_checked
            and checker is not None
            and checker.checks_kernels
            and device.checks_kernels
        ):
            is_checked = True
            version = overload.version_for([kind.trait for kind in each])
            checked = checker.checked(overload, device, configuration, version)
            self._captured, header, self._start = checked.captured, b"", checked.start
        else:
            loaded = overload.load(device, configuration.block, [kind.trait for kind in each])
            self._captured = loaded.captured
            header, start = loaded.prepare(configuration)
            self._start = self._started_by(start, overload.keys, loaded)
        host_checker = runtime.current.host_checker
        if host_checker is not None:
            self._start = host_checker.launching(
                device,
                overload,
                configuration,
                header,
                self._captured,
                self._start,
                is_checked=is_checked,
            )
        self._block = Block(header, overload.keys, keys)
        self._packer, self._conversions = self._block.packer, self._block.conversions
        self._moving = _moving(each, kinds, overload) if _numbers(each, MOVING) else []
        self._special = bool(self._moving or self._ordered or self._conversions)
        # The default stream's use of memory is noted anyway, but that of other devices' memory.
        self._notes = bool(self._captured) or self._apart

    def _started_by(
        self, start: Callable[[int, bytes], None], keys: tuple[Key, ...], loaded: Loaded
    ) -> Callable[[int, bytes], None]:
        """What launches that are not checked are started by: `start`, the code's own start."""
        return start

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

    def _place_of(self, args: tuple[Any, ...]) -> Any:
        return place_of_launch(self._arrays_of(args), self._asked, self._why)[0]

    def _arrays_of(self, args: tuple[Any, ...]) -> list[Any]:
        each = args if self._flat else leaves(args)
        return [each[number] for number in self._arrays]

    # ---- following it -------------------------------------------------------------------------

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

    def _leaves(self, args: tuple[Any, ...]) -> Sequence[Any]:
        """The arguments, the entries of tuples instead of these."""
        return leaves(args)

    def _converted(self, fields: list[Any]) -> bytes:
        """The argument block, where a number does not fit its field as it is."""
        return self._block.converted(fields)

    def _start_in_order(self, handle: int, block: bytes, producers: list[Producer | int]) -> None:
        """Start the kernel in the stream with that handle, between what other libraries' streams
        have done with their arrays and what they do later."""
        Order(self._device, handle, producers).around(self._start, handle, block)

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
) -> list[launches.Movement]:
    """What the kernel does with each argument that moves itself."""
    uses = [
        one
        for kind, use in zip(kinds, overload.access.arguments, strict=True)
        for one in _uses(kind, use)
    ]
    modes = ["rw" if use is None or use.writes else str(use.mode) for use in uses]
    return [
        launches.Movement(number, mode, use, kind.hint)
        for number, (kind, mode, use) in enumerate(zip(each, modes, uses, strict=True))
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


launches.know(
    DeviceNDArray,
    Stream,
    config.thread_way_text,
    classify,
    classifiers,
    number_kinds,
    int_kinds,
    END,
    wait_for,
    call_all,
    LaunchError,
)
