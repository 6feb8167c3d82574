"""Graphs of the HIP runtime, of which launches never overlap and which can go while they run."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from haulage.backends.gpu_driver import graphs
from haulage.backends.gpu_driver.calls import A_GRAPH, Calls
from haulage.backends.gpu_driver.streams import DISABLE_TIMING
from haulage.interruption import on_error


@dataclass
class _Graph:
    """A graph's latest launch: an event behind it, and the stream that it is in. `kept` is called
    when it has run for the last time; `is_there`: the runtime has not taken it back."""

    event: int
    stream: int | None = None
    is_there: bool = True
    kept: list[Callable[[], None]] = field(default_factory=list)


class Graphs(graphs.Graphs):
    """The runtime's graphs. Safe to use from any thread.

    The runtime does not say that launches of one graph never overlap, nor that a graph can go
    while it runs; here an event sees to both.
    """

    def __init__(self, calls: Calls) -> None:
        super().__init__(calls)
        self._lock = threading.Lock()
        self._graphs: dict[int, _Graph] = {}
        # By the stream that is recorded: what its graph keeps.
        self._kept: dict[int, list[Callable[[], None]]] = {}

    def begin(self, stream: int) -> None:
        """Record a stream from now on."""
        super().begin(stream)
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
            graph, count = super().end(stream)
        self._graphs[graph].kept = kept
        return graph, count

    def _made(self, graph: int) -> None:
        event = self._calls("EventCreate", DISABLE_TIMING)
        with self._lock:
            self._graphs[graph] = _Graph(event)

    def cancel(self, stream: int) -> None:
        """End a recording and keep nothing of it."""
        self._drop(self._kept.pop(stream, []))
        super().cancel(stream)

    def launch(self, graph: int, stream: int) -> None:
        """Hand a graph to a stream."""
        with self._lock:
            known = self._graphs[graph]
            if known.stream is not None and known.stream != stream:
                self._calls("StreamWaitEvent", stream, known.event, 0)
            self._calls("GraphLaunch", graph, stream)
            self._calls.last[stream] = graph
            try:
                self._calls("EventRecord", known.event, stream)
            except BaseException:
                # Nobody could wait for this launch later.
                self._calls.ask("StreamSynchronize", stream)
                raise
            known.stream = stream

    def destroy(self, graph: int) -> None:
        """Give a graph back, when it has run."""
        with self._lock:
            known = self._graphs.pop(graph)
            name = self._calls.names.pop(graph, A_GRAPH)
        try:
            if known.stream is not None:
                self._calls("EventSynchronize", known.event)
                known.stream = None
            if known.is_there:
                self._calls("GraphExecDestroy", graph)
                known.is_there = False
                self._drop(known.kept)
            self._calls("EventDestroy", known.event)
        except BaseException:
            with self._lock:
                self._graphs[graph], self._calls.names[graph] = known, name
            raise
