"""Host arrays on their way to a kernel: used in place, or copied to the device and back."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from haulage.errors import CaptureError, DeviceMismatch, HaulageError
from haulage.runtime import adversary, observing
from haulage.runtime.arrays import layout
from haulage.runtime.arrays.array import DeviceNDArray, DeviceRecord
from haulage.runtime.arrays.copying import DeviceNDArrayBase
from haulage.runtime.arrays.upload import device_array_for, mirror_array_for
from haulage.runtime.device import Device
from haulage.runtime.exchange import foreign
from haulage.runtime.stream import Stream

_UNNOTED = nullcontext()


def in_place(device: Device) -> bool:
    """Whether kernels on `device` work on host arrays where they are.

    Never in the adversarial mode, so that programs which count on it fail there, nor where somebody
    wants to know what devices with memory of their own would copy.
    """
    in_reach = device.properties.host_memory_is_device_memory
    return in_reach and adversary.seed is None and not observing.apart


def is_unaligned(value: Any) -> bool:
    """Whether an argument is, or has among its parts, a host array with unaligned elements."""
    if isinstance(value, tuple):
        return any(map(is_unaligned, value))
    return isinstance(value, (np.ndarray, np.void)) and not value.flags.aligned


def is_record(value: Any) -> bool:
    """Whether `value` is a NumPy scalar with fields."""
    return isinstance(value, np.void) and value.dtype.names is not None


def reaches(device: Device, array: Any) -> bool:
    """Whether kernels on `device` reach the memory of an array of some device."""
    return device.reaches(array.device) or array.block.is_mapped_for(device)


def _moves_itself(value: Any) -> bool:
    return hasattr(value, "__haulage_argument__") or hasattr(value, "__haulage_acquire__")


class ArgHint:
    """Says which way an argument of a kernel is copied: `In`, `Out` or `InOut`.

    Args:
        value: a host array or record, or one on the device, to which no hint applies.

    Raises:
        TypeError: it is neither.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        if not (
            isinstance(value, (np.ndarray, np.void, DeviceNDArrayBase))
            or _moves_itself(value)
            or foreign.is_foreign(value)
        ):
            raise TypeError(
                f"{type(self).__name__}({value!r}): expected a NumPy array or record, "
                "or an array on the device"
            )
        self.value = value

    @property
    def __haulage_layout__(self) -> tuple[np.dtype, int, str, bool, bool]:
        """That of a value which moves itself, with which the hint stays until it is moved."""
        layout: tuple[np.dtype, int, str, bool, bool] = self.value.__haulage_layout__
        return layout

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"


class In(ArgHint):
    """Only the kernel's input: copied to the device; what the kernel writes to it is dropped.

    Of a SmartArray, a kernel that writes to it gets a copy, which is made on the device.
    """

    __slots__ = ()


class Out(ArgHint):
    """Only the kernel's output: copied back; on the device its elements are undefined at first.

    A SmartArray is not brought to the device, and then current there only.
    """

    __slots__ = ()


class InOut(ArgHint):
    """Copied to the device before the kernel runs and back after it, as without a hint."""

    __slots__ = ()


def wrap_arg(value: Any, default: type[ArgHint] = InOut) -> ArgHint:
    """An argument with a hint: as it is if it has one, else with `default`.

    Raises:
        TypeError: it is neither a host array or record nor one on the device.
    """
    return value if isinstance(value, ArgHint) else default(value)


class Placement:
    """The arguments of one launch on their way to the stream's device.

    Args:
        stream: in which the kernel will run.
        why: the launch, in words, for records and errors.
        aligned: whether the kernel takes aligned elements only; host arrays of others are copied.
        names: those of the kernel's parameters, for records.
        kernel: itself, for records.
    """

    __slots__ = (
        *("_at", "_copies_back", "_dones", "_has_hints", "_kernel", "_movers", "_names"),
        "_releases",
        *("aligned", "stream", "why"),
    )

    def __init__(
        self,
        stream: Stream,
        why: str,
        aligned: bool = False,
        names: Sequence[str] = (),
        kernel: Any = None,
    ) -> None:
        self.stream = stream
        self.why = why
        self.aligned = aligned
        self._names = names
        self._kernel = kernel
        # The number of the argument that is placed now, followed by places in tuples.
        self._at: tuple[int, ...] = ()
        self._releases: list[Callable[[], object]] = []
        self._movers: list[Any] = []
        self._has_hints = False  # of those that move themselves
        self._dones: list[Callable[[bool], object]] = []
        self._copies_back: list[Callable[[], object]] = []

    def place(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        """`values` with each one that is not on the device replaced by an array that is.

        Host arrays stay as they are where kernels can use them in place. A value with a method
        `__haulage_argument__(stream, why)` gives a device array that is ready for work in the
        stream, and a function to be called when the kernel has been handed to it. One that moves
        itself as the kernel uses it (see `move`) stays as it is.
        """
        self._at = ()
        return self._parts(values)

    def _parts(self, values: tuple[Any, ...]) -> tuple[Any, ...]:
        at, placed = self._at, []
        for number, value in enumerate(values):
            self._at = (*at, number)
            placed.append(self._placed(value))
        return tuple(placed)

    def move(
        self, values: tuple[Any, ...], uses: Callable[[], Sequence[Any]], *launched: Any
    ) -> tuple[Any, ...]:
        """`values`, which were placed, with device arrays for those that move themselves.

        These have the attribute `__haulage_layout__`: (dtype, axes, layout, whether it is
        read-only, whether it is aligned), of which code is chosen; and a method
        `__haulage_acquire__(stream, why, mode, whole, ways=2)`, where `mode` is what the kernel
        does with it: 'none', 'r' or 'rw', `whole` says that it overwrites all elements, and `ways`
        how often a host array would be copied for it. That gives the array, and a function which is
        called with whether the kernel has been handed to the stream.

        Args:
            values: the arguments.
            uses: gives for each argument its `compiler.access.model.Access`, or a tuple of them.
            launched: blocks of the grid and threads of a block.
        """
        if not self._movers:
            return values
        given = _without_hints(values) if self._has_hints else values
        return tuple(
            [
                self._moved(value, use, given, launched)
                for value, use in zip(values, uses(), strict=True)
            ]
        )

    def _moved(self, value: Any, use: Any, given: tuple[Any, ...], launched: Any) -> Any:
        hint = None
        if isinstance(value, ArgHint):
            hint, value = value, value.value
        if isinstance(value, tuple):
            inner = [
                self._moved(part, own, given, launched)
                for part, own in zip(value, use or (None,) * len(value), strict=True)
            ]
            return type(value)(*inner) if hasattr(value, "_fields") else tuple(inner)
        if not hasattr(value, "__haulage_acquire__"):
            return value
        mode = mode_of(use)
        if isinstance(hint, In):
            return self._moved_in(value, mode, given)
        whole = (
            mode == "rw"
            and (hint is not None or (use is not None and use.overwrites(*launched, given)))
            and _is_alone(value, given)
        )
        array, done = value.__haulage_acquire__(
            self.stream, self.why, mode, whole, 2 if hint is None else 1
        )
        self._dones.append(done)
        return array

    def _moved_in(self, value: Any, mode: str, given: tuple[Any, ...]) -> DeviceNDArrayBase:
        """What moves itself, as the kernel's input only: a copy, if the kernel writes to it or may
        do so through another argument."""
        used = "r" if mode == "rw" else mode
        array, done = value.__haulage_acquire__(self.stream, self.why, used, False, 1)
        self._dones.append(done)
        if mode == "none" or (mode == "r" and _is_alone(value, given)):
            own: DeviceNDArrayBase = array
            return own
        strides = layout.dense_strides(array.shape, array.strides, array.dtype.itemsize)
        copy = DeviceNDArray(array.shape, strides, array.dtype, device=self.stream.device)
        copy.copy_to_device(array, self.stream)
        return copy

    def release(self, handed: bool) -> None:
        """Say that the kernel has been `handed` over, or that this failed in its midst."""
        call_all([*self._releases, *(partial(done, handed) for done in self._dones)])

    def copy_back(self) -> None:
        """Copy what the kernel was given copies of back to the host; waits for the kernel."""
        call_all(self._copies_back)

    def _placed(self, value: Any) -> Any:
        if isinstance(value, DeviceNDArrayBase):
            return value
        if isinstance(value, ArgHint):
            return self._hinted(value)
        if isinstance(value, tuple):
            inner = self._parts(value)
            return type(value)(*inner) if hasattr(value, "_fields") else inner
        if hasattr(value, "__haulage_acquire__"):
            self._movers.append(value)
            return value
        if hasattr(value, "__haulage_argument__"):
            value, release = value.__haulage_argument__(self.stream, self.why)
            self._releases.append(release)
        elif foreign.is_foreign(value):
            value = foreign.as_argument(value, self.stream)
        if isinstance(value, np.ndarray) or is_record(value):
            return value if self._stays(value) else self._copied(value)
        if isinstance(value, DeviceNDArrayBase) and not reaches(self.stream.device, value):
            raise DeviceMismatch(f"{self.why}: {value!r} cannot be used in {self.stream!r}")
        return value

    def _hinted(self, hint: ArgHint) -> Any:
        value = hint.value
        if hasattr(value, "__haulage_acquire__") and not isinstance(hint, InOut):
            self._movers.append(value)
            self._has_hints = True
            return hint
        # Mapped and managed arrays and the like need no copies.
        moves_itself = _moves_itself(value)
        if isinstance(hint, InOut) or moves_itself or not isinstance(value, (np.ndarray, np.void)):
            return self._placed(value)
        if isinstance(hint, In):
            return self._uploaded(self._room_for(value, device_array_for), value)
        return value if self._stays(value) else self._copied(value, upload=False)

    def _stays(self, host: np.ndarray | np.void) -> bool:
        return in_place(self.stream.device) and (host.flags.aligned or not self.aligned)

    def _copied(self, host: np.ndarray | np.void, upload: bool = True) -> DeviceNDArrayBase:
        array = self._room_for(host, mirror_array_for)
        if upload:
            self._uploaded(array, host)
        if host.flags.writeable:
            self._copies_back.append(partial(self._copy_back, array, host, self._at))
        else:
            array._protect()
        return array

    def _uploaded(self, array: DeviceNDArrayBase, host: np.ndarray | np.void) -> DeviceNDArrayBase:
        with self._noted(self._at):
            array.copy_to_device(host, self.stream)
        return array

    def _copy_back(
        self, array: DeviceNDArrayBase, host: np.ndarray | np.void, at: tuple[int, ...]
    ) -> None:
        with self._noted(at):
            array.copy_to_host(host, self.stream)

    def _noted(self, at: tuple[int, ...]) -> AbstractContextManager[None]:
        """For copies of the argument that is there."""
        if not observing.watchers:
            return _UNNOTED
        name = ""
        if at[0] < len(self._names):
            name = "".join([self._names[at[0]], *(f"[{number}]" for number in at[1:])])
        return observing.copying(observing.Argument(self.why, self._kernel, name, at))

    def _room_for(
        self, host: np.ndarray | np.void, make: Callable[..., DeviceNDArray]
    ) -> DeviceNDArrayBase:
        if self.stream.handle in self.stream.device.capturing:
            raise CaptureError(
                f"{self.why}: a host array is copied by the launch, which waits for that, so a "
                "graph cannot have it; give it arrays of the device, mapped or managed ones"
            )
        if isinstance(host, np.void):
            return DeviceRecord(host.dtype, self.stream, device=self.stream.device)
        return make(host, self.stream, self.stream.device)


def _parts(values: tuple[Any, ...]) -> Iterator[Any]:
    """Values, with those in tuples instead of these."""
    for value in values:
        if isinstance(value, tuple):
            yield from _parts(value)
        else:
            yield value


def _without_hints(values: tuple[Any, ...]) -> tuple[Any, ...]:
    bare = [value.value if isinstance(value, ArgHint) else value for value in values]
    return tuple([_without_hints(each) if isinstance(each, tuple) else each for each in bare])


def _is_alone(value: Any, given: tuple[Any, ...]) -> bool:
    """Whether of the arguments of a launch only `value` has its memory."""
    return sum(value._shares(other) for other in _parts(given)) == 1


def mode_of(use: Any) -> str:
    """What a kernel does with an argument that moves itself, as `__haulage_acquire__` takes it;
    `use` is its `compiler.access.model.Access`, None for unknown."""
    return "rw" if use is None or use.writes else str(use.mode)


def call_all(actions: Sequence[Callable[..., object]], *args: Any) -> None:
    """Call each of `actions`; the first error of them is raised when all have been called."""
    errors = []
    for action in actions:
        try:
            action(*args)
        except HaulageError as error:
            errors.append(error)
    if errors:
        raise errors[0]
