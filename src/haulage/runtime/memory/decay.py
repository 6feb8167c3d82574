"""Free memory of the host that was not used for a second goes back to the system by itself.

What is used again within a second stays, so that arrays which come and go take no new pages; and so
does a share of what is in use. jemalloc calls this decay. One thread sees to it for all devices
whose memory is the host's; it is there only while something is to go back.
"""

import _thread
import time
from typing import TYPE_CHECKING

from haulage._core.memory import conditions
from haulage.runtime.devices import pending
from haulage.runtime.memory import classes

if TYPE_CHECKING:
    from haulage.runtime.devices.device import Device
    from haulage.runtime.memory.heap import Heap

# Seconds for which free memory stays.
PERIOD = 1.0
# What stays all the same: so many bytes, or this part of what is in use, if that is more.
LEAST_KEPT, KEPT_SHARE = 32 << 20, 8
# Bytes that go back at once, while other threads that allocate wait.
_PIECE = 64 << 20

# Tests set another one.
clock = time.monotonic


class Decay:
    """What of one heap was not used in this half of a period, nor in the one before.

    The least bytes that the arena had free in this half are the heap's `lowest`.
    """

    __slots__ = ("_allocations", "_before", "_begun", "_heap", "_left")

    def __init__(self, heap: "Heap") -> None:
        self._heap = heap
        # What could not go back, as a piece of it is in use: looked at again once that has changed.
        self._left: tuple[int, int] | None = None
        # Of the half before: what was free throughout, and the allocations until its begin.
        self._before = (0, 0)
        self._begin()

    def freed(self) -> None:
        """Have it looked at if more is free than what stays; where nobody does so already, what is
        free counts as unused from now on."""
        if self._heap.idle_bytes <= LEAST_KEPT or conditions.decay_runs or not self.is_owed():
            return
        self._begin()
        self._before = 0, self._allocations
        if not start():
            self._heap.give_back_idle(self._heap.arena.free_bytes - self._kept())

    def _begin(self) -> None:
        self._heap.lowest = self._heap.arena.free_bytes
        self._allocations = self._heap.counter.allocations
        self._begun = clock()

    def _state(self) -> tuple[int, int]:
        counter = self._heap.counter
        return counter.allocations, counter.in_use

    def _kept(self) -> int:
        return max(LEAST_KEPT, self._heap.counter.in_use // KEPT_SHARE)

    def is_owed(self) -> bool:
        """Whether more is free than what stays."""
        heap = self._heap
        unused = heap.reserved - heap.counter.in_use
        return unused > self._kept() and self._left != self._state()

    def step(self) -> None:
        """Give back what was not used for the period, if half of one has passed."""
        heap = self._heap
        if clock() - self._begun < PERIOD / 2:
            return
        heap.settle()
        lowest, allocations = self._before
        self._before = heap.lowest, self._allocations
        large = min(lowest, heap.lowest, heap.arena.free_bytes)
        # No more small blocks than this were used meanwhile, of none more than that.
        count = heap.counter.allocations - allocations
        small = max(0, heap.free_in_lists - count * classes.LARGEST)
        idle = large + small - self._kept()
        if idle > 0 and small:
            large += heap.free_slabs()
        left = idle = min(idle, large)
        while left > 0 and (released := heap.give_back_idle(min(left, _PIECE))):
            left -= released
        if left == idle > 0:
            self._left = self._state()
        self._begin()


# Those of all heaps whose memory is the host's.
_decays: dict["Device", list[Decay]] = {}

_has_ended = False
# Held while the thread begins or ends; who finds it so need not wait.
_changing = _thread.allocate_lock()
# Held but for the end: the thread sleeps on the first, and says by the second that it is gone.
_wake = _thread.allocate_lock()
_gone = _thread.allocate_lock()
_wake.acquire()


def watch(heap: "Heap") -> Decay:
    """The decay of a heap whose memory is the host's."""
    made = Decay(heap)
    _decays.setdefault(heap.device, []).append(made)
    return made


def look() -> bool:
    """Give back what is due; whether there is more to come."""
    pending.reap_of(tuple(_decays))
    for decays in tuple(_decays.values()):
        for decay in tuple(decays):
            if decay.is_owed():
                decay.step()
    return is_owed()


def is_owed() -> bool:
    """Whether there is something to give back, now or later."""
    every = [decay for decays in tuple(_decays.values()) for decay in tuple(decays)]
    return any(decay.is_owed() for decay in every) or pending.is_waiting(tuple(_decays))


def start() -> bool:
    """Have a thread look twice a second, while there is something to give back; False if the
    process can have no more threads.

    It takes no lock that a thread may hold which frees memory, be it in a signal's handler.
    """
    if conditions.decay_runs or _has_ended or not _changing.acquire(False):
        return True
    try:
        if not conditions.decay_runs:
            _gone.acquire(False)
            conditions.decay_runs = True
            try:
                _thread.start_new_thread(_run, ())
            except RuntimeError:
                conditions.decay_runs = False
        return conditions.decay_runs
    finally:
        _changing.release()


def _run() -> None:
    try:
        while not _wake.acquire(timeout=0.55 * PERIOD):
            if not look():
                break
    finally:
        with _changing:
            conditions.decay_runs = False
            _gone.release()
    # What was freed since the last look found the thread running.
    if not _has_ended and is_owed():
        start()


def note_pending(device: "Device") -> None:
    """Memory of the device waits for its work; it may be free later."""
    if device in _decays:
        start()


def end() -> None:
    """At exit: no thread may run Python code once the interpreter goes."""
    global _has_ended
    _has_ended = True
    if conditions.decay_runs:
        _wake.release()
        _gone.acquire(timeout=5)


def start_anew() -> None:
    """After a fork, in the child: it has no such thread, and perhaps what that was to give back."""
    global _changing, _wake, _gone
    conditions.decay_runs = False
    _changing, _wake, _gone = (_thread.allocate_lock() for _ in range(3))
    _wake.acquire()
