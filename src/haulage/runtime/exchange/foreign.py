"""Arrays of other libraries: by DLPack, or by the CUDA array interface."""

import operator
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from haulage import config
from haulage.backends.base import NON_BLOCKING
from haulage.checks import flag
from haulage.errors import DeviceMismatch
from haulage.runtime import device as devices
from haulage.runtime import memory
from haulage.runtime.arrays import dlpack, layout, transfer
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.arrays.copying import DeviceNDArrayBase
from haulage.runtime.arrays.export import number_of, stream_numbered
from haulage.runtime.arrays.host_arrays import HostVisibleNDArray
from haulage.runtime.arrays.movers import moves_itself, read_in
from haulage.runtime.arrays.upload import device_array_for
from haulage.runtime.device import Device, current_device
from haulage.runtime.exchange.c_exchange import exchange_of
from haulage.runtime.stream import Stream, external_stream
from haulage.runtime.stream_arguments import StreamLike, binding, for_work
from haulage.runtime.transfers.host_copy import called

__all__ = [
    "as_argument",
    "as_cuda_array",
    "as_source",
    "from_cuda_array_interface",
    "from_dlpack",
    "is_foreign",
    "is_on_device",
]

INTERFACE = "__cuda_array_interface__"


def is_foreign(obj: Any) -> bool:
    """Whether `obj` is another library's array that DLPack or the CUDA array interface opens."""
    if isinstance(obj, (DeviceNDArrayBase, np.ndarray, np.generic)):
        return False
    # The interface is made anew each time that it is looked at.
    return hasattr(obj, "__dlpack__") or hasattr(obj, INTERFACE)


def is_on_device(obj: Any) -> bool:
    """Whether `obj` is a foreign array that is on a device: one with the CUDA array interface, or
    whose DLPack names memory that the host does not address."""
    if not is_foreign(obj):
        return False
    return hasattr(obj, INTERFACE) or not dlpack.on_host(dlpack.place_asked(obj))


# ---- DLPack -----------------------------------------------------------------------------------


def from_dlpack(
    obj: Any,
    device: str | Device | None = None,
    copy: bool | None = None,
    stream: StreamLike = 0,
) -> DeviceNDArray:
    """A device array over the memory of an array of another library, without a copy if possible.

    The library's queued work is waited for where DLPack provides for that: not on the CPU, for host
    memory that a GPU writes too (pinned, managed), which its library must have synchronised.

    Args:
        obj: an object with `__dlpack__` and `__dlpack_device__`. One of Haulage's own arrays gives
            a view.
        device: where the result is to be: a `Device` or a name as in `haulage.use`; None: the
            current device, for one of Haulage's own arrays its own.
        copy: True always copies; False never does; None does where the device cannot reach the
            memory, or cannot use it because its elements are not aligned.
        stream: that the result is bound to, and whose work waits for the producer's.

    Raises:
        TypeError: `obj` has no `__dlpack__`.
        BufferError: copy=False, and it takes a copy; or the elements have no NumPy dtype.
        DeviceMismatch: `obj` is on another device, and its library does not copy it.
    """
    target = None if device is None else devices.find(device, "from_dlpack: device")
    own = _own(obj)
    if moves_itself(obj):
        target = target or current_device()
        work = for_work(stream, target)
        # What is copied from is needed for the copy only.
        own = read_in(work, obj, "from_dlpack") if copy else obj.__haulage_lent__(work)
    if own is not None:
        return _own_from(own, target or own.device, copy, stream)
    if not hasattr(obj, "__dlpack__"):
        raise TypeError(
            f"from_dlpack({type(obj).__name__}): expected an object with __dlpack__; "
            "to_device takes what NumPy can convert"
        )
    copy = None if copy is None else flag(copy, "from_dlpack: copy")
    target = target or current_device()
    tensor = _tensor(obj, target, for_work(stream, target), copy)
    bound = binding(stream, target)
    if dlpack.reaches(target, tensor.place):
        array = _adopted(tensor, target, bound, _lender(obj, target, tensor.place))
        if copy or (copy is None and not _is_aligned(array)):
            return _copied(array, target, bound)
        _check_aligned(array)
        return array
    if copy is False:
        raise BufferError(
            f"memory at {dlpack.describe(tensor.place)} cannot be used on {target} without a copy"
        )
    return _uploaded(tensor.as_numpy(), target, bound)


def _own(obj: Any) -> DeviceNDArray | None:
    """The device array that one of our own arrays is, or shows; None for other objects."""
    if isinstance(obj, DeviceNDArray):
        return obj
    if isinstance(obj, HostVisibleNDArray) and transfer.block_of(obj) is not None:
        return obj.device_view()
    return None


def _own_from(
    array: DeviceNDArray, target: Device, copy: bool | None, stream: StreamLike
) -> DeviceNDArray:
    bound = binding(stream, target)
    if array.device is not target:
        if copy is False:
            raise BufferError(f"{array!r} cannot be used on {target} without a copy")
        return _uploaded(array.copy_to_host(), target, bound)
    if copy:
        return _copied(array, target, bound)
    array.block.use()
    return array.bind(bound) if bound else array._view(array.shape, array.strides)


def _tensor(obj: Any, target: Device, stream: Stream, copy: bool | None) -> dlpack.Tensor:
    """The tensor of `obj` where it is, or on the host if `target` does not reach it there."""
    place = dlpack.place_asked(obj)
    # A copy is made here if one is wanted, so that it is in memory of the device's own.
    forbidden = False if copy is False else None
    if dlpack.on_host(place) and not dlpack.moves_to(target, place):
        return dlpack.tensor_of(obj, copy=forbidden)
    if dlpack.reaches(target, place):
        return dlpack.tensor_of(obj, number_of(stream), forbidden)
    try:
        return dlpack.tensor_of(obj, copy=forbidden, to=dlpack.HOST)
    except BufferError as error:
        raise DeviceMismatch(
            f"{type(obj).__name__} object on {dlpack.describe(place)} cannot be used on {target}, "
            f"and was not copied to the host: {error}"
        ) from error


def over(device: Device, tensor: dlpack.Tensor) -> DeviceNDArray:
    """A device array over a tensor of the device, whose elements are aligned.

    Raises:
        BufferError: they are not.
    """
    array = _adopted(tensor, device, 0)
    _check_aligned(array)
    return array


def _adopted(
    tensor: dlpack.Tensor,
    device: Device,
    stream: StreamLike,
    lender: Stream | None = None,
    consumer: Stream | None = None,
) -> DeviceNDArray:
    if not dlpack.reaches(device, tensor.place):
        raise BufferError(
            f"the exporter gave memory at {dlpack.describe(tensor.place)}, which {device} does not "
            "reach, though it named another place before"
        )
    return _over(
        device,
        tensor.pointer,
        tensor.shape,
        tensor.strides,
        tensor.dtype,
        stream,
        tensor.readonly,
        tensor.owner,
        lender,
        consumer,
    )


def _over(
    device: Device,
    pointer: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype,
    stream: StreamLike,
    readonly: bool,
    owner: Any,
    lender: Stream | None = None,
    consumer: Stream | None = None,
) -> DeviceNDArray:
    """A device array over memory of others, which keeps `owner` alive.

    `lender` is the stream that the owner works on it in, if that is known; for `consumer` see
    `memory.lend`.
    """
    low, high = layout.extent(shape, strides, dtype.itemsize)
    start = pointer + low if high > low else 0
    on_host = start if device.properties.host_memory_is_device_memory else 0
    place = device, start, on_host, high - low, partial(id, owner)
    block = memory.adopt(*place) if lender is None else memory.lend(*place, lender, consumer)
    array = DeviceNDArray(shape, strides, dtype, stream, block)
    array.readonly = readonly
    return array


def _is_aligned(array: DeviceNDArray) -> bool:
    # Compiled code expects elements at multiples of their alignment.
    grain = array.dtype.alignment
    return not array.size or not any(
        address % grain
        for address in (
            array.device_pointer,
            *(step for n, step in zip(array.shape, array.strides, strict=True) if n > 1),
        )
    )


def _check_aligned(array: DeviceNDArray) -> None:
    if not _is_aligned(array):
        raise BufferError(
            f"the elements at {array.device_pointer:#x} with strides {array.strides} are not "
            f"aligned for {array.dtype} and cannot be used without a copy"
        )


def _copied(array: DeviceNDArray, device: Device, stream: StreamLike) -> DeviceNDArray:
    strides = layout.dense_strides(array.shape, array.strides, array.dtype.itemsize)
    made = DeviceNDArray(array.shape, strides, array.dtype, stream, device=device)
    made.copy_to_device(array, stream)
    return made


def _uploaded(host: np.ndarray, device: Device, stream: StreamLike) -> DeviceNDArray:
    made = device_array_for(host, stream, device)
    made.copy_to_device(host, stream)
    return made


# ---- the CUDA array interface -----------------------------------------------------------------


def as_cuda_array(obj: Any, sync: bool = True) -> DeviceNDArray:
    """A device array over the memory of `obj`, without a copy.

    Args:
        obj: an array on a device: Haulage's own (given back as it is; a SmartArray on the current
            device), one with the CUDA array interface, or one with `__dlpack__`.
        sync: as for `from_cuda_array_interface`.

    Raises:
        TypeError: it is none of these.
    """
    own = _own(obj)
    if own is not None:
        return own
    if moves_itself(obj):
        lent: DeviceNDArray = obj.__haulage_lent__(current_device().default_stream)
        return lent
    is_host_array = isinstance(obj, (np.ndarray, np.generic))
    exchange = None if is_host_array else exchange_of(type(obj))
    desc = getattr(obj, INTERFACE, None) if exchange is None else None
    if desc is not None and (_names_stream(desc) or not hasattr(obj, "__dlpack__")):
        return from_cuda_array_interface(desc, owner=obj, sync=sync)
    if hasattr(obj, "__dlpack__") and not is_host_array:
        return from_dlpack(obj, copy=False)
    raise TypeError(
        f"*obj* does not implement the cuda array interface: a {type(obj).__name__} is no array "
        "on a device; copy it there with to_device"
    )


def from_cuda_array_interface(desc: Any, owner: Any = None, sync: bool = True) -> DeviceNDArray:
    """A device array over the memory that a description names, on the current device.

    Args:
        desc: the dictionary of the CUDA array interface, versions 0 to 3. If it names a stream, the
            array is bound to it.
        owner: an object to keep alive as long as the memory is used.
        sync: whether work that uses the array starts only when the work in that stream is done,
            and later work in that stream, once the array is gone, only when the array's is. The
            host does not wait. `NUMBA_CUDA_ARRAY_INTERFACE_SYNC=0` stands for False.

    Raises:
        ValueError, TypeError: the description is not right.
        NotImplementedError: it has a mask.
        DeviceError: the current device does not reach the memory.
    """
    return _described(current_device(), desc, owner, sync)


def described(device: Device, desc: Any) -> DeviceNDArray:
    """A device array over what a description names, which keeps nothing and waits for nothing."""
    return _described(device, desc, None, sync=False)


def _described(
    device: Device, desc: Any, owner: Any, sync: bool = True, consumer: Stream | None = None
) -> DeviceNDArray:
    if not isinstance(desc, Mapping):
        raise TypeError(f"{desc!r} is no description of the CUDA array interface: expected a dict")
    for key in ("shape", "typestr", "data", "version"):
        if key not in desc:
            raise ValueError(f"the CUDA array interface {desc!r} has no {key!r}")
    if desc["version"] not in (0, 1, 2, 3):
        raise ValueError(
            f"version {desc['version']!r} of the CUDA array interface: expected 0, 1, 2 or 3"
        )
    if desc.get("mask") is not None:
        raise NotImplementedError(
            "Masked arrays are not supported: hand over the elements and the mask as two arrays"
        )
    dtype = _dtype(desc)
    shape = layout.normalise_shape(desc["shape"])
    given = desc.get("strides")
    strides = layout.c_strides(shape, dtype.itemsize) if given is None else _strides(given, shape)
    pointer, readonly = _data(desc["data"])
    if pointer == 0 and 0 not in shape:
        raise ValueError(f"the CUDA array interface has address 0 for shape {shape}")
    number = desc.get("stream")
    bound = device.default_stream if number is None else stream_numbered(device, number)
    bound_to = bound if bound.handle else 0
    lender = bound if number is not None and sync and config.interface_sync() else None
    memory_of = pointer, shape, strides, dtype
    array = _over(device, *memory_of, bound_to, readonly, owner, lender, consumer)
    _check_aligned(array)
    device.activate()
    if array.block.nbytes:  # else the address may be 0
        device.backend.check_address(array.block.device_ptr, array.block.nbytes)
    return array


def _dtype(desc: Any) -> np.dtype:
    dtype = transfer.check_dtype(desc["typestr"])
    parts = desc.get("descr")
    if dtype.kind != "V" or parts is None:
        return dtype
    fields = transfer.check_dtype([tuple(part) for part in parts])
    if fields.itemsize != dtype.itemsize:
        raise ValueError(
            f"descr {parts!r} takes {fields.itemsize} bytes, typestr {desc['typestr']!r} "
            f"{dtype.itemsize}"
        )
    # A description of one part without a name is the typestr once more.
    return dtype if fields.names == ("f0",) and parts[0][0] == "" else fields


def _strides(given: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = layout.whole_numbers(given)
    if len(strides) != len(shape):
        raise ValueError(f"strides {strides} do not fit shape {shape}: expected one for each axis")
    return strides


def _data(given: Any) -> tuple[int, bool]:
    try:
        pointer, readonly = given
        return operator.index(pointer or 0), bool(readonly)
    except (TypeError, ValueError):
        raise TypeError(
            f"data {given!r} of the CUDA array interface: expected (address, read-only)"
        ) from None


# ---- as arguments and as sources of copies ----------------------------------------------------


def as_argument(obj: Any, stream: Stream, kept: bool = False) -> DeviceNDArray | np.ndarray:
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
        array = as_argument(obj, own, kept)
        own.finish()
        return array
    if exchange_of(type(obj)) is None:
        desc = getattr(obj, INTERFACE, None)
        if desc is not None and (_names_stream(desc) or not hasattr(obj, "__dlpack__")):
            return _described(stream.device, desc, obj, consumer=None if kept else stream)
    place = dlpack.place_asked(obj)
    if dlpack.on_host(place) and not dlpack.moves_to(stream.device, place):
        return dlpack.tensor_of(obj).as_numpy()
    if not dlpack.reaches(stream.device, place):
        kind, number = place
        is_of_driver = dlpack.place_of(stream.device)[0] == kind
        name = f"{stream.device.kind}:{number}"
        how = f"; launch it inside of `with haulage.use({name!r}):`" if is_of_driver else ""
        raise DeviceMismatch(
            f"{type(obj).__name__} object on {dlpack.describe(place)} cannot be used in "
            f"{stream!r}{how}"
        )
    tensor = dlpack.tensor_of(obj, number_of(stream))
    lender = _lender(obj, stream.device, tensor.place)
    array = _adopted(tensor, stream.device, stream, lender, None if kept else stream)
    _check_aligned(array)
    return array


def _lender(obj: Any, device: Device, place: dlpack.Place) -> Stream | None:
    """The stream that the library of `obj` works in, if that can be found out."""
    exchange = exchange_of(type(obj))
    if exchange is None or device.properties.host_memory_is_device_memory:
        return None
    return external_stream(device, exchange.current_stream(*place))


def _names_stream(desc: Any) -> bool:
    # Before version 3 the interface said nothing of streams; DLPack does.
    return not isinstance(desc, Mapping) or "stream" in desc


def as_source(obj: Any, stream: Stream, kept: bool = False) -> DeviceNDArray | np.ndarray:
    """A foreign array as a copy in `stream` can read it, ordered after what its library queued.

    Memory of the host goes the way that NumPy prefers for it. For `kept` see `as_argument`. What
    moves itself comes to the stream's device.
    """
    if moves_itself(obj):
        return read_in(stream, obj, called())
    if hasattr(obj, "__array__") and not is_on_device(obj):
        return np.asarray(obj)
    return as_argument(obj, stream, kept)
