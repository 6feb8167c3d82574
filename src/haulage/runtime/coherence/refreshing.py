"""Views of the host that are out of date are brought up to date when the program waits.

That is where a program that has waited for a kernel expects to see what it wrote.
"""

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from haulage import forks
from haulage.runtime import stream as streams
from haulage.runtime.device import Device
from haulage.runtime.stream import Stream

_lock = threading.Lock()
_storages: "weakref.WeakKeyDictionary[Any, Device]" = weakref.WeakKeyDictionary()


class _Thread(threading.local):
    busy = 0


_thread = _Thread()


@contextmanager
def put_off() -> Iterator[None]:
    """This thread's waits bring nothing up to date meanwhile: it may hold a storage's lock."""
    _thread.busy += 1
    try:
        yield
    finally:
        _thread.busy -= 1


def expect(storage: Any, device: Device) -> None:
    """`storage.refresh(why)` is to be called when the program has waited for the device, or for the
    streams that wrote there."""
    with _lock:
        _storages[storage] = device
        if _refresh not in streams.after_wait:
            streams.after_wait.append(_refresh)


def _refresh(device: Device, stream: Stream | None) -> None:
    if _thread.busy:
        return
    with _lock:
        known = list(_storages.items())
    for storage, written in known:
        others = [] if stream is None else [w for w in storage.writers(device) if w != stream]
        if written is device and all(other.idle() for other in others):
            with _lock:
                _storages.pop(storage, None)
            storage.refresh("synchronize()")
    with _lock:
        if not _storages:
            streams.after_wait.clear()


def _start_anew() -> None:
    global _lock
    _lock = threading.Lock()


forks.in_child(_start_anew)
