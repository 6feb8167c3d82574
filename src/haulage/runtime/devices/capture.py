"""What is recorded for graphs at present: which streams, and what the recorded work uses.

`Device.capturing` has the captures of a device by the handle of each of their streams; it is empty
nearly always, and all that has to know of captures looks there first.
"""

import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from haulage import forks
from haulage.errors import CaptureError
from haulage.interruption import on_error
from haulage.runtime.process import runtime

if TYPE_CHECKING:
    from haulage.runtime.devices.device import Device
    from haulage.runtime.devices.stream import Stream
    from haulage.runtime.memory.block import Block


# Who must not wait for the device as a whole during a capture, by CUDA's names: no thread, not the
# one that captures, or all may.
MODES = ("global", "thread_local", "relaxed")


class Capture:
    """One recording, from its begin in `origin` to its end.

    Attributes:
        blocks: memory that the recorded work uses, which must live as long as it can be run.
        checks: to be called before it is run; they raise where memory of others is gone.
        waits: whether who runs it waits for its end, as for a kernel with `debug=True`.
        mode: one of `MODES`: who must not wait for the device as a whole meanwhile.
        is_active: until it is ended.
    """

    __slots__ = (
        "_marks",
        "_streams",
        "_thread",
        "blocks",
        "checks",
        "device",
        "is_active",
        "is_lost",
        "mode",
        "origin",
        "waits",
    )

    def __init__(self, origin: "Stream", mode: str = "global") -> None:
        self.origin = origin
        self.mode = mode
        self._thread = 0
        self.device: Device = origin.device
        self.blocks: dict[Block, None] = {}
        self.checks: dict[Any, Callable[[], object]] = {}
        self.waits = False
        self.is_active = False
        self.is_lost = False
        self._streams: list[Stream] = []
        # By the handle of a stream that takes nothing but records, or nothing at all: an event
        # that stands for all the work that it holds.
        self._marks: dict[int, int] = {}

    # ---- begin and end ----------------------------------------------------------------------

    def begin(self) -> None:
        """Record what is handed to the stream from now on.

        Raises:
            CaptureError: it is the default stream, or is recorded already.
            Unsupported: the device has no graphs.
        """
        device, origin, backend = self.device, self.origin, self.device.backend
        device.activate()
        if not origin.handle:
            raise CaptureError(
                f"{origin!r} cannot be captured, as all other streams wait for it; capture a "
                "stream made by stream(), or leave it out: graph() then makes one"
            )
        if origin.handle in device.capturing or backend.capture_query(origin.handle):
            raise CaptureError(f"{origin!r} is being captured already; end that capture first")
        try:
            self._thread = threading.get_ident()
            self._enter(origin)
            self.is_active = True
            device.activate()
            backend.capture_begin(origin.handle)
        except BaseException:  # not `on_error`: Ctrl-C at its end would leave nobody to end this
            self._abandon()
            raise

    def end(self) -> tuple[int, int]:
        """End it; (handle of the graph, number of its operations).

        Raises:
            CaptureError: it is over, or cannot become a graph; it is over then, too.
        """
        self._check_active()
        with on_error(self._abandon):
            self.device.activate()
            graph = self.device.backend.capture_end(self.origin.handle)
            self._leave()
        return graph

    def cancel(self) -> None:
        """End it and keep nothing; nothing is done if it is over."""
        if self.is_active:
            with on_error(self._abandon):
                self._abandon()

    def join(self, stream: "Stream", wait: Callable[[], object]) -> None:
        """Let another stream be recorded too, by `wait()`, which makes it wait for an event of this
        capture.

        Raises:
            CaptureError: it is the default stream, or a stream of another capture.
        """
        self._check_active()
        of = self.device.capturing.get(stream.handle)
        if of is not None and of is not self:
            raise CaptureError(
                f"{stream!r} is captured for another graph; one cannot wait for both"
            )
        if not stream.handle:
            raise CaptureError(
                f"{stream!r} cannot be captured, so it cannot wait for an event that is only "
                "recorded; let it wait once the graph has been launched"
            )
        if of is self:
            wait()
            return
        self._enter(stream)
        with on_error(self._leave_out, stream):
            wait()

    def _leave_out(self, stream: "Stream") -> None:
        """It did not become a part of the capture, if the driver says so."""
        self.device.activate()
        if not self.device.backend.capture_query(stream.handle):
            self.device.capturing.pop(stream.handle, None)
            self._streams.remove(stream)

    def hold(self, block: "Block") -> None:
        """Note that the recorded work uses a block."""
        self.blocks[block] = None

    def forbids_waits(self) -> bool:
        """Whether this thread must not wait for the device."""
        if self.mode == "thread_local":
            return self._thread == threading.get_ident()
        return self.mode == "global"

    def _check_active(self) -> None:
        if self.is_lost:
            raise CaptureError(
                f"the capture of {self.origin!r} was begun by the process that this one was forked "
                "from, and is over here"
            )
        if not self.is_active:
            raise CaptureError(f"the capture of {self.origin!r} is over")

    def _enter(self, stream: "Stream") -> None:
        self.device.activate()
        blocking = stream._is_blocking or not stream.owned
        for handle in (stream.handle, 0) if blocking else (stream.handle,):
            if handle not in self._marks and not mark_of_handle(self.device, handle):
                event = self._marks[handle] = self.device.backend.event_create(False)
                self.device.backend.event_record(event, handle)
        self._streams.append(stream)
        with _lock:
            if self not in runtime.current.captures:
                runtime.current.captures.append(self)
            self.device.capturing[int(stream.handle)] = self

    def _leave(self) -> None:
        self.is_active = False
        with _lock:
            for stream in self._streams:
                self.device.capturing.pop(stream.handle, None)
            if self in runtime.current.captures:
                runtime.current.captures.remove(self)
        while self._marks:
            self.device.activate()
            self.device.backend.event_destroy(self._marks.popitem()[1])

    def _abandon(self) -> None:
        """End it and keep nothing; it can be begun again wherever it was cut short."""
        self._leave()
        self.blocks.clear()
        self.checks.clear()
        backend = self.device.backend
        self.device.activate()
        if backend.capture_query(self.origin.handle):
            backend.capture_cancel(self.origin.handle)

    def _forget(self) -> None:
        """After a fork, in the child: the driver has nothing of it."""
        self.is_active, self.is_lost = False, True
        self.device.capturing.clear()
        self.device.begun_graphs.clear()
        self._marks.clear()


_lock = forks.lock()

# The capture of an enclosing `with graph()`.
enclosing: "ContextVar[Capture | None]" = ContextVar("haulage_graph", default=None)


# ---- what others ask, where `Device.capturing` is not empty -------------------------------------


def capture_of(stream: "Stream") -> Capture | None:
    """The capture that what is handed to `stream` is recorded for."""
    return stream.device.capturing.get(stream.handle)


def enclosing_stream(device: "Device") -> "Stream | None":
    """The stream that stands for the default one inside of a `with graph()` of the device."""
    capture = enclosing.get()
    if capture is None or not capture.is_active or capture.device is not device:
        return None
    return capture.origin


def mark_of(stream: "Stream") -> int:
    """The event that stands for all the work that `stream` holds, where the driver cannot be asked
    for its state: it is captured, or is the default stream and waits for one that is. Else 0."""
    return mark_of_handle(stream.device, stream.handle)


def mark_of_handle(device: "Device", handle: int) -> int:
    """`mark_of` for a stream by its handle."""
    for capture in tuple(device.capturing.values()):
        if handle in capture._marks:
            return capture._marks[handle]
    return 0


def check_takes_work(stream: "Stream") -> None:
    """See that `stream` can take work just now.

    Raises:
        CaptureError: it is the default stream, and one that it waits for is captured.
    """
    if not stream.handle and mark_of(stream):
        raise CaptureError(
            f"{stream!r} can take no work while a stream is captured that it waits for; use "
            "graph() without a stream, or another stream for this"
        )


def check_waits(device: "Device", handle: int) -> None:
    """See that a stream, by its handle, can wait for work that is not of a graph.

    Raises:
        CaptureError: it is being captured.
    """
    if handle in device.capturing:
        raise CaptureError(
            f"{device.capturing[handle].origin!r} is being captured, and what is recorded cannot "
            "wait for other work; let the stream wait that the graph is launched in"
        )


def check_runs(stream: "Stream", what: str) -> None:
    """See that `stream` runs what is handed to it, as `what` needs.

    Raises:
        CaptureError: it is captured, or is the default stream and waits for one that is.
    """
    if stream.handle in stream.device.capturing:
        raise CaptureError(
            f"{stream!r} is being captured: its work is recorded and not run, so {what} is not "
            "possible before the end of the capture"
        )
    check_takes_work(stream)


def check_none_captured(device: "Device") -> None:
    """See that no stream of the device is captured.

    Raises:
        CaptureError: one is.
    """
    for capture in device.capturing.values():
        raise CaptureError(
            f"{device} cannot be reset while {capture.origin!r} is captured; do that after the end "
            "of the capture"
        )


def check_can_wait(device: "Device") -> None:
    """See that this thread may wait for what of the device is not captured.

    Raises:
        CaptureError: a stream of it is captured in a mode that forbids this.
    """
    for capture in device.capturing.values():
        if capture.forbids_waits():
            raise CaptureError(
                f"{device} cannot be waited for while {capture.origin!r} is captured in the mode "
                f"{capture.mode!r}; wait after the end of the capture, or for one stream, or "
                "capture with cuda.graph(mode='thread_local'), where other threads can wait for "
                "all that is not captured, or mode='relaxed', where all can"
            )


def start_anew() -> None:
    """After a fork, in the child: no stream is captured."""
    for capture in runtime.current.captures:
        capture._forget()
    runtime.current.captures.clear()
