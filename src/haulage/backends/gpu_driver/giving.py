"""Giving things back to the driver, from wherever the last reference to them goes."""

from collections import deque
from collections.abc import Callable
from typing import Any

from haulage.backends.gpu_driver.calls import Calls
from haulage.backends.gpu_driver.contexts import Contexts


class Giving:
    """Makes calls that give something back.

    Not in a forked child, where all of it is the parent's. Inside of a callback of a stream, where
    the driver takes no calls and objects die as elsewhere, they are kept for the next one outside.
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
        function(*args)

    def catch_up(self) -> None:
        """Give back what callbacks have left."""
        if not self._later:
            return
        before = self._contexts.device()
        try:
            while self._later:
                device, function, args = self._later.popleft()
                self._contexts.activate(device)
                function(*args)
        finally:
            self._contexts.activate(before)
