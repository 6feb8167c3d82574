"""Giving things back to the driver, from wherever the last reference to them goes."""

from collections import deque
from collections.abc import Callable
from typing import Any

from haulage.backends.gpu_driver.calls import LOST, Calls
from haulage.backends.gpu_driver.contexts import Contexts
from haulage.errors import DeviceError


class Giving:
    """Makes calls that give something back.

    Not in a forked child, where all of it is the parent's. Inside of a callback of a stream, where
    the driver takes no calls and objects die as elsewhere, they are kept for the next one outside.
    With a device that is lost all of it is gone: what works with the device tells so.
    """

    def __init__(self, calls: Calls, contexts: Contexts) -> None:
        self._calls = calls
        self._contexts = contexts
        self._later: deque[tuple[int, Callable[..., object], tuple[Any, ...]]] = deque()

    def __call__(self, function: Callable[..., object], *args: Any) -> None:
        """Call a function that gives something of the active device back."""
        if self._contexts.forked:
            return
        if self._calls.inside.callback:
            self._later.append((self._contexts.wanted(), function, args))
            return
        self.catch_up()
        self._give(function, args)

    def _give(self, function: Callable[..., object], args: tuple[Any, ...]) -> None:
        untold, was_lost = self._calls.untold, self._calls.is_lost
        try:
            function(*args)
        except DeviceError as error:
            if error.code not in LOST:
                raise
            self._calls.untold = untold if was_lost else error

    def catch_up(self) -> None:
        """Give back what callbacks have left."""
        if not self._later:
            return
        before = self._contexts.device()
        try:
            while self._later:
                device, function, args = self._later.popleft()
                self._contexts.activate(device)
                self._give(function, args)
        finally:
            self._contexts.activate(before)
