"""Functions of the host that streams call."""

import itertools
from collections.abc import Callable

from haulage.backends.gpu_driver.calls import Calls
from haulage.errors import DeviceError


class HostFunctions:
    """Functions that streams call yet, and what those that failed have left.

    A function that raises leaves its exception for the wait that comes to its stream next. Safe to
    use from any thread.
    """

    def __init__(self, calls: Calls) -> None:
        self._inside = calls.inside
        self._numbers = itertools.count(1)
        # Those that have not run yet, by their numbers; and what failed, with its stream.
        self.pending: dict[int, tuple[Callable[[], object], int]] = {}
        self._failures: list[tuple[int, BaseException]] = []

    def hand_over(
        self, stream: int, function: Callable[[], object], give: Callable[[int], object]
    ) -> None:
        """Let `give` give a stream the number that it is to call."""
        number = next(self._numbers)
        self.pending[number] = function, stream
        try:
            give(number)
        except DeviceError:
            del self.pending[number]
            raise

    def called(self, number: int) -> None:
        """A stream has come to a function: on a thread of the driver's."""
        # Until all that the callback held is gone: objects of the driver may be among it.
        self._inside.callback = True
        try:
            self._call(number)
        finally:
            self._inside.callback = False

    def _call(self, number: int) -> None:
        function, stream = self.pending[number]
        try:
            function()
        except BaseException as error:
            self._failures.append((stream, error))
        finally:
            del self.pending[number]

    def raise_failures(self, stream: int | None) -> None:
        """Raise the first exception of callbacks of `stream`; of any stream if it is 0 or None."""
        for failure in self._failures:
            if not stream or failure[0] == stream:
                self._failures.remove(failure)
                raise failure[1]

    def take_failures(self) -> list[BaseException]:
        """All exceptions that no wait has raised."""
        taken, self._failures = self._failures, []
        return [error for _, error in taken]
