"""What is done when a device has no room, step by step, the cheapest first."""

import gc
from collections.abc import Callable
from typing import TypeVar

from haulage.errors import OutOfMemory
from haulage.runtime import finalize
from haulage.runtime.device import Device
from haulage.runtime.memory import holders, pending
from haulage.runtime.memory.heap import Busy, heaps

T = TypeVar("T")

# Called with a device and a number of bytes: give memory of it back that is not needed, such as
# copies of what is elsewhere too; how many bytes that was. Filled by those who hold such memory.
replicas: list[Callable[[Device, int], int]] = []

Callback = Callable[[Device, int], object]
_callbacks: list[Callback] = []

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

    It is called after all that Haulage can do itself, in the thread that allocates. If it gives
    something true the allocation is tried once more; what it raises comes out of the allocation.
    Of several the one that was added first is asked first.

    Raises:
        TypeError: it cannot be called.
    """
    if not callable(callback):
        raise TypeError(f"on_out_of_memory({callback!r}): expected a function of (device, nbytes)")
    registration = Registration(callback)
    _registered.append(registration)
    return registration


def climb(
    device: Device, nbytes: int, kind: str, attempt: Callable[[], T], at_once: bool = False
) -> T:
    """`attempt()`, again after each step that may have made room; `at_once` after all of them.

    Raises:
        OutOfMemory: no step made room for it; says who holds the memory.
    """
    steps: list[Callable[[], object]] = [
        pending.reap,
        lambda: _trim(device),
        lambda: _wait(device),
        lambda: _collect(device),
        lambda: _drop_replicas(device, nbytes),
    ]
    for number, step in enumerate(steps, 1):
        step()
        if at_once and number < len(steps):
            continue
        try:
            return attempt()
        except OutOfMemory as refused:
            error = OutOfMemory(str(refused))  # without the frames, one of which is this
    for registration in tuple(_registered):
        for _ in range(_PATIENCE):
            if not registration.callback(device, nbytes):
                break
            _trim(device)
            try:
                return attempt()
            except OutOfMemory as refused:
                error = OutOfMemory(str(refused))
    raise holders.described(error, device, nbytes, kind) from None


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
    pending.wait(device)
    device.synchronize()
    _trim(device)


def _collect(device: Device) -> None:
    gc.collect()
    finalize.drain(deferred=True)
    pending.wait(device)
    _trim(device)


def _drop_replicas(device: Device, nbytes: int) -> None:
    if sum(drop(device, nbytes) for drop in tuple(replicas)):
        pending.wait(device)
        _trim(device)
