"""A device: what it is, how much it can take, its streams and their captures."""

import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from haulage._core.memory import DeviceBase
from haulage._core.waits import device_done
from haulage.backends.base import Backend, Properties
from haulage.errors import DeviceError, DeviceNotFound
from haulage.forks import cached_property
from haulage.runtime.devices import faults
from haulage.runtime.devices.capture import (
    check_can_wait,
    check_none_captured,
    mark_of_handle,
)
from haulage.runtime.process import runtime

if TYPE_CHECKING:
    from haulage.runtime.context import Context
    from haulage.runtime.devices.graph import Graph
    from haulage.runtime.devices.registry import Protocols
    from haulage.runtime.devices.stream import Stream


class Handle(int):
    """An address or a handle: an int that gives itself as `value` too.

    In numba.cuda these are integers of ctypes, so its programs read `stream.handle.value` and
    `memory.device_pointer.value`.
    """

    __slots__ = ()

    @property
    def value(self) -> int:
        """The number itself."""
        return int(self)


def number_of(given: Any) -> int:
    """An address or a handle that was given as an int or as a ctypes integer; none is 0."""
    number = getattr(given, "value", given)
    if number is None:
        return 0
    try:
        if isinstance(number, (str, bytes, bytearray, float)):
            raise TypeError
        return int(number)
    except Exception:
        raise TypeError(
            f"{given!r}: expected an address or a handle, as an int or an integer of ctypes"
        ) from None


class DeviceName(str):
    """A device's name. numba.cuda gives bytes here, which its programs decode: so can this be."""

    __slots__ = ()

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The name itself."""
        return str(self)


class Device(DeviceBase):
    """One device. There is one object per device, so `is` compares them.

    `kind` is 'cpu', 'nvidia' or 'amd'; `id` counts from 0 within a kind.
    """

    def __init__(self, kind: str, backend: Backend, id: int) -> None:
        self.kind = kind
        self.backend = backend
        self.id = id
        self._text = f"{kind}:{id}"
        # By the handle of each stream that is recorded at present; see `runtime.devices.capture`.
        self.capturing = {}
        # What `Stream.begin_capture` began, by the stream's handle.
        self.begun_graphs: dict[int, Graph] = {}
        # The streams that Haulage made and that are still alive, by their handles.
        self.streams: weakref.WeakValueDictionary[int, Stream] = weakref.WeakValueDictionary()
        # Those of the same driver whose memory its kernels reach; see `Context.enable_peer_access`.
        self.peers: set[int] = set()
        # What programs keep for its context, by keys of theirs.
        self.extras: dict[Any, Any] = {}
        self.queues = backend.queues
        self.default_stream = runtime.current.new_default_stream(self)
        host_checker = runtime.current.host_checker
        if host_checker is not None:
            host_checker.found(self)

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
    def protocols(self) -> "Protocols":
        """What other packages call its memory and its streams."""
        return runtime.current.drivers[self.kind].protocols

    @cached_property
    def checks_kernels(self) -> bool:
        """Whether kernels can be checked on it, and stop in a debugger."""
        return runtime.current.drivers[self.code_for[0]].checks_kernels

    @cached_property
    def refusal(self) -> str:
        """Why no kernel can run on it; nothing if they can."""
        try:
            return runtime.current.drivers[self.kind].refusal(self.properties.architecture)
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
        for device in runtime.current.devices():
            if device.get_device_identity() == dict(identity):
                return device
        present = ", ".join(str(device) for device in runtime.current.devices())
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
        return runtime.current.context_of(self)

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
        if device_done(self):
            return
        self.finish()
        runtime.current.waited(self)

    def finish(self) -> None:
        """`synchronize` for Haulage's own needs, as that of `Stream`."""
        if self.capturing:
            check_can_wait(self)
            self._finish_uncaptured()
            return
        backend = self.backend
        backend.activate(self.id)
        faults.waited(backend.synchronize)

    def _finish_uncaptured(self) -> None:
        """Wait for all work but what is captured; drivers refuse to wait for a device then.

        Raises:
            KernelError: threads of a kernel had failed, the first of them; all is waited for.
        """
        backend, errors = self.backend, []

        def wait(call: Callable[[int], object], handle: int) -> None:
            try:
                faults.waited(call, handle)
            except Exception as error:  # whatever the kernel's threads failed with
                errors.append(error)

        self.activate()
        for handle, _ in tuple(self.streams.items()):
            if handle not in self.capturing:
                wait(backend.stream_synchronize, handle)
        # What the default stream waits for, be its owner gone, is done before this event.
        mark = mark_of_handle(self, 0)
        event = mark or backend.event_create(False)
        try:
            if not mark:
                backend.event_record(event, 0)
            wait(backend.event_synchronize, event)
        finally:
            if not mark:
                backend.event_destroy(event)
        if errors:
            raise errors[0]

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
            for release in runtime.current.at_reset:
                release(self)

    def __enter__(self) -> "Device":
        """`with device:` makes it the current device, as `with haulage.use(device):` does."""
        runtime.current.enter(self)
        return self

    def __exit__(self, *exception: Any) -> None:
        runtime.current.leave()

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


def check_device(given: Any, what: str) -> None:
    """TypeError unless `given` is a `Device`."""
    if not isinstance(given, Device):
        raise TypeError(f"{what}: device {given!r}: expected a Device, as get_current_device()")
