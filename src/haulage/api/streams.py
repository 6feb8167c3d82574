"""Streams and events of the current device."""

from contextlib import AbstractContextManager

from haulage._core.waits import all_done
from haulage.runtime import memory
from haulage.runtime.devices import stream_arguments as streams
from haulage.runtime.devices.event import Event
from haulage.runtime.devices.graph import Graph
from haulage.runtime.devices.registry import current_device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.devices.stream_arguments import StreamLike


def stream(*, priority: int = 0) -> Stream:
    """A new stream of the current device.

    Args:
        priority: of work that could begin, that of streams with a smaller number begins first.
            `current_context().device.stream_priorities` has the least and the greatest one; those
            beyond count as these. The CPU has one priority only.

    Raises:
        TypeError: `priority` is no whole number.
    """
    return Stream.create(current_device(), priority=priority)


def default_stream() -> Stream:
    """The default stream of the current device; `stream=0` means the same."""
    return current_device().default_stream


def legacy_default_stream() -> Stream:
    """The default stream of the current device that all threads share; equal to
    `default_stream()`."""
    return streams.legacy_default_stream(current_device())


def per_thread_default_stream() -> Stream:
    """A stream of the current device that is the calling thread's own.

    It is ordered with the default stream as every other stream is, and is the same object each
    time in one thread.
    """
    return streams.per_thread_default_stream(current_device())


def external_stream(ptr: int) -> Stream:
    """A stream that someone else made, by the driver's handle; it stays theirs.

    Raises:
        TypeError: `ptr` is no int.
        DeviceError: the device knows no such stream.
    """
    return streams.external_stream(current_device(), ptr)


def event(timing: bool = True) -> Event:
    """A new event of the current device; without `timing` it takes no part in `elapsed_time`."""
    return Event(current_device(), timing)


def graph(stream: StreamLike = None, name: str = "graph", mode: str = "global") -> Graph:
    """A graph, to be captured by `with graph() as g:` and then run by `g.launch()`.

    Args:
        stream: the stream to capture; None: one that the graph makes. It cannot be the default
            stream; but inside of the `with` the calling thread's work for the default stream is
            work for this one.
        name: what `haulage trace` calls the graph.
        mode: who must not wait for the whole device during the capture, as `synchronize()` does,
            by the names of CUDA's modes. 'global': no thread of the process; 'thread_local': not
            the one that captures; 'relaxed': all may. Who may waits for all that is not captured.

    Raises:
        TypeError: `stream` is no stream.
        ValueError: there is no such mode.
    """
    return Graph(stream, name, mode)


def synchronize() -> None:
    """Wait for all work of the current device; while a graph is captured, for all that is not.

    Raises:
        KernelError: threads of a kernel had failed.
        CaptureError: a thread of the process captures a graph, and its mode forbids this thread to
            wait for the device: 'global', the default, forbids it to all threads; see `graph`.
    """
    if not all_done():
        current_device().synchronize()
        memory.reap()


def defer_cleanup() -> AbstractContextManager[None]:
    """`with defer_cleanup():` gives no memory, stream or event back before its end.

    It can be nested, and then holds until the outermost one ends; it holds for all threads. Only
    where a device has no room left is memory given back inside. That of a plug-in for the memory of
    the current device is entered too (see `set_memory_manager`).
    """
    return current_device().primary_context.defer_cleanup()
