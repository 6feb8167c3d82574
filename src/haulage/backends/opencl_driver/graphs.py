"""Graphs: commands of streams that are recorded instead of run, and then run again and again.

The order in which commands were recorded is one that their dependencies allow, so a graph hands
them to one stream in that order.
"""

import itertools
from typing import Any

from haulage.backends.gpu_driver import graphs
from haulage.backends.gpu_driver.calls import A_GRAPH
from haulage.backends.opencl_driver.calls import Calls
from haulage.backends.opencl_driver.recordings import Recording
from haulage.backends.opencl_driver.streams import Command, Streams
from haulage.errors import DeviceError


class _Graph:
    """`last` is the event of the last launch's end, 0 before the first one."""

    def __init__(self, commands: list[tuple[str, Command, tuple[Any, ...]]]) -> None:
        self.commands = commands
        self.last = 0


class Graphs(graphs.Graphs):
    """All graphs. Safe to use from any thread."""

    def __init__(self, calls: Calls, streams: Streams) -> None:
        super().__init__(calls)
        self._streams = streams
        # Not the numbers of functions, which are addresses: errors name both.
        self._numbers = itertools.count(1)
        self._graphs: dict[int, _Graph] = {}

    def begin(self, handle: int) -> None:
        """Record what is handed to a stream."""
        with self._streams.lock:
            stream = self._streams.find(handle)
            if stream.recording is not None:
                raise DeviceError(f"stream {handle:#x} of OpenCL is recorded already")
            Recording(stream)

    def end(self, handle: int) -> tuple[int, int]:
        """(graph, number of its operations)."""
        recording = self._stop(handle)
        recording.check()
        number = next(self._numbers)
        self._graphs[number] = _Graph(recording.commands)
        self._calls.names[number] = A_GRAPH
        return number, len(recording.commands)

    def cancel(self, handle: int) -> None:
        """End a recording and keep nothing of it."""
        self._stop(handle)

    def is_recording(self, handle: int) -> bool:
        """Whether what is handed to a stream is recorded."""
        return self._streams.find(handle).recording is not None

    def _stop(self, handle: int) -> Recording:
        with self._streams.lock:
            recording = self._streams.find(handle).recording
            if recording is None or recording.origin != handle:
                raise DeviceError(f"no recording was begun in stream {handle:#x} of OpenCL")
            recording.end()
            return recording

    def launch(self, number: int, handle: int) -> None:
        """Run a graph in a stream, behind the launch before."""
        graph, streams = self._find(number), self._streams
        with streams.lock:
            streams.wait_for(handle, graph.last)
            for name, command, args in graph.commands:
                streams.enqueue(handle, name, command, args)
            held = streams.held(handle)
            streams.release(graph.last)
            graph.last = held
        self._calls.last[handle] = number

    def destroy(self, number: int) -> None:
        """Forget a graph; launches of it go on."""
        graph = self._find(number)
        del self._graphs[number]
        self._calls.names.pop(number, None)
        self._streams.release(graph.last)

    def _find(self, number: int) -> _Graph:
        graph = self._graphs.get(number)
        if graph is None:
            raise DeviceError(f"OpenCL has no graph {number:#x} of Haulage's; it may be destroyed")
        return graph
