"""Recordings of streams, and the graphs that they become."""

from haulage.backends.gpu_driver.calls import A_GRAPH, Calls
from haulage.errors import CaptureError

# The mode of recordings in which other calls stay possible.
_RELAXED = 2
# From the first status about recordings to the last.
_SPOILT = range(900, 909)
_WAITS_FOR_DEFAULT = 906


class Graphs:
    """The driver's graphs. Safe to use from any thread."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def begin(self, stream: int) -> None:
        """Record a stream from now on."""
        self._calls("StreamBeginCapture", stream, _RELAXED)

    def end(self, stream: int) -> tuple[int, int]:
        """(graph that can be launched, copies, fills and launches in it)."""
        status, recorded = self._calls.ask("StreamEndCapture", stream)
        if status in _SPOILT:
            told = self._calls.told(status)
            raise CaptureError(f"the recording is spoilt, and is over: {told}")
        self._calls.check(status, "StreamEndCapture", stream)
        graph = 0
        try:
            try:
                count = self._calls.nodes(recorded)
                graph = self._calls("GraphInstantiate", recorded)
            finally:
                self._calls("GraphDestroy", recorded)
            self._made(graph)
        except BaseException:
            if graph:
                self._calls.ask("GraphExecDestroy", graph)
            raise
        self._calls.names[graph] = A_GRAPH
        return graph, count

    def _made(self, graph: int) -> None:
        """Make what a new graph needs besides."""

    def cancel(self, stream: int) -> None:
        """End a recording and keep nothing of it."""
        status, recorded = self._calls.ask("StreamEndCapture", stream)
        if recorded:
            self._calls("GraphDestroy", recorded)
        elif status not in _SPOILT:
            self._calls.check(status, "StreamEndCapture", stream)

    def is_recording(self, stream: int) -> bool:
        """Whether a stream is recorded, by whomever."""
        status, answer = self._calls.ask("StreamIsCapturing", stream)
        if status == _WAITS_FOR_DEFAULT:
            return False  # the default stream, while one that waits for it is recorded
        if status:
            raise self._calls.failed("StreamIsCapturing", (stream,), status)
        return bool(answer)

    def launch(self, graph: int, stream: int) -> None:
        """Hand a graph to a stream."""
        self._calls("GraphLaunch", graph, stream)
        self._calls.last[stream] = graph

    def destroy(self, graph: int) -> None:
        """Give a graph back."""
        self._calls.names.pop(graph, None)
        self._calls("GraphExecDestroy", graph)
