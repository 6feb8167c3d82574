"""Numbers of a driver: addresses and handles."""

from typing import Any


class Handle(int):
    """An address or a handle: an int that gives itself as `value` too.

    In numba.cuda these are integers of ctypes, so its programs read `stream.handle.value` and
    `memory.device_pointer.value`.
    """

    __slots__ = ()

    @property
    def value(self) -> int:
        """The number itself."""
        return int(self)


def number_of(given: Any) -> int:
    """An address or a handle that was given as an int or as a ctypes integer; none is 0."""
    return int(getattr(given, "value", given) or 0)
