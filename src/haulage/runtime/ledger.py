"""How much memory is held, by device and kind: counters that are always on."""

import threading
from dataclasses import dataclass


@dataclass(frozen=True)
class Usage:
    """Memory of one kind on one device: bytes now, most bytes ever, and allocations so far."""

    in_use: int
    peak: int
    allocations: int


_lock = threading.Lock()
# device -> kind -> [bytes in use, peak, allocations]
_counters: dict[str, dict[str, list[int]]] = {}


def allocated(device: str, kind: str, nbytes: int) -> None:
    """Note that a driver has given out `nbytes`."""
    with _lock:
        counter = _counters.setdefault(device, {}).setdefault(kind, [0, 0, 0])
        counter[0] += nbytes
        counter[1] = max(counter[0], counter[1])
        counter[2] += 1


def freed(device: str, kind: str, nbytes: int) -> None:
    """Note that a driver has taken `nbytes` back."""
    with _lock:
        _counters[device][kind][0] -= nbytes


def usage() -> dict[str, dict[str, Usage]]:
    """What is held now: device (such as 'cpu:0') -> kind of memory -> `Usage`."""
    with _lock:
        return {
            device: {kind: Usage(*counter) for kind, counter in kinds.items()}
            for device, kinds in _counters.items()
        }
