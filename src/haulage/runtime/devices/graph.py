"""Graphs: work of streams that is recorded once and then run again and again."""

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from haulage.backends.base import NON_BLOCKING
from haulage.checks import one_of
from haulage.errors import CaptureError
from haulage.runtime.devices import ordering, pending
from haulage.runtime.devices.capture import MODES, Capture, enclosing
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import current_device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.devices.stream_arguments import StreamLike, for_work, resolve
from haulage.runtime.process import finalize, observing, runtime

if TYPE_CHECKING:
    from haulage.runtime.memory import Block


class Graph:
    """Work that is recorded inside of a `with`, and run by each `launch`.

        with cuda.graph() as g:
            kernel[blocks, threads](a, b)
            b.copy_to_host(pinned)
        g.launch()

    Inside of the `with`, launches of kernels, copies, fills and events are recorded, and none of
    them runs. That holds for what is handed to the graph's `stream`, and for what the thread (or
    task) inside the `with` hands to the default stream. Another stream that is told to wait for an
    event recorded there is captured as well; the graph's stream has to wait for an event after its
    last work.

    The graph keeps the memory that its work uses: arrays may be forgotten, and are not given to
    others as long as the graph lives. Where the `with` is left by an exception nothing is kept.

    Attributes:
        device: whose streams it records, and on which it runs.
        stream: the stream that is captured.
        name: what `haulage trace` calls it.
        mode: who must not wait for the whole device during the capture, as `synchronize()` does:
            'global': no thread; 'thread_local': not the one that captures; 'relaxed': all may. Who
            may waits for all that is not captured.
        count: how many kernels, copies and fills it has, as the device's driver counts them; 0
            before the capture has ended.
    """

    __slots__ = (
        "__weakref__",
        "_blocks",
        "_capture",
        "_checks",
        "_handle",
        "_producers",
        "_state",
        "_streams",
        "_waits",
        "count",
        "device",
        "mode",
        "name",
        "stream",
    )

    def __init__(
        self, stream: StreamLike = None, name: str = "graph", mode: str = "global"
    ) -> None:
        one_of(mode, "mode", MODES)
        self._handle = 0
        self.mode = mode
        self.device: Device = stream.device if isinstance(stream, Stream) else current_device()
        if stream is None:
            # It waits for no other, so that all others can be used meanwhile.
            self.stream = Stream.create(self.device, NON_BLOCKING)
        else:
            self.stream = resolve(stream, self.device)
        self.name = name
        self.count = 0
        self._capture: Capture | None = None
        self._blocks: tuple[Block, ...] = ()
        self._checks: tuple[Callable[[], object], ...] = ()
        self._producers: tuple[Stream, ...] = ()  # in which other libraries use some of its memory
        self._streams: dict[int, Stream] = {}  # that it was launched in
        self._waits = False
        self._state = "was not captured; write `with graph() as g:` and launch g after it"

    # ---- capturing --------------------------------------------------------------------------

    def __enter__(self) -> "Graph":
        if enclosing.get() is not None:
            raise CaptureError(
                f"{self!r} cannot be captured inside of the capture of another graph; capture it "
                "before, and launch one after the other"
            )
        self.begin()
        enclosing.set(self._capture)
        return self

    def __exit__(self, kind: Any, *exception: object) -> None:
        enclosing.set(None)
        try:
            if kind is None:
                self.end()
        finally:
            self.cancel()

    def begin(self) -> None:
        """Begin to record the stream; the default stream is none of it without a `with`.

        Raises:
            CaptureError: the graph is captured, or its stream is or cannot be.
            Unsupported: the device has no graphs.
        """
        if self._handle or self._capture is not None:
            raise CaptureError(f"{self!r} is captured once; make another graph")
        capture = Capture(self.stream, self.mode)
        capture.begin()
        self._capture = capture
        self._state = "is being captured; launch it after that"

    def end(self) -> None:
        """End the capture.

        Raises:
            CaptureError: a stream that joined has work on which nothing of the graph's stream
                depends, or the driver says that the capture is spoilt. Nothing is kept then.
        """
        capture = self._capture
        if capture is None:
            raise CaptureError(f"{self!r} is not being captured")
        self._state = "could not be captured; capture another one"
        try:
            self._handle, self.count = capture.end()
        finally:
            if not capture.is_active:
                self._capture = None
        self._blocks, self._checks = tuple(capture.blocks), tuple(capture.checks.values())
        self._producers = tuple(
            {block.producer for block in self._blocks if block.producer is not None}
        )
        self._waits = capture.waits

    def cancel(self) -> None:
        """End the capture and keep nothing of it; streams go on as before."""
        if self._capture is not None:
            self._state = "was not captured, as its capture did not come to its end"
            self._capture.cancel()
            self._capture = None

    # ---- running ----------------------------------------------------------------------------

    def launch(self, stream: StreamLike = 0) -> None:
        """Hand all of its work to `stream`; does not wait for it.

        It begins when earlier work of that stream is done, and later work waits for its end. Inside
        it keeps the order of its capture. It reads and writes the very memory that the captured
        calls named; if other libraries lent some of it, it is ordered with their work as a launch
        of a kernel is. Launches of one graph come one after another, whatever their streams. A
        kernel that fails is reported by the next synchronise, as ever; one with `debug=True` lets
        the launch wait.

        Raises:
            CaptureError: it is not captured or closed, or `stream` is being captured.
            ValueError: memory that it uses was given back by `close()`.
            DeviceMismatch: the stream is of another device.
        """
        device = self.device
        chosen = for_work(stream, device)
        if not self._handle:
            raise CaptureError(f"{self!r} {self._state}")
        if chosen.handle in device.capturing:
            raise CaptureError(
                f"{self!r} cannot become a part of another graph; launch one after the other"
            )
        try:
            for check in self._checks:
                check()
            if chosen.handle:
                self._streams[int(chosen.handle)] = chosen
            for block in self._blocks:
                block.use(chosen)
        except ValueError as error:
            error.add_note(f"It is used by {self!r}, which was captured before that.")
            raise
        for producer in self._producers:
            ordering.after(chosen, producer)
        device.activate()
        run, watching = device.backend.graph_launch, runtime.current.observer
        if watching is None:
            run(self._handle, chosen.handle)
        else:
            work = (run, self._handle, chosen.handle)
            watching.around(device, chosen.handle, observing.GRAPH, self.name, 0, *work)
        for producer in self._producers:
            ordering.after(producer, chosen)
        if self._waits:
            chosen.finish()

    replay = launch

    def close(self) -> None:
        """Give it back, and with it the memory that nobody else holds; launches of it go on to
        their end."""
        self.cancel()
        self._state = "was closed; capture another one"
        handle, self._handle = self._handle, 0
        if handle:
            _give_back(self.device, handle, self._streams)
        self._blocks, self._checks, self._producers, self._streams = (), (), (), {}

    def __reduce__(self) -> Any:
        raise TypeError(f"{self!r} belongs to this process; it cannot be pickled or copied")

    def __repr__(self) -> str:
        count = f"{self.count} operation{'s' * (self.count != 1)}"
        what = count if self._handle else "nothing captured"
        return f"<Graph {self.name!r} on {self.device}: {what}>"

    # Bound here, as module names may be gone by the time that the interpreter ends.
    def __del__(self, at_end: Callable[[], bool] = sys.is_finalizing) -> None:
        if not getattr(self, "_state", "") or at_end():
            return
        if self._capture is not None:
            finalize.give_back_handle(self._capture.cancel)
        if self._handle:
            _give_back(self.device, self._handle, self._streams)


def _give_back(device: Device, handle: int, streams: dict[int, Stream]) -> None:
    # Before streams, which it asks.
    finalize.give_back(
        pending.after, device, tuple(streams.values()), partial(_destroy, device, handle)
    )


def _destroy(device: Device, handle: int) -> None:
    device.activate()
    device.backend.graph_destroy(handle)
