"""The calls of a driver by names that all drivers share, and what is raised where one fails. CUDA's
driver and HIP have the same numbers for the same failures."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from haulage._core.driver import NOT_PERMITTED, Functions, Inside
from haulage.errors import DeviceError, OutOfMemory

OUT_OF_MEMORY, NOT_FOUND, NOT_READY = 2, 500, 600

# The name of graphs.
A_GRAPH = "a graph"
# Streams that are gone whose last kernel is known.
_ENDED = 16

# After these nothing of the context works any more: each later call gives the same.
LOST = {
    214: "the device's memory has a fault (ECC)",
    220: "a connection between devices failed (NVLink)",
    226: "the device has contained a fault, of its own or in an access of another device's memory",
    700: "a kernel read or wrote memory that is not there, or that was given back",
    702: "a kernel ran longer than the system lets it on a device with a display",
    710: "an assert of a kernel failed",
    714: "the stack of a kernel's thread is broken",
    715: "a kernel ran an instruction that the device does not have",
    716: "a kernel read or wrote memory at an address that is no multiple of the value's size",
    717: "a kernel used memory in a way that is for another kind of memory",
    718: "a kernel ran on at an address that holds no code",
    719: "a kernel failed, mostly by an access of shared or global memory out of bounds",
    721: "a tensor kernel leaked memory",
    810: "the service for several processes on one device (MPS) has ended this one",
}


# What to do about failures that are the same with all drivers.
ADVICE = {
    200: "the code is broken, or is for another device",
    209: "the code is for another device",
    304: "the operating system refuses",
    400: "a stream, event or kernel that is gone, or is another device's",
    701: "its registers or shared memory do not fit the device with so many threads: take smaller "
    "blocks, or max_registers or launch_bounds at the kernel's decorator",
    712: "part of the memory is pinned already",
    720: "the grid has more blocks than can be there at one time",
    NOT_PERMITTED: "a callback of a stream cannot use the device: else it is easily one that waits "
    "for work that begins only when it has returned",
    900: "the stream is being captured, and this cannot be",
    901: "something before has ended the capture",
    906: "the default stream waits for streams that are being captured; use another one, or one "
    "that is non-blocking",
}


# What makes a call: it gives the status, and what comes out.
Answering = Callable[..., tuple[int, Any]]


class Calls(ABC):
    """A driver's calls. Safe to use from any thread.

    A call has the name of CUDA's function without its `cu`, whatever the driver names it:
    `calls("MemAlloc", nbytes)`. It is given what is put in, in CUDA's order, and gives what comes
    out. Handles, addresses and enumerations are ints, structures are not passed. These have forms
    of their own:

        MemCreate(nbytes, device, is shared)        MemGetAllocationGranularity(device, is shared)
        MemSetAccess(address, nbytes, devices)      MemExportToShareableHandle(chunk) -> file
        MemImportFromShareableHandle(file) -> chunk
        IpcGetMemHandle(address) -> bytes           IpcOpenMemHandle(bytes) -> address
        MemPrefetchAsync(address, nbytes, device or -1, stream)
        MemAdvise(address, nbytes, advice, device or -1)
        GraphInstantiate(graph) -> what can be launched
        StreamEndCapture(stream) -> graph, 0: the driver keeps none

    and devices have their numbers everywhere.

    `last` has the function or graph that was launched last in each stream, written by who launches;
    `ended` those of the latest streams that were given back, whose work may run still; `names` the
    names of functions and graphs. `untold` is the loss of a device that no call has raised.

    Attributes:
        kind: of its devices, as in `nvidia:0`.
        prefix: what the names of its functions begin with.
        by_address: the calls of `haulage._core.driver`.
        launch_end: what ends the `extra` of a launch.
        has_ranges: whether it has addresses without memory, where devices say so.
        knows_unrecorded: whether it takes questions about events that were never recorded.
        advice: by the number of a failure, what to do about it.
        debugger: what finds a kernel's bad access.
        device_words, driver_words, fork_words: a device, its driver, and what does not survive a
            fork, in errors.
        handle_type: of handles for other processes, in errors.
    """

    kind: ClassVar[str]
    prefix: ClassVar[str]
    by_address: ClassVar[Sequence[str]] = (
        *("CtxSynchronize", "MemcpyAsync", "StreamSynchronize", "StreamQuery", "StreamWaitEvent"),
        *("EventRecord", "EventSynchronize", "EventQuery"),
    )
    launch_end: ClassVar[int]
    knows_unrecorded: ClassVar[bool] = True
    has_ranges: bool = True
    advice: ClassVar[Mapping[int, str]]
    debugger: ClassVar[str]
    device_words: ClassVar[str]
    driver_words: ClassVar[str]
    fork_words: ClassVar[str]
    handle_type: ClassVar[str]

    def __init__(self) -> None:
        self.last: dict[int, int] = {}
        self.ended: deque[int] = deque(maxlen=_ENDED)
        self.names: dict[int, str] = {}
        self.untold: DeviceError | None = None
        self.inside = Inside()
        self._table: dict[str, Answering] = {}
        self._lost_in = ""

    # ---- the driver's ---------------------------------------------------------------------------

    @abstractmethod
    def _made(self, name: str) -> Answering:
        """The function for a call, which is kept: it gives the call's status, and what it gives.

        Raises:
            Unsupported: the driver is too old for it; also where it is called.
        """

    @abstractmethod
    def address(self, name: str) -> int:
        """Where the driver's function is."""

    @abstractmethod
    def told(self, status: int) -> str:
        """The driver's name for a status, and its words for it."""

    @abstractmethod
    def hold(self, device: int) -> int:
        """The handle of a device that is used for the first time; it is held to the end."""

    @abstractmethod
    def make_current(self, handle: int) -> None:
        """Make such a device current in this thread."""

    @abstractmethod
    def attribute(self, device: int, name: str) -> int:
        """One of the device's figures, by CUDA's name; 0 where the driver does not know it."""

    @abstractmethod
    def names_chunks_by_files(self, device: int) -> bool:
        """Whether file descriptors can name memory without addresses."""

    @abstractmethod
    def nodes(self, graph: int) -> int:
        """How many copies, fills and launches a recorded graph has."""

    def named(self, name: str) -> str:
        """The driver's name of a call."""
        return self.prefix + name

    def passed(self, status: int) -> int:
        """The status of a call that this is the end of, whatever comes of it."""
        return status

    # ---- calls ----------------------------------------------------------------------------------

    def __call__(self, name: str, *args: Any, asked: str = "") -> Any:
        """What a call gives: None, a value, or a tuple of several.

        `asked` is what its error says was asked, if not the function and its arguments.

        Raises:
            DeviceError, OutOfMemory: the driver refuses: its name for the failure, what it means,
                what was asked.
            Unsupported: the driver is too old for it.
        """
        if self.inside.callback:
            raise self.failed(name, args, NOT_PERMITTED)
        status, given = (self._table.get(name) or self._new(name))(*args)
        if status:
            raise self.refused(asked, status) if asked else self.failed(name, args, status)
        return given

    def ask(self, name: str, *args: Any) -> tuple[int, Any]:
        """(status, what it gives) of a call some of whose failures are answers."""
        if self.inside.callback:
            raise self.failed(name, args, NOT_PERMITTED)
        status, given = (self._table.get(name) or self._new(name))(*args)
        return (self.passed(status), None) if status else (0, given)

    def _new(self, name: str) -> Answering:
        made = self._table[name] = self._made(name)
        return made

    def check(self, status: int, name: str, *args: Any) -> None:
        """Raise the error of a call that was made by its address, where it gave a status."""
        if status:
            raise self.failed(name, args, status)

    def functions(self) -> Functions:
        """The functions for copies, streams and events that are called by their addresses."""
        addresses = {self.named(name): self.address(name) for name in self.by_address}
        return Functions(self.inside, self.prefix, addresses)

    def room(self) -> str:
        """How much memory of the current device is free, in words."""
        status, given = self.ask("MemGetInfo")
        return "no more is known" if status else "{:,} of {:,} bytes are free".format(*given)

    # ---- errors ---------------------------------------------------------------------------------

    @property
    def is_lost(self) -> bool:
        """Whether a call has failed as all later ones do."""
        return bool(self._lost_in)

    def end_of(self, stream: int) -> None:
        """A stream is given back."""
        launched = self.last.pop(stream, None)
        if launched is not None:
            self.ended.append(launched)

    def launched(self, function: int) -> str:
        """A kernel or graph in an error."""
        name = self.names.get(function, f"{function:#x}")
        return name if name == A_GRAPH else f"kernel {name}"

    def failed(
        self, name: str, args: Iterable[Any], status: int, log: bytes | bytearray = b""
    ) -> DeviceError:
        """The error for a call that gave `status`, which is not 0; `log` is what the driver's
        assembler or linker wrote, up to a zero byte."""
        return self.refused(f"{self.named(name)}({', '.join(map(_shown, args))})", status, log)

    def refused(self, asked: str, status: int, log: bytes | bytearray = b"") -> DeviceError:
        """`failed`, of what is told in words."""
        error = self._refused(asked, self.passed(status))
        text = bytes(log).partition(b"\0")[0].decode(errors="replace").strip()
        if text:
            error.msg = f"{error.msg}\n{text}"
            error.args = (error.code, error.msg)
        return error

    def _refused(self, asked: str, status: int) -> DeviceError:
        what = f"{asked}: {self.told(status)}"
        if status == OUT_OF_MEMORY:
            return OutOfMemory(f"{what}; {self.room()}")
        if status in LOST:
            if not self._lost_in:
                self._lost_in = self._last_launched()
            self.untold = None
            return DeviceError(
                status,
                f"{what}; {LOST[status]}. {self._lost_in} The device's memory and work are lost "
                "for this process, and all later calls fail: start it anew. To find the place, "
                f"use @jit(debug=True), or {self.debugger}",
            )
        advice = self.advice.get(status)
        return DeviceError(status, f"{what}; {advice}" if advice else what)

    def _last_launched(self) -> str:
        """Which kernels it can have been, in a sentence."""
        found = [(named_stream(stream), at) for stream, at in self.last.copy().items()]
        found += [("a stream that is gone", at) for at in dict.fromkeys(self.ended.copy())]
        if not found:
            return "Haulage has launched no kernel."
        if len(found) == 1:
            what = self.launched(found[0][1])
            return f"{what[0].upper()}{what[1:]} was running, or was launched last."
        listed = (f"{self.names.get(at, f'{at:#x}')} in {where}" for where, at in found)
        return f"Launched last: {', '.join(listed)}."


def named_stream(stream: int) -> str:
    """A stream in an error."""
    return f"stream {stream:#x}" if stream else "the default stream"


def _shown(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        try:
            value = int(value)
        except (TypeError, ValueError):
            return f"<{type(value).__name__}>"
    return f"{value:#x}" if value >= 1 << 32 else str(int(value))
