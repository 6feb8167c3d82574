"""Streams: queues of work of one device that run in order."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from haulage.errors import DeviceMismatch
from haulage.runtime import faults, finalize

if TYPE_CHECKING:
    from haulage.runtime.device import Device
    from haulage.runtime.event import Event


class Stream:
    """A queue of work of one device.

    `handle` is the driver's; 0 is the default stream, which is false as a Boolean and equals 0, so
    that it can stand wherever `stream=0` can.
    """

    __slots__ = ("__weakref__", "device", "handle")

    def __init__(self, device: "Device", handle: int) -> None:
        self.device = device
        self.handle = handle

    @classmethod
    def create(cls, device: "Device", flags: int = 0) -> "Stream":
        """A new stream of `device`, with flags of `haulage.backends.base`."""
        device.activate()
        return cls(device, device.backend.stream_create(flags))

    def synchronize(self) -> None:
        """Wait for all work handed to it so far.

        Raises:
            KernelError: threads of a kernel in it had failed.
        """
        self.device.activate()
        faults.waited(self.device.backend.stream_synchronize, self.handle)

    @contextmanager
    def auto_synchronize(self) -> Iterator["Stream"]:
        """`with stream.auto_synchronize():` waits for the stream's work at the end of the body."""
        yield self
        self.synchronize()

    def query(self) -> bool:
        """Whether all work handed to it is done; never waits."""
        self.device.activate()
        return self.device.backend.stream_query(self.handle)

    def wait(self, event: "Event") -> None:
        """Let later work of this stream start only when `event` is reached; does not wait here."""
        event.wait(self)

    def __int__(self) -> int:
        return self.handle

    def __bool__(self) -> bool:
        return self.handle != 0

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, Stream):
            return self.device is other.device and self.handle == other.handle
        if isinstance(other, int):
            return self.handle == other
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.handle)

    def __repr__(self) -> str:
        which = f"Stream {self.handle:#x}" if self.handle else "Default stream"
        return f"<{which} on {self.device}>"

    # Bound here, as module names may be gone by the time that the interpreter ends.
    def __del__(self, at_end: Callable[[], bool] = sys.is_finalizing) -> None:
        # `handle` is not there when `__init__` did not get that far.
        if getattr(self, "handle", 0) and not at_end():
            finalize.give_back_handle(self.device.backend.stream_destroy, self.handle)


StreamLike = Stream | int | None


def resolve(stream: StreamLike, device: "Device") -> Stream:
    """The stream meant by an argument; 0 and None mean the default stream of `device`.

    Raises:
        DeviceMismatch: it is a stream of another device.
        TypeError: it is something else.
    """
    if isinstance(stream, Stream):
        if stream.device is not device:
            raise DeviceMismatch(
                f"{stream!r} cannot take work of {device}; use a stream made on that device"
            )
        return stream
    if stream is None or (isinstance(stream, int) and stream == 0):
        return device.default_stream
    raise TypeError(f"stream {stream!r}: expected a stream made by stream(), 0 or None")


def device_of(stream: StreamLike) -> "Device | None":
    """The device of a stream; None where 0 or None stands for any device's default stream."""
    return stream.device if isinstance(stream, Stream) else None
