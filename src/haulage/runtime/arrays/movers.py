"""Arrays that move themselves to where they are used: SmartArrays, which this room does not know.

Their class has the methods `__haulage_acquire__`, which is described in `launching.placing`;
`__haulage_host_writing__(why)`: a context manager that gives the elements on the host as a NumPy
array, all of which are overwritten; and `__haulage_lent__(stream)`: an array on the stream's device
for work in it, which may be written as long as it lives.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from haulage.runtime.stream import Stream

if TYPE_CHECKING:
    import numpy as np

    from haulage.runtime.arrays.array import DeviceNDArray


def moves_itself(value: Any) -> bool:
    """Whether `value` is such an array."""
    return hasattr(type(value), "__haulage_acquire__")


def read_in(stream: Stream, array: Any, why: str) -> "DeviceNDArray":
    """The array's current elements on the stream's device, for work in it that only reads them.

    Raises:
        CaptureError: the stream is captured.
        OutOfMemory: the device has no room.
        CoherenceError: a view was written to at the same time as a device.
    """
    there: DeviceNDArray
    there, done = array.__haulage_acquire__(stream, why, "r", False, 1)
    done(True)
    return there


@contextmanager
def overwritten_in(stream: Stream, array: Any, why: str) -> Iterator["DeviceNDArray"]:
    """The array on the stream's device, for work that is handed to it inside of the `with` and
    overwrites all elements; they are current there afterwards.

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


def overwritten_on_host(array: Any, why: str) -> AbstractContextManager["np.ndarray"]:
    """The array on the host, for who overwrites all elements inside of the `with`."""
    writing: AbstractContextManager[np.ndarray] = array.__haulage_host_writing__(why)
    return writing
