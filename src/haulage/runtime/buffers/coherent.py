"""Arrays that move themselves to where they are used: SmartArrays, which this room does not know.

Their class has three methods, and room for the attribute `_launch_kind`, in which launches keep
what they found out:

`__haulage_describe__()` gives (dtype, axes, layout, whether it is read-only, whether it is aligned)
of the device array that it will be, of which code is chosen; nothing is moved.

`__haulage_acquire__(stream, why, mode, whole=False, ways=2)` gives (array, done): the device array
on the stream's device, ready for work that is handed to the stream next, and a function that is to
be called with whether that work has been handed over.

    stream: of the work; None: it is the host's, and `array` a NumPy array.
    why: the work, in words, for records and errors.
    mode: what the work does with the elements: 'none', 'r' or 'rw'; or 'kept': others use the
        array, which counts as written as long as it lives.
    whole: whether the work overwrites all elements and needs none of the present ones; or a
        function that says so, which is called only where that matters.
    ways: how often a host array would be copied for it: there and back, or one of these.

`__haulage_shares__(other)` says whether another argument of the same launch, or itself, has the
same storage.

Launches ask arrays of `_core.coherence.Moving` in C first, which SmartArrays are; that says whether
they are there as they are needed. If not, and of all other classes, they call these methods.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from haulage.runtime.devices.stream import Stream

# What `__haulage_acquire__` takes as `whole`.
Whole = bool | Callable[[], bool]


def is_coherent(value: Any) -> bool:
    """Whether `value` is such an array."""
    return hasattr(type(value), "__haulage_acquire__")


def read_in(stream: Stream, array: Any, why: str) -> Any:
    """A device array of the array's current elements, for work in the stream that only reads them.

    Raises:
        CaptureError: the stream is captured.
        OutOfMemory: the device has no room.
        CoherenceError: a view was written to at the same time as a device.
    """
    there, done = array.__haulage_acquire__(stream, why, "r", False, 1)
    done(True)
    return there


def kept_in(stream: Stream, array: Any) -> Any:
    """A device array of the elements, for others: it counts as written there as long as what this
    gives, or a view of it, lives.

    Raises:
        CaptureError, OutOfMemory, CoherenceError: as `read_in`.
    """
    there, done = array.__haulage_acquire__(stream, "another array", "kept")
    done(True)
    return there


@contextmanager
def overwritten_in(stream: Stream | None, array: Any, why: str) -> Iterator[Any]:
    """The array on the stream's device, for work that is handed to it inside of the `with` and
    overwrites all elements; they are current there afterwards. None: a NumPy array on the host.

    Raises:
        CaptureError, OutOfMemory, CoherenceError: as `read_in`.
    """
    there, done = array.__haulage_acquire__(stream, why, "rw", True, 1)
    handed = False
    try:
        yield there
        handed = True
    finally:
        done(handed)
