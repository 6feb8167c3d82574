"""What is done around a fork: imports are waited for, locks held, and the child begins anew."""

from __future__ import annotations

import os
import sys

# `import haulage` alone takes a millisecond: what else is used here is imported in functions.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import weakref
    from collections.abc import Callable
    from functools import cached_property
    from typing import Any

else:

    class cached_property:
        """That of `functools`, which before Python 3.12 has a lock for all objects of a class: a
        child would find it held by a thread that it does not have."""

        def __init__(self, function):
            self._function = function
            self.__doc__ = function.__doc__

        def __set_name__(self, owner, name):
            self._name = name

        def __get__(self, made, owner=None):
            if made is None:
                return self
            value = made.__dict__[self._name] = self._function(made)
            return value


# Where another thread imports a module of these for the first time when a process forks, the child
# would have a part of it, and an import lock that nobody opens.
_PACKAGES = ("haulage", "llvmlite", "numba")

__all__ = ["cached_property", "held", "in_child", "lock"]

# What gives each lock that is held during a fork, or None while there is no such lock.
_held: list[Callable[[], Any]] = []
_acquired: list[Any] = []
_new_in_child: set[weakref.ref[Any]] = set()


def in_child(action: Callable[[], object]) -> None:
    """Let each child that is forked from now on call `action()`; nothing where there is no fork.

    Locks may have been held by threads that the child does not have, and a driver's handles may be
    of no use there.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=action)


def held(find: Callable[[], Any]) -> None:
    """Let each fork wait for the reentrant lock that `find()` gives, so that a child finds what it
    guards whole."""
    _held.append(find)


def lock() -> Any:
    """A reentrant lock that nobody holds in a child but who forks: for what is whole all the time,
    and for what is made at most once."""
    import threading
    import weakref

    made = threading.RLock()
    _new_in_child.add(weakref.ref(made, _new_in_child.discard))
    return made


def _before() -> None:
    logging_was_there = _lock_of_logging() is not None
    own: set[str] = set()  # imported by this thread, which forks in the midst of that
    while True:
        for name in _half_imported() - own:
            _wait(__import__, name)
            own |= {name} & _half_imported()
        busy = _acquire_all()
        # Another thread may have begun an import before the locks were held.
        if busy is None and _half_imported() <= own:
            theirs = _lock_of_logging()
            if theirs is not None and not logging_was_there:
                theirs.acquire()  # its hook for after the fork, which came meanwhile, releases it
            return
        _release_all()
        if busy is not None:
            _wait(_once_acquired, busy)


def _acquire_all() -> Any:
    """Acquire all locks that are held during a fork, up to one that another thread has, which is
    given: to wait for it with the others could be for ever."""
    for find in _held:
        found = find()
        if found is None:
            continue
        if not found.acquire(blocking=False):
            return found
        _acquired.append(found)
    return None


def _release_all() -> None:
    while _acquired:
        _acquired.pop().release()


def _renew() -> None:
    _release_all()
    for found in list(_new_in_child):
        made = found()
        if made is not None and not made._is_owned():
            made._at_fork_reinit()


def _half_imported() -> set[str]:
    return {
        name
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in _PACKAGES
        and getattr(getattr(module, "__spec__", None), "_initializing", False)
    }


def _lock_of_logging() -> Any:
    return getattr(sys.modules.get("logging"), "_lock", None)


def _once_acquired(lock: Any) -> None:
    with lock:
        pass


def _wait(until: Callable[[Any], object], argument: Any) -> None:
    # What is waited for may need the lock of `logging`, which this thread has where the hook of
    # that was called first.
    theirs = _lock_of_logging()
    owned = theirs is not None and theirs._is_owned()
    if owned:
        theirs.release()
    try:
        until(argument)
    except Exception:
        pass  # an import that failed; the other thread sees it, too
    finally:
        if owned:
            theirs.acquire()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_release_all, after_in_child=_renew)
