"""Recordings of streams, and the graphs that they become."""

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from haulage.backends.amd_driver.calls import Calls
from haulage.backends.gpu_driver.calls import A_GRAPH
from haulage.errors import CaptureError
from haulage.interruption import on_error

# The runtime's numbers: other calls stay possible; an event without timing.
_RELAXED = 2
_DISABLE_TIMING = 2
# From the first status about recordings to the last.
_SPOILT = range(900, 909)
_WAITS_FOR_DEFAULT = 906
# What nodes do. Until ROCm 5.2 numbers begin with 1 for kernels, and copies of one axis, from and
# to symbols have numbers of their own; later with 0.
_WORK_5 = (1, 2, 3, 9, 10, 11)
_WORK = (0, 1, 2)


@dataclass
class _Graph:
    """A graph's latest launch: an event behind it, and the stream that it is in. `kept` is called
    when it has run for the last time; `is_there`: the runtime has not taken it back."""

    event: int
    stream: int | None = None
    is_there: bool = True
    kept: list[Callable[[], None]] = field(default_factory=list)


class Graphs:
    """The runtime's graphs. Safe to use from any thread.

    The runtime does not say that launches of one graph never overlap, nor that a graph can go
    while it runs; here an event sees to both.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._lock = threading.Lock()
        self._graphs: dict[int, _Graph] = {}
        # By the stream that is recorded: what its graph keeps.
        self._kept: dict[int, list[Callable[[], None]]] = {}

    def begin(self, stream: int) -> None:
        """Record a stream from now on."""
        self._calls("hipStreamBeginCapture", stream, _RELAXED)
        self._kept[stream] = []

    def keep(self, stream: int, give_back: Callable[[], None]) -> None:
        """Something belongs to the graph that `stream` is recorded for, and is given back when that
        has run for the last time; never, if others record, or the stream joined later."""
        kept = self._kept.get(stream)
        if kept is not None:
            kept.append(give_back)

    def _drop(self, kept: list[Callable[[], None]]) -> None:
        for give_back in kept:
            give_back()

    def end(self, stream: int) -> tuple[int, int]:
        """(graph that can be launched, copies, fills and launches in it)."""
        kept = self._kept.pop(stream, [])
        with on_error(self._drop, kept):
            graph, count = self._end(stream, kept)
        return graph, count

    def _end(self, stream: int, kept: list[Callable[[], None]]) -> tuple[int, int]:
        recorded = ctypes.c_void_p()
        status = self._calls.status("hipStreamEndCapture", stream, ctypes.byref(recorded))
        if status:
            if status in _SPOILT:
                told = self._calls.told(status)
                raise CaptureError(f"the recording is spoilt, and is over: {told}")
            raise self._calls.failed("hipStreamEndCapture", (stream,), status)
        graph = 0
        try:
            try:
                count = self._count(recorded)
                graph = self._calls.handle("hipGraphInstantiate", recorded, None, None, 0)
            finally:
                self._calls("hipGraphDestroy", recorded)
            event = self._calls.handle("hipEventCreateWithFlags", _DISABLE_TIMING)
        except BaseException:
            if graph:
                self._calls.status("hipGraphExecDestroy", graph)
            raise
        with self._lock:
            self._graphs[graph] = _Graph(event, kept=kept)
            self._calls.names[graph] = A_GRAPH
        return graph, count

    def _count(self, recorded: ctypes.c_void_p) -> int:
        count = ctypes.c_size_t()
        self._calls("hipGraphGetNodes", recorded, None, ctypes.byref(count))
        if not count.value:
            return 0
        nodes = (ctypes.c_void_p * count.value)()
        self._calls("hipGraphGetNodes", recorded, ctypes.addressof(nodes), ctypes.byref(count))
        work = _WORK_5 if self._calls.version < (5, 3) else _WORK
        kind = ctypes.c_int()
        found = 0
        for node in nodes:
            self._calls("hipGraphNodeGetType", node, ctypes.byref(kind))
            found += kind.value in work
        return found

    def cancel(self, stream: int) -> None:
        """End a recording and keep nothing of it."""
        self._drop(self._kept.pop(stream, []))
        recorded = ctypes.c_void_p()
        status = self._calls.status("hipStreamEndCapture", stream, ctypes.byref(recorded))
        if not status and recorded:
            self._calls("hipGraphDestroy", recorded)
        elif status and status not in _SPOILT:
            raise self._calls.failed("hipStreamEndCapture", (stream,), status)

    def is_recording(self, stream: int) -> bool:
        """Whether a stream is recorded, by whomever."""
        answer = ctypes.c_int()
        status = self._calls.status("hipStreamIsCapturing", stream, ctypes.byref(answer))
        if status == _WAITS_FOR_DEFAULT:
            return False  # the default stream, while one that waits for it is recorded
        if status:
            raise self._calls.failed("hipStreamIsCapturing", (stream,), status)
        return bool(answer.value)

    def launch(self, graph: int, stream: int) -> None:
        """Hand a graph to a stream."""
        with self._lock:
            known = self._graphs[graph]
            if known.stream is not None and known.stream != stream:
                self._calls("hipStreamWaitEvent", stream, known.event, 0)
            self._calls("hipGraphLaunch", graph, stream)
            self._calls.last[stream] = graph
            try:
                self._calls("hipEventRecord", known.event, stream)
            except BaseException:
                # Nobody could wait for this launch later.
                self._calls.status("hipStreamSynchronize", stream)
                raise
            known.stream = stream

    def destroy(self, graph: int) -> None:
        """Give a graph back, when it has run."""
        with self._lock:
            known = self._graphs.pop(graph)
            name = self._calls.names.pop(graph, A_GRAPH)
        try:
            if known.stream is not None:
                self._calls("hipEventSynchronize", known.event)
                known.stream = None
            if known.is_there:
                self._calls("hipGraphExecDestroy", graph)
                known.is_there = False
                self._drop(known.kept)
            self._calls("hipEventDestroy", known.event)
        except BaseException:
            with self._lock:
                self._graphs[graph], self._calls.names[graph] = known, name
            raise
