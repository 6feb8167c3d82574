"""Who is told what happens to memory, in streams and to kernels: `haulage trace`, when it runs; and
who is told of copies between places: `haulage.transfers()` and its like.

Nobody is, mostly: then each place that would tell looks at one name of this module and goes on.
Kernels look when they are loaded, so an observer has to be there before the first of them is.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

    from haulage.runtime.device import Device
    from haulage.runtime.memory.block import Block
    from haulage.runtime.transfers.entry import Transfer

# What work of a stream is: the kinds of `Observer.around`.
KERNEL, UPLOAD, DOWNLOAD, COPY, FILL = "kernel", "upload", "download", "copy", "fill"
GRAPH = "graph"


class Observer(Protocol):
    """Is told of each event at once, in the thread that it happens in."""

    @property
    def inside(self) -> bool:
        """Whether this thread is within `around`."""
        ...

    def allocated(self, block: "Block") -> None:
        """A block was given out; `block.mark` says to whom."""
        ...

    def freed(self, block: "Block") -> None:
        """The last reference to a block is gone, or it was closed."""
        ...

    def around(
        self,
        device: "Device",
        stream: int,
        kind: str,
        name: str,
        nbytes: int,
        call: Callable[..., Any],
        *args: Any,
    ) -> Any:
        """Make `call(*args)`, which hands work to the stream with this handle of the driver, and
        return what it gives: False if it did nothing.

        Work that it tells of itself is a part of this one.
        `kind` is one of this module's, `name` that of a kernel or graph, `nbytes` what is moved or
        written. What is handed to a stream that is captured is not done now, and not to be told.
        """
        ...

    def moved(
        self, device: "Device", kind: str, host: "np.ndarray", address: int, done: bool
    ) -> None:
        """What `host` holds was an upload's or a download's; the device's end is at `address`.

        `done` is whether the copy is over; it may still be on its way then.
        """
        ...

    def waited(self, wait: Callable[..., Any], *args: Any) -> Any:
        """Make `wait(*args)`, in which the host waits for a device, and return what it gives."""
        ...


class Watcher(Protocol):
    """Is told of copies between places, in the thread that asks for them."""

    def moved(self, one: "Transfer") -> None:
        """A copy was handed to its stream."""
        ...


# Those that are told of copies between places.
watchers: tuple[Watcher, ...] = ()

# The one that is told, or None.
observer: Observer | None = None

# How many frames of the program's stack are kept of who asked for something, to begin with.
frames = 1
