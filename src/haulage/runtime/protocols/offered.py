"""What arrays of other libraries offer, read into `Strided` memory over theirs: a copy reads from
that, and an array of Haulage's is one.

`kind` is the class of what is given: `Strided` itself, or `DeviceNDArray`, which stands above.
"""

from functools import partial
from typing import Any, TypeVar

import numpy as np

from haulage import config
from haulage.backends.base import NON_BLOCKING
from haulage.errors import DeviceMismatch
from haulage.runtime import memory
from haulage.runtime.buffers.coherent import is_coherent, read_in
from haulage.runtime.buffers.host_copy import called
from haulage.runtime.buffers.strided import Strided
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.devices.stream_arguments import external_stream
from haulage.runtime.geometry import dtypes, layout
from haulage.runtime.protocols import cuda_array_interface, dlpack
from haulage.runtime.protocols.cuda_array_interface import (
    NAME,
    names_stream,
    number_of,
    stream_numbered,
)
from haulage.runtime.protocols.dlpack_exchange import exchange_of

_S = TypeVar("_S", bound=Strided)


def is_foreign(obj: Any) -> bool:
    """Whether `obj` is another library's array that DLPack or the CUDA array interface opens."""
    if isinstance(obj, (Strided, np.ndarray, np.generic)):
        return False
    # The interface is made anew each time that it is looked at.
    return hasattr(obj, "__dlpack__") or hasattr(obj, NAME)


def is_on_device(obj: Any) -> bool:
    """Whether `obj` is a foreign array that is on a device: one with the CUDA array interface, or
    whose DLPack names memory that the host does not address."""
    if not is_foreign(obj):
        return False
    return hasattr(obj, NAME) or not dlpack.on_host(dlpack.place_asked(obj))


def over_tensor(
    kind: type[_S],
    tensor: dlpack.Tensor,
    device: Device,
    stream: Stream | int = 0,
    producer: Stream | None = None,
    consumer: Stream | None = None,
) -> _S:
    """A tensor that a device reaches; for `producer` and `consumer` see
    `memory.adopt_from_stream`.

    Args:
        stream: that the array is bound to, or 0.

    Raises:
        BufferError: the device does not reach it.
    """
    if not dlpack.reaches(device, tensor.place):
        raise BufferError(
            f"the exporter gave memory at {dlpack.describe(tensor.place)}, which {device} does not "
            "reach, though it named another place before"
        )
    where = tensor.pointer, tensor.shape, tensor.strides, tensor.dtype
    return _over(kind, device, *where, stream, tensor.readonly, tensor.owner, producer, consumer)


def over_description(
    kind: type[_S],
    desc: Any,
    device: Device,
    owner: Any,
    sync: bool = True,
    consumer: Stream | None = None,
) -> _S:
    """What the CUDA array interface describes; see `exchange.foreign.from_cuda_array_interface`."""
    read = cuda_array_interface.read(desc)
    number = read.stream
    bound = device.default_stream if number is None else stream_numbered(device, number)
    bound_to = bound if bound.handle else 0
    producer = bound if number is not None and sync and config.interface_sync() else None
    where = read.pointer, read.shape, read.strides, read.dtype
    array = _over(kind, device, *where, bound_to, read.readonly, owner, producer, consumer)
    check_aligned(array)
    device.activate()
    if array.block.nbytes:  # else the address may be 0
        device.backend.check_address(array.block.device_ptr, array.block.nbytes)
    return array


def _over(
    kind: type[_S],
    device: Device,
    pointer: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype,
    stream: Stream | int,
    readonly: bool,
    owner: Any,
    producer: Stream | None,
    consumer: Stream | None,
) -> _S:
    """Memory of others, which keeps `owner` alive.

    `producer` is the stream that the owner works on it in, if that is known.
    """
    low, high = layout.extent(shape, strides, dtype.itemsize)
    start = pointer + low if high > low else 0
    on_host = start if device.properties.host_memory_is_device_memory else 0
    place = device, start, on_host, high - low, partial(id, owner)
    block = (
        memory.adopt(*place)
        if producer is None
        else memory.adopt_from_stream(*place, producer, consumer)
    )
    array = kind.__new__(kind)
    array._set(block, block.device_ptr - low, shape, strides, dtype, stream, readonly)
    return array


def is_aligned(array: Strided) -> bool:
    """Whether each element lies as its dtype wants."""
    # Compiled code expects elements at multiples of their alignment.
    return not array.size or dtypes.is_aligned(
        array.dtype, array.device_pointer, array.shape, array.strides
    )


def check_aligned(array: Strided) -> None:
    """Raise BufferError unless each element lies as its dtype wants."""
    if not is_aligned(array):
        raise BufferError(
            f"the elements at {array.device_pointer:#x} with strides {array.strides} are not "
            f"aligned for {array.dtype} and cannot be used without a copy"
        )


# ---- as arguments and as sources of copies ------------------------------------------------------


def as_argument(kind: type[_S], obj: Any, stream: Stream, kept: bool = False) -> _S | np.ndarray:
    """A foreign array as a kernel in `stream` takes it, ordered after what its library queued.

    That is an array over the same memory: a NumPy array for memory of the host. When it is gone,
    later work of its library waits for what used it, where the library's stream is known.

    Args:
        kept: whether other streams than this may use it, too.

    Raises:
        DeviceMismatch: it is on another device than the stream.
    """
    if stream.handle in stream.device.capturing:
        # What its library queued is no part of the graph, so it is waited for here.
        own = Stream.create(stream.device, NON_BLOCKING)
        array = as_argument(kind, obj, own, kept)
        own.finish()
        return array
    if exchange_of(type(obj)) is None:
        desc = getattr(obj, NAME, None)
        if desc is not None and (names_stream(desc) or not hasattr(obj, "__dlpack__")):
            return over_description(
                kind, desc, stream.device, obj, consumer=None if kept else stream
            )
    place = dlpack.place_asked(obj)
    if dlpack.on_host(place) and not dlpack.moves_to(stream.device, place):
        return dlpack.tensor_of(obj).as_numpy()
    if not dlpack.reaches(stream.device, place):
        code, number = place
        is_of_driver = dlpack.place_of(stream.device)[0] == code
        name = f"{stream.device.kind}:{number}"
        how = f"; launch it inside of `with haulage.use({name!r}):`" if is_of_driver else ""
        raise DeviceMismatch(
            f"{type(obj).__name__} object on {dlpack.describe(place)} cannot be used in "
            f"{stream!r}{how}"
        )
    tensor = dlpack.tensor_of(obj, number_of(stream))
    producer = producer_of(obj, stream.device, tensor.place)
    array = over_tensor(kind, tensor, stream.device, stream, producer, None if kept else stream)
    check_aligned(array)
    return array


def producer_of(obj: Any, device: Device, place: dlpack.Place) -> Stream | None:
    """The stream that the library of `obj` works in, if that can be found out."""
    exchange = exchange_of(type(obj))
    if exchange is None or device.properties.host_memory_is_device_memory:
        return None
    return external_stream(device, exchange.current_stream(*place))


def as_source(kind: type[_S], obj: Any, stream: Stream, kept: bool = False) -> _S | np.ndarray:
    """A foreign array as a copy in `stream` can read it, ordered after what its library queued.

    Memory of the host goes the way that NumPy prefers for it. For `kept` see `as_argument`. What
    moves itself comes to the stream's device.
    """
    if is_coherent(obj):
        there: _S = read_in(stream, obj, called())
        return there
    if hasattr(obj, "__array__") and not is_on_device(obj):
        return np.asarray(obj)
    return as_argument(kind, obj, stream, kept)
