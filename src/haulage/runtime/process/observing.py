"""Who is told what happens to memory, in streams and to kernels: `haulage trace`, when it runs; and
who is told of copies between places: `haulage.transfers()` and its like.

Nobody is, mostly: then each place that would tell looks at one name of the `Runtime` and goes on.
Kernels look when they are loaded, so an observer has to be there before the first of them is.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from haulage.runtime.process import runtime

if TYPE_CHECKING:
    import numpy as np

    from haulage.runtime.arrays.array import DeviceNDArray
    from haulage.runtime.buffers.host_copy import HostCopy
    from haulage.runtime.devices.device import Device
    from haulage.runtime.memory.block import Block
    from haulage.runtime.transfers.entries import Transfer

# What work of a stream is: the kinds of `Observer.around`.
KERNEL, UPLOAD, DOWNLOAD, COPY, FILL = "kernel", "upload", "download", "copy", "fill"
GRAPH = "graph"
# What the host does for a kernel before it is launched: `Observer.compiling`.
COMPILE = "compile"


class Observer(Protocol):
    """Is told of each event at once, in the thread that it happens in."""

    @property
    def inside(self) -> bool:
        """Whether this thread is within `around`."""
        ...

    def allocated(self, block: "Block") -> None:
        """A block was given out; `block.call_site` says to whom."""
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

    def compiling(self, kernel: str, work: Callable[..., Any], *args: Any) -> Any:
        """Make `work(*args)`, in which code is made or loaded for a kernel of this name, and return
        what it gives."""
        ...

    def waited(self, wait: Callable[..., Any], *args: Any) -> Any:
        """Make `wait(*args)`, in which the host waits for a device, and return what it gives."""
        ...


class Watcher(Protocol):
    """Is told of copies between places, in the thread that asks for them."""

    def moved(self, one: "Transfer") -> None:
        """A copy of a SmartArray's bytes, or one between devices, was handed to its stream."""
        ...

    def around(self, copy: "HostCopy", call: Callable[[], object]) -> None:
        """Make `call()`, which hands any other copy from or to the host to its stream."""
        ...

    def closing(self, block: "Block") -> None:
        """The program closes a block, which is there still."""
        ...

    def let_go(self) -> None:
        """Hold no memory of devices any more: somebody is about to count it."""
        ...


class CheckedLaunch(Protocol):
    """Launches that are checked.

    Attributes:
        captured: arrays of the device that the code has the addresses of.
    """

    captured: tuple[Any, ...]

    def start(self, stream: int, packed: bytes) -> None:
        """Start one in the stream with this handle, with the bytes of its arguments."""
        ...


class Checker(Protocol):
    """By whom kernels are launched with checks."""

    @property
    def checks(self) -> frozenset[str]:
        """Which ones: of `haulage.checking.names.CHECKS`."""
        ...

    @property
    def checks_kernels(self) -> bool:
        """Whether some of them are of what threads of kernels do."""
        ...

    def checked(
        self,
        overload: Any,
        device: "Device",
        configuration: Any,
        version: str,
    ) -> "CheckedLaunch":
        """What launches of an overload on the CPU device are started by, with a version of the code
        for what is found in their arguments (`compiler.versions`)."""
        ...


class HostChecker(Protocol):
    """By whom programs of the host are checked: their streams, and their use of memory.

    Attributes:
        pinned_type: NumPy's arrays, or a class of these, for new pinned memory.
        written: which device memory was written, as checked launches have it.
    """

    written: Any

    pinned_type: "type[np.ndarray]"

    def found(self, device: "Device") -> None:
        """There is one device more."""
        ...

    def launching(
        self,
        device: "Device",
        overload: Any,
        configuration: Any,
        header: bytes,
        captured: "Sequence[DeviceNDArray]",
        start: Callable[[int, bytes], None],
        *,
        is_checked: bool,
    ) -> Callable[[int, bytes], None]:
        """What launches of an overload in a configuration, whose code uses the arrays `captured`,
        are started by, in the place of `start`: a function of the handle of a stream, and of the
        header with the argument block behind it. `is_checked`: whether their threads are."""
        ...

    def allocated(self, block: "Block") -> None:
        """A block that a program's own allocator gave is counted as the program's memory."""
        ...

    def used_after_close(self, block: "Block") -> None:
        """A block that is closed is about to be used, which raises an error."""
        ...

    def unseen(self) -> AbstractContextManager[object]:
        """Inside, this thread orders streams by what programs cannot rely on."""
        ...

    def freed_again(self, block: "Block") -> None:
        """Memory is freed by hand that is closed."""
        ...

    def program_ends(self) -> None:
        """The program is at its end, and all its work is done."""
        ...


class Debugger(Protocol):
    """Says which launches stop in the debugger."""

    def take(self, kernel: Any, asking: bool) -> Any:
        """Where a launch of `kernel` that begins now is to stop: a `Choice` of
        `interpreting.launching`, or None; `asking` if the kernel says `breakpoint()`."""
        ...


def compiling(kernel: str, work: Callable[..., Any], *args: Any) -> Any:
    """`work(*args)`, in which code is made or loaded for a kernel, told to who observes."""
    watching = runtime.current.observer
    return work(*args) if watching is None else watching.compiling(kernel, work, *args)


class Argument(NamedTuple):
    """An argument of a launch, or an entry of one that is a tuple.

    Attributes:
        why: the kernel, in words.
        kernel: itself.
        name: the parameter, and the places in tuples: 'x', 'x[0]'; '' where it is not known.
        path: its number, followed by these places.
    """

    why: str
    kernel: Any
    name: str
    path: tuple[int, ...]


class _Launching(threading.local):
    argument: Argument | None = None


# The argument that this thread copies for a launch, noted only where somebody watches.
launching = _Launching()


@contextmanager
def copying(argument: Argument) -> Iterator[None]:
    """What is copied inside by this thread is the argument of a launch."""
    before, launching.argument = launching.argument, argument
    try:
        yield
    finally:
        launching.argument = before
