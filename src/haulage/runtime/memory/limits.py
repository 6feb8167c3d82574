"""How much memory of a device may be in use."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from haulage import forks
from haulage._core.memory import conditions
from haulage.backends.base import DEVICE, MANAGED
from haulage.errors import OutOfMemory
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import current_device, find
from haulage.runtime.memory.heap import UNLIMITED, heaps

_limits: dict[Device, int] = {}

_LIMITED = (DEVICE, MANAGED)

# Held from the look at the limit until what was taken is counted, where there is a limit.
counting = forks.lock()

# What others than Haulage are asked for, till it is counted: (thread, device, bytes).
_claims: dict[object, tuple[int, Device, int]] = {}


def limit(bytes: int | None, device: str | Device | None = None) -> None:
    """Let arrays have at most so many bytes of a device's memory in use; None: as many as it has.

    It counts what arrays in device and managed memory have asked for. An allocation beyond it
    fails as if the device had no more, after all that would be tried then. What is in use already
    stays so.

    Args:
        bytes: the limit; None lifts it.
        device: whose memory, a `Device` or a name as in `haulage.use`; None: the current device's.

    Raises:
        TypeError, ValueError: `bytes` is no whole number, or negative.
        DeviceNotFound: there is no such device.
    """
    nbytes = bytes
    if nbytes is not None:
        if isinstance(nbytes, bool) or not hasattr(nbytes, "__index__"):
            raise TypeError(f"limit({nbytes!r}): expected a number of bytes, or None for no limit")
        nbytes = nbytes.__index__()
        if nbytes < 0:
            raise ValueError(f"limit({nbytes}): expected 0 bytes or more, or None for no limit")
    of = current_device() if device is None else find(device, "limit: device")
    if nbytes is None:
        _limits.pop(of, None)
    else:
        _limits[of] = nbytes
    conditions.limited = bool(_limits)


def limit_of(device: Device) -> int | None:
    """The limit of a device; None if there is none."""
    return _limits.get(device)


def room(device: Device, kind: str) -> int:
    """How many bytes more of a kind may come into use."""
    most = _limits.get(device)
    if most is None or kind not in _LIMITED:
        return UNLIMITED
    me = threading.get_ident()
    # Before the counters, as what was given is counted first and then claimed no more.
    asked = sum(
        nbytes for thread, of, nbytes in tuple(_claims.values()) if of is device and thread != me
    )
    in_use = sum(
        heap.counter.in_use
        for heap in tuple(heaps.values())
        if heap.device is device and heap.kind in _LIMITED
    )
    return most - in_use - asked


def check(device: Device, kind: str, nbytes: int) -> None:
    """See that `nbytes` more stay within the limit.

    Raises:
        OutOfMemory: they do not.
    """
    left = room(device, kind)
    if device in _limits and left < nbytes:
        raise OutOfMemory(
            f"{device} may have {_limits[device]:,} bytes in use by haulage.memory.limit(); "
            f"{max(left, 0):,} of them are left"
        )


@contextmanager
def claimed(device: Device, kind: str, nbytes: int) -> Iterator[None]:
    """Inside, `nbytes` more are in use for other threads: who may take long to give them is asked
    for them there, and what was given is counted.

    Raises:
        OutOfMemory: they are beyond the limit.
    """
    claim = object()
    if conditions.limited:
        with counting:
            check(device, kind, nbytes)
            if kind in _LIMITED:
                _claims[claim] = threading.get_ident(), device, nbytes
    try:
        yield
    finally:
        _claims.pop(claim, None)


def start_anew() -> None:
    """After a fork, in the child: threads that claimed something are not there any more."""
    _claims.clear()
