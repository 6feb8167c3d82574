"""Streams and events of the current device."""

from contextlib import AbstractContextManager

from haulage.runtime import memory
from haulage.runtime import stream as streams
from haulage.runtime.context import Context
from haulage.runtime.device import current_device
from haulage.runtime.event import Event
from haulage.runtime.stream import Stream


def stream() -> Stream:
    """A new stream of the current device."""
    return Stream.create(current_device())


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


def synchronize() -> None:
    """Wait for all work of the current device.

    Raises:
        KernelError: threads of a kernel had failed.
    """
    current_device().synchronize()
    memory.reap()


def defer_cleanup() -> AbstractContextManager[None]:
    """`with defer_cleanup():` gives no memory, stream or event back before its end.

    It can be nested, and then holds until the outermost one ends; it holds for all threads. Only
    where a device has no room left is memory given back inside. That of a plug-in for the memory of
    the current device is entered too (see `set_memory_manager`).
    """
    return Context(current_device()).defer_cleanup()
