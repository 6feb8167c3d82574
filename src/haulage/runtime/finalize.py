"""When handles of a driver are given back.

An object that owns a handle gives it back from its `__del__`, which Python runs at once when the
last reference goes. A pass of the cycle collector, though, can run it between any two steps of this
very thread, also in the midst of a driver call that holds a lock; what such a pass finds is put
aside and given back at the next occasion outside. At the end of the process nothing is given back:
the driver may be gone before, and the operating system takes everything.
"""

import atexit
import gc
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

_waiting: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
_collecting_thread = 0
_ended = False


def give_back(action: Callable[..., object], *args: Any) -> None:
    """Call `action(*args)` now, or at the next `drain` if this is inside a collector's pass."""
    if _ended:
        return
    if _collecting_thread and _collecting_thread == threading.get_ident():
        _waiting.append((action, args))
        return
    if _waiting:
        drain()
    action(*args)


def drain() -> None:
    """Give back what collector passes have put aside."""
    while _waiting and not _ended:
        try:
            action, args = _waiting.popleft()
        except IndexError:  # another thread was faster
            return
        action(*args)


def _note_collection(phase: str, info: dict[str, int]) -> None:
    global _collecting_thread
    _collecting_thread = threading.get_ident() if phase == "start" else 0


def _end() -> None:
    global _ended
    _ended = True


def _forget() -> None:
    # The handles are the parent's; it gives them back itself.
    _waiting.clear()


gc.callbacks.append(_note_collection)
atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
