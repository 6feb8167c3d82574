"""Recordings of streams, and the graphs that they become."""

from typing import Any

from haulage.backends.gpu_driver.calls import A_GRAPH
from haulage.backends.nvidia_driver.calls import Calls, bindings, told
from haulage.errors import CaptureError

# The driver's numbers: other calls stay possible; what the nodes of a graph do.
_RELAXED = 2
_KERNEL, _COPY, _FILL = 0, 1, 2
# From the first status about recordings to the last.
_SPOILT = range(900, 909)
_WAITS_FOR_DEFAULT = 906


class Graphs:
    """The driver's graphs. Safe to use from any thread."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._driver = bindings()

    def begin(self, stream: int) -> None:
        """Record a stream from now on."""
        mode = self._driver.CUstreamCaptureMode(_RELAXED)
        self._calls(self._driver.cuStreamBeginCapture, stream, mode)

    def end(self, stream: int) -> tuple[int, int]:
        """(graph that can be launched, copies, fills and launches in it)."""
        driver = self._driver
        status, recorded = driver.cuStreamEndCapture(stream)
        if status:
            if int(status) in _SPOILT:
                raise CaptureError(f"the recording is spoilt, and is over: {told(int(status))}")
            raise self._calls.failed("cuStreamEndCapture", (stream,), int(status))
        try:
            count = self._count(recorded)
            graph = int(self._calls(driver.cuGraphInstantiate, recorded, 0))
            self._calls.names[graph] = A_GRAPH
        finally:
            self._calls(driver.cuGraphDestroy, recorded)
        return graph, count

    def _count(self, recorded: Any) -> int:
        driver = self._driver
        _, count = self._calls(driver.cuGraphGetNodes, recorded, 0)
        nodes, _ = self._calls(driver.cuGraphGetNodes, recorded, count) if count else ([], 0)
        kinds = [int(self._calls(driver.cuGraphNodeGetType, node)) for node in nodes]
        return sum(kind in (_KERNEL, _COPY, _FILL) for kind in kinds)

    def cancel(self, stream: int) -> None:
        """End a recording and keep nothing of it."""
        driver = self._driver
        status, recorded = driver.cuStreamEndCapture(stream)
        if not status and int(recorded):
            self._calls(driver.cuGraphDestroy, recorded)
        elif status and int(status) not in _SPOILT:
            raise self._calls.failed("cuStreamEndCapture", (stream,), int(status))

    def is_recording(self, stream: int) -> bool:
        """Whether a stream is recorded, by whomever."""
        status, answer = self._driver.cuStreamIsCapturing(stream)
        if int(status) == _WAITS_FOR_DEFAULT:
            return False  # the default stream, while one that waits for it is recorded
        if status:
            raise self._calls.failed("cuStreamIsCapturing", (stream,), int(status))
        return bool(int(answer))

    def launch(self, graph: int, stream: int) -> None:
        """Hand a graph to a stream."""
        self._calls(self._driver.cuGraphLaunch, graph, stream)
        self._calls.last[stream] = graph

    def destroy(self, graph: int) -> None:
        """Give a graph back."""
        self._calls.names.pop(graph, None)
        self._calls(self._driver.cuGraphExecDestroy, graph)
