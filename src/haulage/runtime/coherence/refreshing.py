"""Views of the host that are out of date are brought up to date when the program waits.

That is where a program that has waited for a kernel expects to see what it wrote.
"""

import threading
import weakref
from typing import Any

from haulage import forks
from haulage.errors import HaulageError
from haulage.runtime import stream as streams
from haulage.runtime.device import Device
from haulage.runtime.stream import Stream

_lock = threading.Lock()
# Who has waited finds views up to date, also those that another thread is about to bring.
_one_at_a_time = threading.RLock()
# The devices that have written to them.
_storages: "weakref.WeakKeyDictionary[Any, set[Device]]" = weakref.WeakKeyDictionary()


def expect(storage: Any, device: Device) -> None:
    """`storage.refresh(device, why)` is to be called when the program has waited for the device, or
    for the streams that wrote there."""
    with _lock:
        _storages.setdefault(storage, set()).add(device)
        if _refresh not in streams.after_wait:
            streams.after_wait.append(_refresh)


def _refresh(device: Device, stream: Stream | None) -> None:
    errors = []
    with _one_at_a_time:
        with _lock:
            known = [storage for storage, written in _storages.items() if device in written]
        for storage in known:
            others = [] if stream is None else [w for w in storage.writers(device) if w != stream]
            if all(other.idle() for other in others):
                with _lock:
                    _storages[storage].discard(device)
                    if not _storages[storage]:
                        del _storages[storage]
                try:
                    if not storage.refresh(device, "synchronize()"):
                        # At the next wait.
                        expect(storage, device)
                except HaulageError as error:
                    errors.append(error)
        with _lock:
            if not _storages:
                streams.after_wait.clear()
    if errors:
        raise errors[0]


def _start_anew() -> None:
    global _lock, _one_at_a_time
    _lock = threading.Lock()
    _one_at_a_time = threading.RLock()


forks.in_child(_start_anew)
