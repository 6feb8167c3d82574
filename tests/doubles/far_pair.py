"""Two far devices of one driver, which insists on what CUDA's and HIP's leave to the program.

Each thread has one active device, at first none. A call acts on that, and takes only streams,
events and functions of it. Who makes a device active must still be at it when the call comes: what
was active when a function began, or was made so by one that has returned, is not to be relied on,
as a finaliser, or a library that shares the driver, may have made another one active since. (Tests
that call the driver themselves may.) Callbacks of streams take no calls at all, as CUDA's.
"""

import functools
import inspect
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from doubles.far import FAR, KIND, TOTAL, FarBackend, Ranges
from haulage.backends.base import DEVICE, MANAGED, PORTABLE, Backend, Probe, Properties
from haulage.backends.cpu_driver import copies
from haulage.errors import DeviceError
from haulage.runtime.devices.device import Device

_HANDLES = {"stream": "stream", "event": "event", "start": "event", "end": "event"}
_GIVES_HANDLE = {"stream_create": "stream", "event_create": "event"}
_ANYWHERE = {"granularity", "can_access_peer", "peer_enable", "adversary"}


class _Active(threading.local):
    in_callback = False
    device: int | None = None
    by: tuple[int, Any] = (0, None)  # the frame, which is not held


class FarPair(Backend):
    """The driver of both."""

    name = KIND

    def __init__(self, total: int = TOTAL) -> None:
        self._inner = [FarBackend(total, FAR + (number << 48)) for number in range(2)]
        self._active = _Active()
        self._owners: dict[tuple[str, int], int] = {}  # of functions and modules
        self._portable: dict[int, list[FarBackend]] = {}
        self._reached_by_both = Ranges()

    @classmethod
    def probe(cls) -> Probe:
        """They are always there."""
        return FarBackend.probe()

    def count(self) -> int:
        """Two."""
        return len(self._inner)

    def properties(self, device: int) -> Properties:
        """Those of a far device."""
        return self._inner[device].properties(0)

    def activate(self, device: int) -> None:
        """Make it the thread's active device, as long as the caller is at it."""
        if device not in range(len(self._inner)):
            raise DeviceError(f"far:{device}: there are {len(self._inner)}")
        frame = sys._getframe(1)
        if frame.f_code is Device.activate.__code__:
            frame = frame.f_back
        self._active.device = device
        self._active.by = id(frame), frame.f_code

    def messages(self, sign: int) -> tuple[list[tuple[int, bytes]], int]:
        """What kernels of both have told."""
        return self._inner[0].messages(sign)

    def unraised(self) -> list[BaseException]:
        """What failed on both."""
        return [error for inner in self._inner for error in inner.unraised()]

    def alloc(self, nbytes: int, kind: str, flags: int = 0) -> tuple[int, int]:
        """Memory of the active device; pinned for both of them if it is portable, and then, or if
        it is managed, in the reach of kernels of both."""
        here = self._here()
        device_ptr, host_ptr = here.alloc(nbytes, kind, flags)
        if kind == MANAGED or (kind != DEVICE and flags & PORTABLE):
            self._reached_by_both.add(device_ptr, nbytes)
        if kind != DEVICE and flags & PORTABLE:
            others = [inner for inner in self._inner if inner is not here]
            for other in others:
                other._pinned.add(host_ptr, nbytes)
            self._portable[host_ptr] = others
        return device_ptr, host_ptr

    def free(self, device_ptr: int, host_ptr: int, kind: str) -> None:
        """Give memory back."""
        self._here().free(device_ptr, host_ptr, kind)
        self._reached_by_both.remove(device_ptr)
        for other in self._portable.pop(host_ptr, ()):
            other._pinned.remove(host_ptr)

    def copy(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        """Copy bytes, of the other device's memory too."""
        here, inner = self._here(), self._decoded("stream", stream)
        of = next((each for each in self._inner if src >> 48 == each._far >> 48), here)
        if of is here:
            here.copy(dst, src, nbytes, inner)
        else:
            to, waits = here._real(dst, dst + nbytes)
            here._submit(inner, waits, copies.copy, to, of._real(src, src + nbytes)[0], nbytes)

    def stream_wait_event(self, stream: int, event: int) -> None:
        """Order a stream after an event, which may be one of the other device."""
        here = self._here()
        inner, of = self._decoded("stream", stream), self._inner[event % 16 - 1]
        if of is here:
            here.stream_wait_event(inner, event // 16)
            return
        record = of._events.find(event // 16).record
        if record is not None and not record.done:
            here._streams.submit(inner, of._streams.wait, (record,))

    def stream_callback(self, stream: int, callback: Any) -> None:
        """Call a function, in which the driver takes no calls."""
        here = self._here()

        def called() -> None:
            self._active.in_callback = True
            try:
                callback()
            finally:
                self._active.in_callback = False

        here.stream_callback(self._decoded("stream", stream), called)

    def prepare_launch(self, device: int, *args: Any) -> tuple[bytes, Callable[[int, bytes], None]]:
        """The header of a far device; what starts it makes the device active by itself."""
        self._check("function", args[0], device)
        header, start = self._inner[device].prepare_launch(0, *args)

        def launch(stream: int, data: bytes) -> None:
            self.activate(device)
            start(self._decoded("stream", stream), self._in_reach(device, data))

        return header, launch

    def launch(self, function: int, *rest: Any) -> None:
        """Run a kernel, whose arguments may be in memory that both devices reach."""
        self._here().launch(function, *self._launched(function, *rest))

    def launch_cooperative(self, function: int, *rest: Any) -> None:
        """As `launch`."""
        self._here().launch_cooperative(function, *self._launched(function, *rest))

    def _launched(self, function: int, *rest: Any) -> tuple[Any, ...]:
        *sizes, stream, args = rest
        device = self._active.device
        assert device is not None
        self._check("function", function, device)
        return *sizes, self._decoded("stream", stream), self._in_reach(device, args)

    def _in_reach(self, device: int, args: bytes) -> bytes:
        """An argument block with real addresses for those of the other device that both reach."""
        far = self._inner[1 - device]._far
        words = np.frombuffer(args[: len(args) & -8], np.uint64).copy()
        for at in np.flatnonzero(words >> np.uint64(48) == far >> 48):
            address = int(words[at])
            if not self._reached_by_both.cover(address, address + 1):
                raise AssertionError(f"far:{device} does not reach {address:#x}")
            words[at] = address - far
        return words.tobytes() + args[len(args) & -8 :]

    def _here(self) -> FarBackend:
        if self._active.in_callback:
            raise AssertionError("the driver takes no calls in a callback")
        device, (name, code) = self._active.device, self._active.by
        if device is None:
            raise AssertionError("no device was made active in this thread")
        frame = sys._getframe(1)
        while frame.f_code.co_filename == __file__:
            frame = frame.f_back
        if "haulage" not in frame.f_globals.get("__name__", ""):
            return self._inner[device]  # a test, which asks the driver itself
        while frame is not None:
            if id(frame) == name and frame.f_code is code:
                return self._inner[device]
            frame = frame.f_back
        raise AssertionError(f"the device was made active by {code.co_qualname}, which is over")

    def _decoded(self, kind: str, handle: int) -> int:
        if handle == 0 and kind == "stream":
            return 0
        if handle % 16 - 1 != self._active.device:
            raise AssertionError(f"{kind} {handle:#x} is not of far:{self._active.device}")
        return handle // 16

    def _check(self, kind: str, handle: int, device: int | None) -> None:
        if self._owners[kind, handle] != device:
            raise AssertionError(f"{kind} {handle:#x} is not of far:{device}")

    def written(self, address: int, data: Any) -> None:
        """Write to memory of a device behind everybody's back."""
        self._inner[(address - FAR) >> 48].written(address, data)


def _passed_on(name: str) -> Callable[..., Any]:
    parameters = list(inspect.signature(getattr(Backend, name)).parameters)[1:]

    def call(self: FarPair, *args: Any) -> Any:
        here = self._inner[0] if name in _ANYWHERE else self._here()
        given = []
        for parameter, value in zip(parameters, args, strict=False):
            if parameter in _HANDLES:
                value = self._decoded(_HANDLES[parameter], value)
            elif parameter in ("function", "module"):
                self._check(parameter, value, self._active.device)
            given.append(value)
        found = getattr(here, name)(*given)
        if name in _GIVES_HANDLE:
            assert self._active.device is not None
            return found * 16 + self._active.device + 1
        if name in ("load", "function"):
            self._owners["module" if name == "load" else "function", found] = self._active.device
        return found

    return call


for _name, _method in inspect.getmembers(Backend, inspect.isfunction):
    if not _name.startswith("_") and _name not in vars(FarPair):
        setattr(FarPair, _name, _passed_on(_name))
FarPair.__abstractmethods__ = frozenset()


@functools.cache
def far_pair() -> tuple[Device, Device]:
    """The two far devices of the process."""
    backend = FarPair()
    return Device(KIND, backend, 0), Device(KIND, backend, 1)
