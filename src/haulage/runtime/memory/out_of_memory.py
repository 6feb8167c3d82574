"""What is done when a device has no room, step by step, the cheapest first."""

import gc
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

from haulage.backends.base import DEVICE, MANAGED
from haulage.errors import OutOfMemory
from haulage.runtime.devices import pending
from haulage.runtime.devices.device import Device
from haulage.runtime.memory import limits, reports
from haulage.runtime.memory.heap import UNLIMITED, Busy, heaps
from haulage.runtime.process import finalize, runtime

T = TypeVar("T")

Callback = Callable[[Device, int], object]

# A callback that always says it has freed something is believed so many times.
_PATIENCE = 16


class Registration:
    """What `on_out_of_memory` gives: `remove()`, or the end of a `with`, takes the callback out."""

    def __init__(self, callback: Callback) -> None:
        self.callback = callback

    def remove(self) -> None:
        """Do not call it any more."""
        if self in _registered:
            _registered.remove(self)

    def __enter__(self) -> "Registration":
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


_registered: list[Registration] = []


def on_out_of_memory(callback: Callback) -> Registration:
    """Let `callback(device, nbytes)` free memory when a device has none left for `nbytes` bytes.

    It is called after all that Haulage can do itself, in the thread that allocates, and the
    allocation is tried once more. While it gives something true and that was not enough it is
    called again, 16 times at most; what it raises comes out of the allocation. Of several the one
    that was added first is asked first. For memory that a callback asks for itself none is called.

    Raises:
        TypeError: it cannot be called, or not with two arguments.
    """
    if not (callable(callback) and _takes_two(callback)):
        raise TypeError(f"on_out_of_memory({callback!r}): expected a function of (device, nbytes)")
    registration = Registration(callback)
    _registered.append(registration)
    return registration


def _takes_two(callback: Callback) -> bool:
    """Whether it can be called with a device and a number, as far as it tells."""
    try:
        signature = inspect.signature(callback)
    except (TypeError, ValueError):
        # It is written in C and does not tell.
        return True
    try:
        signature.bind(None, 0)
    except TypeError:
        return False
    return True


_here = threading.local()


def climb(
    device: Device, nbytes: int, kind: str, attempt: Callable[[], T], at_once: bool = False
) -> T:
    """`attempt()`, again after each step that may have made room.

    `at_once` is for memory that Haulage does not give itself: what it can free of its own is all
    done before the first attempt.

    Raises:
        OutOfMemory: no step made room for it; says who holds the memory.
        KernelError: a kernel that was waited for had failed.
    """
    is_first = not getattr(_here, "climbs", False)
    _here.climbs = True
    try:
        for _ in _steps(device, nbytes, kind, at_once, is_first):
            try:
                return attempt()
            except OutOfMemory as refused:
                error = OutOfMemory(str(refused))  # without the frames, one of which is this
    finally:
        if is_first:
            _here.climbs = False
    raise reports.described(error, device, nbytes, kind)


def on_host(make: Callable[..., T], *args: Any) -> T:
    """`make(*args)`, which takes memory of the host that is no device's; once more where there is
    none, when what devices have free of the host's memory went back.

    Raises:
        MemoryError: there is none left.
    """
    try:
        return make(*args)
    except MemoryError:
        released = 0
        for heap in tuple(heaps.values()):
            if heap.decay is not None:
                with suppress(Busy):
                    released += heap.trim()
        if not released:
            raise
    return make(*args)


def _steps(
    device: Device, nbytes: int, kind: str, at_once: bool, is_first: bool
) -> Iterator[object]:
    """Makes a step, and then yields, for a new attempt."""
    for step in (_reap, _trim, _wait):
        step(device)
        if not at_once:
            yield step
    _collect(device)
    yield _collect
    if not is_first:
        return  # what one of the steps below asks for
    if _can_move(device, nbytes, kind):
        for hooks in (runtime.current.evict, runtime.current.spill):
            # In pieces that are too small for it there may be as much: so all in the end.
            for enough in (nbytes, UNLIMITED):
                if sum(hook(device, nbytes, enough) for hook in tuple(hooks)):
                    _settle(device)
                    yield hooks
    for registration in tuple(_registered):
        for _ in range(_PATIENCE):
            goes_on = registration.callback(device, nbytes)
            _settle(device)
            yield registration
            if not goes_on:
                break


def _can_move(device: Device, nbytes: int, kind: str) -> bool:
    """Whether room may come of memory that moves away from the device."""
    properties = device.properties
    on_device = kind in (DEVICE, MANAGED) or properties.host_memory_is_device_memory
    most = limits.limit_of(device) if kind in (DEVICE, MANAGED) else None
    return on_device and nbytes <= (properties.total_memory if most is None else most)


def _reap(device: Device) -> None:
    pending.reap()


def _trim(device: Device) -> None:
    """All that is free, of whatever kind: memory of the host may be one."""
    for heap in tuple(heaps.values()):
        if heap.device is device:
            try:
                heap.trim()
            except Busy:
                continue


def _wait(device: Device) -> None:
    finalize.drain()
    if not device.capturing:
        device.finish()
    pending.wait(device)
    _trim(device)


def _collect(device: Device) -> None:
    gc.collect()
    _settle(device)


def _settle(device: Device) -> None:
    finalize.drain(deferred=True)
    pending.wait(device)
    _trim(device)
