"""What programs can name as a stream, and which stream they mean by it."""

import threading
from typing import Any, Literal, Protocol

from haulage.checks import whole_number
from haulage.errors import DeviceMismatch
from haulage.runtime.devices import capture
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import NUMBERS, Stream, has_only_ours


class ForeignStream(Protocol):
    """A stream of another package that speaks the CUDA stream protocol.

    PyTorch's of before 2.10 have `cuda_stream`, the driver's handle, in its place.
    """

    def __cuda_stream__(self) -> tuple[int, int]:
        """(version of the protocol: 0, the driver's handle)"""
        ...


StreamLike = Stream | ForeignStream | int | None

_OF_BINDINGS = ("CUstream", "cudaStream_t")


def resolve(stream: StreamLike, device: Device) -> Stream:
    """The stream meant by an argument; 0 and None mean the default stream of `device`.

    An object of another package with `__cuda_stream__` is taken as `external_stream` does, and one
    with `cuda_stream` (PyTorch's of before 2.10).

    Raises:
        DeviceMismatch: it is a stream of another device.
        DeviceError: the device has no stream with the handle that `__cuda_stream__` gives.
        TypeError: it is something else.
    """
    if isinstance(stream, Stream):
        if stream.device is not device:
            raise DeviceMismatch(
                f"{stream!r} cannot take work of {device}; use a stream made on that device"
            )
        return stream
    if stream is None or (isinstance(stream, int) and stream == 0):
        return device.default_stream
    if is_foreign(stream):
        return external_stream(device, foreign_handle(stream), keeps=stream)
    raise TypeError(
        f"stream {stream!r}: expected a stream made by stream(), an object with __cuda_stream__, 0 "
        "or None; external_stream(handle) makes one of a driver's handle"
    )


def for_work(stream: StreamLike, device: Device, bound: "Stream | Literal[0] | int" = 0) -> Stream:
    """The stream that takes work for which `stream` was named: as `resolve`, but where none was
    named `bound`, if that is a stream; and inside of `with graph()` that of the graph, unless
    `bound` is captured too.

    Raises:
        CaptureError: it is the default stream, and one that it waits for is captured.
        DeviceMismatch, DeviceError, TypeError: as `resolve`.
    """
    if isinstance(stream, Stream) and stream.device is device:
        if device.capturing:
            capture.check_takes_work(stream)
        return stream
    chosen = resolve(stream, device)
    is_named = bool(chosen.handle)
    if not is_named and isinstance(bound, Stream):
        chosen = bound
    if device.capturing:
        if not is_named and chosen.handle not in device.capturing:
            chosen = capture.enclosing_stream(device) or chosen
        capture.check_takes_work(chosen)
    return chosen


def binding(stream: StreamLike, device: Device) -> Stream | Literal[0]:
    """What an array is bound to that was made with an argument `stream`: 0 unless one was named.

    The default stream counts as named where the argument is that stream's object.
    """
    bound = resolve(stream, device)
    return bound if bound.handle or isinstance(stream, Stream) else 0


def is_foreign(stream: Any) -> bool:
    """Whether it is a stream of another package, which `resolve` takes."""
    return not isinstance(stream, (Stream, type, int)) and (
        hasattr(stream, "__cuda_stream__")
        or hasattr(stream, "cuda_stream")
        or _is_of_bindings(stream)
    )


def _is_of_bindings(stream: Any) -> bool:
    """Whether it is of a class of cuda-bindings' own, which in 13.0 have no `__cuda_stream__`."""
    kind = type(stream)
    return kind.__name__ in _OF_BINDINGS and kind.__module__.startswith("cuda.bindings.")


def foreign_handle(stream: Any) -> int:
    """The driver's handle of a stream for which `is_foreign` holds.

    Raises:
        TypeError: it does not give it as the protocol asks.
        ValueError: it is no address.
    """
    ask = getattr(stream, "__cuda_stream__", None)
    if ask is not None:
        given = ask()
    else:
        given = 0, stream if _is_of_bindings(stream) else stream.cuda_stream
    if not isinstance(given, tuple) or len(given) != 2 or given[0] != 0:
        raise TypeError(
            f"stream {stream!r}: __cuda_stream__() gave {given!r}; expected (0, handle), version 0 "
            "of the protocol"
        )
    handle = given[1]  # of the driver's own class, in some packages
    if isinstance(handle, (bool, float, str)) or not hasattr(handle, "__int__"):
        raise TypeError(f"stream {stream!r}: its handle is {handle!r}; expected an int")
    number = int(handle)
    if not 0 <= number < 1 << 64:
        raise ValueError(f"stream {stream!r}: its handle is {number}; expected an address")
    return number


def external_stream(device: Device, handle: int, keeps: Any = None) -> Stream:
    """The stream of `device` that someone else made, by the driver's handle; 0: the default one.

    1 and 2 are CUDA's numbers for the legacy default stream and for the calling thread's own.
    It is never destroyed here. Who made it must keep it until the arrays that were used in it are
    gone, or have been waited for by a synchronise of the device; `keeps` is an object that is kept
    until then.

    Raises:
        TypeError: `handle` is no int.
        ValueError: it is no address.
        DeviceError: the device has no such stream.
    """
    handle = whole_number(handle, "external_stream: the driver's handle", 0, (1 << 64) - 1)
    if handle == 0:
        return device.default_stream
    if handle == NUMBERS["legacy"]:
        return legacy_default_stream(device)
    if handle == NUMBERS["per-thread"]:
        if has_only_ours(device):
            return per_thread_default_stream(device)
        return known_stream(keeps, device, handle)
    device.activate()
    if handle not in device.capturing:
        # To ask whether it is done would spoil a capture of its owner's.
        device.backend.capture_query(handle)
    return known_stream(keeps, device, handle)


def known_stream(given: Any, device: Device, handle: int) -> Stream:
    """The stream of `device` that `given` is, a `Stream` or an object of another package; `handle`,
    which is no default stream's, is the driver's, which has it."""
    if isinstance(given, Stream):
        return given
    if handle == NUMBERS["per-thread"] and not has_only_ours(device):
        # The driver's, which other libraries use; it is another one in each thread.
        return Stream(device, handle, role="per-thread", blocking=True)
    # One of our own is given as such: the object that owns it must not go before.
    return device.streams.get(handle) or Stream(device, handle, role="external", keeps=given)


def legacy_default_stream(device: Device) -> Stream:
    """The default stream of `device`, which all threads share and which waits for all others."""
    return Stream(device, 0, role="legacy")


_of_thread = threading.local()
_of_parents: list[threading.local] = []


def per_thread_default_stream(device: Device) -> Stream:
    """The calling thread's own stream of `device`: the same one each time, gone with the thread.

    Like other streams it waits for the default stream, and that for it. It is made here: the
    driver's own, which is `external_stream(device, 2)`, cannot be asked for by other threads, which
    give memory back too.
    """
    streams: dict[Device, Stream] | None = getattr(_of_thread, "streams", None)
    if streams is None:
        streams = _of_thread.streams = {}
    stream = streams.get(device)
    if stream is None:
        stream = streams[device] = Stream.create(device, role="per-thread")
    return stream


def start_anew() -> None:
    """After a fork, in the child: each thread makes a new stream of its own."""
    # The parent's thread goes on with the stream that it has. Here it is kept, as to
    # give it back takes locks that may have been held, and are renewed only later.
    global _of_thread
    _of_parents.append(_of_thread)
    _of_thread = threading.local()


class ForeignHandle:
    """A stream of another package as it was when it was named in a launch."""

    __slots__ = ("given", "handle")

    def __init__(self, given: Any) -> None:
        self.given = given
        self.handle = foreign_handle(given)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


def device_of(stream: StreamLike) -> Device | None:
    """The device of a stream; None where it is one of any device: 0, None, a foreign one."""
    return stream.device if isinstance(stream, Stream) else None
