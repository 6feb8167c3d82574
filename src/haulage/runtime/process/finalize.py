"""When handles of a driver are given back.

An object that owns a handle gives it back from its `__del__`, which Python runs at once when the
last reference goes. A pass of the cycle collector, though, can run it between any two steps of this
very thread, also in the midst of a driver call that holds a lock; what such a pass finds is put
aside and given back at the next occasion outside. At the end of the process nothing is given back:
the driver may be gone before, and the operating system takes everything.

What gives memory back may be a function of the program's. It runs when a last reference goes, or
later, in the midst of any call of Haulage; what it raises is no matter of that call, and is
reported as what a `__del__` raises.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from haulage._core.memory import conditions

_Actions = deque[tuple[Callable[..., object], tuple[Any, ...]]]

_waiting: _Actions = deque()
# Streams and events go last: memory that a collector's pass found with them still asks them.
_waiting_handles: _Actions = deque()
_draining = False  # whether some thread is about it
# Threads that give nothing back themselves: see `without_driver_calls`.
_bystanders: set[int] = set()
_ended = False

conditions.aside, conditions.aside_handles = _waiting, _waiting_handles
conditions.bystanders = _bystanders


def waiting() -> int:
    """How many things wait to be given back, of all devices."""
    return len(_waiting) + len(_waiting_handles)


def deferring() -> bool:
    """Whether a `defer_cleanup` holds."""
    return conditions.deferring > 0


def has_to_wait() -> bool:
    """Whether this thread must not call the driver now, to give something back: it is inside of a
    collector's pass, or of `without_driver_calls`."""
    me = threading.get_ident()
    return me == conditions.collecting or me in _bystanders


@contextmanager
def without_driver_calls() -> Iterator[None]:
    """Inside, this thread gives nothing back, and other threads do it later.

    It is one that a driver calls the program in, and some do not take calls there.
    """
    me = threading.get_ident()
    try:
        _bystanders.add(me)
        yield
    finally:
        _bystanders.discard(me)


def give_back(action: Callable[..., object], *args: Any) -> None:
    """Call `action(*args)` now, or at the next `drain` if this is inside a collector's pass."""
    _give_back(_waiting, action, args)


def give_back_handle(destroy: Callable[..., object], *args: Any) -> None:
    """`give_back` for a stream or an event: after all memory that waits to be given back."""
    _give_back(_waiting_handles, destroy, args)


def later(action: Callable[..., object], *args: Any) -> None:
    """Call `action(*args)` at the next occasion, never inside this call."""
    _waiting.append((action, args))


def _give_back(queue: _Actions, action: Callable[..., object], args: tuple[Any, ...]) -> None:
    if _ended:
        return
    if conditions.deferring or has_to_wait():
        queue.append((action, args))
        return
    drain()
    action(*args)


def drain(deferred: bool = False) -> None:
    """Give back what collector passes have put aside, unless that is under way.

    With `deferred` also what `defer_cleanup` holds back.
    """
    global _draining
    if not (_waiting or _waiting_handles) or (conditions.deferring and not deferred):
        return
    if _bystanders and threading.get_ident() in _bystanders:
        return
    is_mine = False
    try:
        # No lock: after Ctrl-C between its acquisition and the `try` nothing would be given back
        # any more. There is no call from the look to the mark: no other thread comes in between.
        if _draining:
            return
        _draining = is_mine = True
        # What is put aside meanwhile waits for the next occasion: this may not be one.
        for _ in range(waiting()):
            if _ended or not (_waiting or _waiting_handles):
                break
            queue = _waiting or _waiting_handles
            action, args = queue[0]
            del queue[0]  # no call either
            action(*args)
    finally:
        if is_mine:
            _draining = False


@contextmanager
def defer_cleanup() -> Iterator[None]:
    """`with defer_cleanup():` gives no memory, stream or event back before its end.

    It can be nested, and then holds until the outermost one ends; it holds for all threads. Only
    where a device has no room left is memory given back inside.
    """
    entered = False
    try:
        # No call in between, so neither another thread nor Ctrl-C.
        conditions.deferring += 1
        entered = True
        yield
    finally:
        if entered:
            conditions.deferring -= 1
        drain()


def note_collection(phase: str, info: dict[str, int]) -> None:
    """The cycle collector begins or ends a pass, in this thread: for `gc.callbacks`."""
    conditions.collecting = threading.get_ident() if phase == "start" else 0


def end() -> None:
    """At the end of the process: give nothing back any more."""
    global _ended
    _ended = True


def forget() -> None:
    """After a fork, in the child: the handles are the parent's, which gives them back itself."""
    global _draining
    _waiting.clear()
    _waiting_handles.clear()
    _draining = False
    # The other threads are not there; later ones may get their numbers.
    _bystanders.intersection_update({threading.get_ident()})


# ---- errors that no call can raise -------------------------------------------------------------


class _Raising:
    """Stands for a `__del__`, by a name of its own."""

    def __init__(self, error: BaseException, name: str) -> None:
        self._errors = [error]
        self._name = name

    def __call__(self, *_: Any) -> None:
        # It lets go of the error: the class that it is in lives until the next garbage collection.
        raise self._errors.pop()

    def __repr__(self) -> str:
        return self._name


def call_unraisable(function: Callable[..., object], *args: Any, name: str) -> None:
    """Call `function(*args)`; an exception of it goes to `sys.unraisablehook`, with `name`."""
    try:
        function(*args)
    except Exception as error:
        # The hook's own arguments cannot be made in Python; an object that dies makes them.
        type("_Dying", (), {"__del__": _Raising(error, name)})()
