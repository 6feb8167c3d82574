"""The devices of this process, and which of them is meant where none is named."""

import atexit
import contextvars
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from haulage import config, forks
from haulage.backends.base import Backend, KernelStopped, Probe, Properties
from haulage.errors import DeviceError, DeviceNotFound, warn
from haulage.runtime import faults, printing
from haulage.runtime.capture import Capture, check_can_wait, check_none_captured
from haulage.runtime.stream import Stream, after_wait, wait_for_uncaptured

if TYPE_CHECKING:
    from haulage.runtime.context import Context


@dataclass(frozen=True)
class Driver:
    """A kind of device: how to look for its driver, and how to get its `Backend` if it has one.

    `refusal` says why no code can be made for an architecture, and nothing if it can.
    """

    kind: str
    probe: Callable[[], Probe]
    backend: Callable[[], Backend] | None
    refusal: Callable[[str], str] = lambda architecture: ""


class DeviceName(str):
    """A device's name. numba.cuda gives bytes here, which its programs decode: so can this be."""

    __slots__ = ()

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The name itself."""
        return str(self)


class Device:
    """One device. There is one object per device, so `is` compares them.

    `kind` is 'cpu', 'nvidia' or 'amd'; `id` counts from 0 within a kind.
    """

    def __init__(self, kind: str, backend: Backend, id: int) -> None:
        self.kind = kind
        self.backend = backend
        self.id = id
        self._text = f"{kind}:{id}"
        # By the handle of each stream that is recorded at present; see `runtime.capture`.
        self.capturing: dict[int, Capture] = {}
        # Those of the same driver whose memory its kernels reach; see `Context.enable_peer_access`.
        self.peers: set[int] = set()
        self.default_stream = Stream(self, 0, role="default")

    def reaches(self, other: "Device") -> bool:
        """Whether its kernels were let reach the memory of `other`; its own they do."""
        return other is self or (other.backend is self.backend and other.id in self.peers)

    @cached_property
    def properties(self) -> Properties:
        """What the device is and how much it can take."""
        return self.backend.properties(self.id)

    @cached_property
    def code_for(self) -> tuple[str, str]:
        """(kind, architecture): what code for it is made for."""
        return self.kind, self.properties.architecture

    @cached_property
    def refusal(self) -> str:
        """Why no kernel can run on it; nothing if they can."""
        try:
            return _drivers[self.kind].refusal(self.properties.architecture)
        except DeviceError as error:
            return str(error)

    @property
    def name(self) -> "DeviceName":
        """The maker's name for it."""
        return DeviceName(self.properties.name)

    @property
    def _device(self) -> "Device":
        # In numba the entries of `gpus` are not the devices themselves.
        return self

    @property
    def primary_context(self) -> "Context":
        """Its context."""
        return self.get_primary_context()

    def release_primary_context(self) -> None:
        """Nothing: its context is given back at the end of the process."""

    @property
    def compute_capability(self) -> tuple[int, int]:
        """(major, minor) level of the kernel words that it takes."""
        return self.properties.compute_capability

    @property
    def uuid(self) -> str:
        """A name that no other device has, the same in every process of the machine."""
        return self.properties.uuid

    @property
    def stream_priorities(self) -> tuple[int, int]:
        """(least, greatest) priority that streams can have; the greatest is the smallest number."""
        self.activate()
        return self.backend.stream_priorities()

    @property
    def supports_float16(self) -> bool:
        """Whether kernels on it can use float16."""
        return "float16" in self.properties.floats

    @property
    def supports_bfloat16(self) -> bool:
        """Whether kernels on it can use bfloat16."""
        return "bfloat16" in self.properties.floats

    @property
    def supports_fp8(self) -> bool:
        """Whether kernels on it can use floats of 8 bits."""
        return "fp8" in self.properties.floats

    def get_device_identity(self) -> dict[str, str]:
        """What `from_identity` takes, in this or another process of the machine."""
        return {"kind": self.kind, "uuid": self.uuid}

    @staticmethod
    def from_identity(identity: dict[str, str]) -> "Device":
        """The device whose `get_device_identity()` that was.

        Raises:
            DeviceNotFound: this process does not see it.
        """
        if not isinstance(identity, Mapping):
            raise TypeError(
                f"from_identity({identity!r}): expected what get_device_identity() gives"
            )
        for device in devices():
            if device.get_device_identity() == dict(identity):
                return device
        present = ", ".join(str(device) for device in devices())
        raise DeviceNotFound(f"device {identity!r} is not visible here; present: {present}")

    @property
    def wavefront_size(self) -> int:
        """Work-items of a wavefront in kernels of `roc`: 64 on every device."""
        return 64

    @property
    def wavebits(self) -> int:
        """The bits of the number of a lane in a wavefront of `roc`."""
        return 6

    @property
    def is_component(self) -> bool:
        """Whether kernels run on it, as numba.roc asks of an agent: they do."""
        return True

    def get_primary_context(self) -> "Context":
        """Its context; it is not made current by this."""
        from haulage.runtime.context import Context  # which knows devices

        return Context(self)

    def activate(self) -> None:
        """Make it the device that the calling thread's driver calls act on."""
        self.backend.activate(self.id)

    def synchronize(self) -> None:
        """Wait for all its work; while a stream of it is captured, for all that is not.

        Raises:
            KernelError: threads of a kernel had failed.
            CaptureError: a stream of it is captured, by any thread, in a mode that forbids this
                thread to wait; the mode is by default 'global', which forbids it to all.
        """
        self.finish()
        for call in tuple(after_wait):
            call(self, None)

    def finish(self) -> None:
        """`synchronize` for Haulage's own needs, as that of `Stream`."""
        if self.capturing:
            check_can_wait(self)
            wait_for_uncaptured(self)
            return
        backend = self.backend
        backend.activate(self.id)
        faults.waited(backend.synchronize)

    def memory_info(self) -> tuple[int, int]:
        """(free, total) bytes of its memory, now."""
        self.activate()
        return self.backend.memory_info()

    def reset(self) -> None:
        """Wait for all its work, then give the memory of all its arrays back, and close them.

        Streams, events and kernels stay good.

        Raises:
            KernelError: threads of a kernel had failed; the memory is given back all the same.
            CaptureError: a stream of it is being captured; nothing is given back.
        """
        if self.capturing:
            check_none_captured(self)
        try:
            self.synchronize()
        finally:
            for release in at_reset:
                release(self)

    def __enter__(self) -> "Device":
        """`with device:` makes it the current device, as `with haulage.use(device):` does."""
        enter(self)
        return self

    def __exit__(self, *exception: Any) -> None:
        leave()

    def __getattr__(self, name: str) -> int:
        # The driver's upper-case names for figures, as in `device.WARP_SIZE`.
        figure = _FIGURES.get(name)
        if figure is not None:
            return figure(self.properties)
        if not name.isupper():
            raise AttributeError(f"a device has no attribute {name!r}")
        if name not in self.properties.figures:
            raise AttributeError(
                f"{self} has no attribute {name!r}; dir(device) lists the figures that it tells"
            )
        return self.properties.figures[name]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_FIGURES, *self.properties.figures})

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<Device {self._text} '{self.name}'>"


_FIGURES: dict[str, Callable[[Properties], int]] = {
    "MULTIPROCESSOR_COUNT": lambda p: p.multiprocessors,
    "WARP_SIZE": lambda p: p.warp_size,
    "MAX_THREADS_PER_BLOCK": lambda p: p.max_threads_per_block,
    "MAX_BLOCK_DIM_X": lambda p: p.max_block[0],
    "MAX_BLOCK_DIM_Y": lambda p: p.max_block[1],
    "MAX_BLOCK_DIM_Z": lambda p: p.max_block[2],
    "MAX_GRID_DIM_X": lambda p: p.max_grid[0],
    "MAX_GRID_DIM_Y": lambda p: p.max_grid[1],
    "MAX_GRID_DIM_Z": lambda p: p.max_grid[2],
    "MAX_SHARED_MEMORY_PER_BLOCK": lambda p: p.max_static_shared,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": lambda p: p.max_dynamic_shared,
    "COMPUTE_CAPABILITY_MAJOR": lambda p: p.compute_capability[0],
    "COMPUTE_CAPABILITY_MINOR": lambda p: p.compute_capability[1],
}


# What `Device.reset` calls; filled by `haulage.runtime.memory`, which knows the blocks.
at_reset: list[Callable[[Device], object]] = []


# ---- the registry -----------------------------------------------------------------------------

# In order of preference; filled by `haulage.platforms`, which alone knows drivers by name.
_drivers: dict[str, Driver] = {}
_found: dict[str, tuple[Device, ...]] = {}
# What was told the first time: a library that is in the process later is found without a search.
_probes: dict[str, Probe] = {}
_lock = threading.RLock()
forks.held(lambda: _lock)


def register(driver: Driver) -> None:
    """Add a kind of device; those that are registered first are preferred."""
    with _lock:
        _drivers[driver.kind] = driver
        _found.pop(driver.kind, None)
        _probes.pop(driver.kind, None)


def probe_of(kind: str) -> Probe:
    """What looking for the driver of a kind of device gave; looked for once."""
    with _lock:
        if kind not in _probes:
            _probes[kind] = _drivers[kind].probe()
        return _probes[kind]


def devices_of(kind: str) -> tuple[Device, ...]:
    """The devices of one kind that are present; looked for once."""
    found = _found.get(kind)
    if found is None:
        with _lock:
            found = _found.get(kind)
            if found is None:
                found = _look_for(_drivers[kind])
                _found[kind] = found
    return found


def _look_for(driver: Driver) -> tuple[Device, ...]:
    if config.cuda_is_disabled() or driver.backend is None:
        return ()
    if not probe_of(driver.kind).available:
        return ()
    backend = driver.backend()
    return tuple(Device(driver.kind, backend, number) for number in range(backend.count()))


def devices() -> list[Device]:
    """All devices that are present, the preferred ones first."""
    return [device for kind in tuple(_drivers) for device in devices_of(kind)]


def check_device(given: Any, what: str) -> None:
    """TypeError unless `given` is a `Device`."""
    if not isinstance(given, Device):
        raise TypeError(f"{what}: device {given!r}: expected a Device, as get_current_device()")


# Of the number of a device.
_MOST_DIGITS = 9


def find(choice: str | Device, source: str = "") -> Device:
    """The device that is named explicitly: 'cpu', 'nvidia:1' or a `Device`.

    Args:
        choice: a kind (its device 0 is meant), or kind and number with a colon between.
        source: where the choice was made, for the message.

    Raises:
        DeviceNotFound: it is not there; says what was looked for and what the driver answered.
    """
    if isinstance(choice, Device):
        return choice
    if not isinstance(choice, str):
        raise TypeError(f"device {choice!r}: expected a name such as 'cpu' or 'nvidia:1'")
    asked = f"{source or 'device'} {choice!r}"
    kind, colon, number = choice.strip().lower().partition(":")
    known = ", ".join(_drivers)
    is_number = number.isascii() and number.isdigit() and len(number) <= _MOST_DIGITS
    if kind not in _drivers or (colon and not is_number):
        raise DeviceNotFound(
            f"{asked}: expected one of {known}, or a name and number as in 'cpu:0'"
        )
    present = devices_of(kind)
    if not present:
        _refuse_where_disabled(asked)
        probe = probe_of(kind)
        looked_for = ", ".join(probe.looked_for) or "nothing"
        raise DeviceNotFound(f"{asked}: not found; looked for {looked_for}: {probe.answer}")
    if int(number or 0) >= len(present):
        there = ", ".join(str(device) for device in present)
        raise DeviceNotFound(f"{asked}: the {kind} driver has {len(present)} device(s): {there}")
    return present[int(number or 0)]


def _tell_unraised() -> None:
    """At exit: show what was printed, and name the failures, that nobody has waited for."""
    printing.flush()
    for found in tuple(_found.values()):
        for backend in {id(device.backend): device.backend for device in found}.values():
            for error in backend.unraised():
                told = faults.translate(error) if isinstance(error, KernelStopped) else error
                print(
                    f"haulage: nothing waited for work that failed: {type(told).__name__}: {told}",
                    file=sys.stderr,
                )


atexit.register(_tell_unraised)


# ---- the choice -------------------------------------------------------------------------------

_in_context: contextvars.ContextVar[Device | None] = contextvars.ContextVar(
    "haulage_device", default=None
)
# What to go back to at the end of each `with` that is entered.
_before: contextvars.ContextVar[tuple[Device | None, ...]] = contextvars.ContextVar(
    "haulage_devices_before", default=()
)
# The device that `select` chose, and the choice for the process at that time.
_selected: contextvars.ContextVar[tuple[Device, object] | None] = contextvars.ContextVar(
    "haulage_selected", default=None
)
_of_process: Device | None = None
_process_choice: object = None  # the `use` that chose it
_best: Device | None = None


def current_device() -> Device:
    """The device that is meant where none is named.

    That is the one of an enclosing `with use(...)`, else that of the thread's `select` or of the
    last `use(...)`, whichever came later, else `HAULAGE_DEVICE`, else the best one present.

    Raises:
        DeviceNotFound: `HAULAGE_DEVICE` names a device that is not there.
    """
    chosen = _in_context.get()
    if chosen is not None:
        return chosen
    selected = _selected.get()
    if selected is not None and selected[1] is _process_choice:
        return selected[0]
    if _of_process is not None:
        return _of_process
    named = config.device_choice()
    if named:
        return _of_environment(named)
    return _best or _best_present()


# What `HAULAGE_DEVICE` was the last time, the devices of that kind, and the one it named.
_named: tuple[str, tuple[Device, ...], Device] | None = None


def _of_environment(named: str) -> Device:
    global _named
    known = _named
    if known is not None and known[0] == named and _found.get(known[2].kind) is known[1]:
        return known[2]
    device = find(named, "HAULAGE_DEVICE")
    _named = named, devices_of(device.kind), device
    return device


def why_current() -> str:
    """In words: why `current_device()` is the one that it is."""
    if _in_context.get() is not None:
        return "chosen by an enclosing 'with haulage.use(...)'"
    selected = _selected.get()
    if selected is not None and selected[1] is _process_choice:
        return "chosen by select_device(...)"
    if _of_process is not None:
        return "chosen by haulage.use(...)"
    named = config.device_choice()
    if named:
        return f"chosen by HAULAGE_DEVICE={named}"
    return "the best device present"


def _best_present() -> Device:
    global _best
    if _best is None:
        for kind in tuple(_drivers):
            present = devices_of(kind)
            _best = next((each for each in present if not each.refusal), None)
            if _best is not None:
                break
            told = [f"{each} is not used: {each.refusal}" for each in present]
            if kind in _probes and _probes[kind].advice:
                told.append(_probes[kind].advice)
            for advice in told:
                warn(advice)
        else:
            _refuse_where_disabled("no device is present")
            raise DeviceNotFound(f"no device is present; looked for {', '.join(_drivers)}")
    return _best


def _refuse_where_disabled(what: str) -> None:
    if config.cuda_is_disabled():
        raise DeviceNotFound(
            f"{what}: CUDA is disabled due to setting NUMBA_DISABLE_CUDA=1 in the environment; "
            "unset it to use a device"
        )


def select(device: Device) -> None:
    """Make `device` the current one of this thread (or task), until a later choice.

    Inside a `with` that chooses a device it holds to the end of that.
    """
    if _before.get():
        _in_context.set(device)
    else:
        _selected.set((device, _process_choice))


def enter(device: Device) -> None:
    """Make `device` the current one of this thread (or task) until `leave`."""
    _before.set((*_before.get(), _in_context.get()))
    _in_context.set(device)


def leave() -> Device:
    """Undo the last `enter`; gives the device that was current.

    Raises:
        RuntimeError: there was none in this thread (or task).
    """
    before = _before.get()
    if not before:
        raise RuntimeError("no device was made current here that could be left; push it first")
    current = current_device()
    _before.set(before[:-1])
    _in_context.set(before[-1])
    return current


class use:
    """Choose the device: `use("cpu")` for the process, `with use("cpu"):` for a context.

    As a context manager it holds for the thread or task inside the `with` only, and the choice for
    the process is again what it was before. `with` gives the `Device`.

    Args:
        choice: 'cpu', 'nvidia', 'amd', one of these with a number as in 'nvidia:1', or a `Device`.

    Raises:
        DeviceNotFound: that device is not there; says what was looked for, and the answer.
    """

    def __init__(self, choice: str | Device) -> None:
        global _of_process, _process_choice
        self.device = find(choice)
        self._before = _of_process
        _of_process, _process_choice = self.device, self

    def __enter__(self) -> Device:
        global _of_process, _process_choice
        if _process_choice is self:
            _of_process, _process_choice = self._before, None
        enter(self.device)
        return self.device

    def __exit__(self, *exception: Any) -> None:
        leave()

    def __repr__(self) -> str:
        return f"<haulage.use {self.device}>"
