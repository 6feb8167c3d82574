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
    number = getattr(given, "value", given)
    if number is None:
        return 0
    try:
        if isinstance(number, (str, bytes, bytearray, float)):
            raise TypeError
        return int(number)
    except Exception:
        raise TypeError(
            f"{given!r}: expected an address or a handle, as an int or an integer of ctypes"
        ) from None
