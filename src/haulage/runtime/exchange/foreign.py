"""Arrays of other libraries: by DLPack, or by the CUDA array interface."""

from typing import Any

import numpy as np

from haulage.checks import flag
from haulage.errors import DeviceMismatch
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.arrays.host_arrays import HostVisibleNDArray
from haulage.runtime.arrays.new import copied, uploaded
from haulage.runtime.buffers import pinned_memory
from haulage.runtime.buffers.coherent import is_coherent, kept_in, read_in
from haulage.runtime.devices import registry
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import current_device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.devices.stream_arguments import StreamLike, binding, for_work
from haulage.runtime.protocols import dlpack, offered
from haulage.runtime.protocols.cuda_array_interface import NAME, names_stream, number_of
from haulage.runtime.protocols.dlpack_exchange import exchange_of

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
    target = None if device is None else registry.find(device, "from_dlpack: device")
    own = _own(obj)
    if is_coherent(obj):
        target = target or current_device()
        work = for_work(stream, target)
        # What is copied from is needed for the copy only.
        own = read_in(work, obj, "from_dlpack") if copy else kept_in(work, obj)
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
        array = offered.over_tensor(
            DeviceNDArray, tensor, target, bound, offered.producer_of(obj, target, tensor.place)
        )
        if copy or (copy is None and not offered.is_aligned(array)):
            return copied(array, bound, target)
        offered.check_aligned(array)
        return array
    if copy is False:
        raise BufferError(
            f"memory at {dlpack.describe(tensor.place)} cannot be used on {target} without a copy"
        )
    return uploaded(tensor.as_numpy(), bound, target)


def _own(obj: Any) -> DeviceNDArray | None:
    """The device array that one of our own arrays is, or shows; None for other objects."""
    if isinstance(obj, DeviceNDArray):
        return obj
    if isinstance(obj, HostVisibleNDArray) and pinned_memory.block_of(obj) is not None:
        return obj.device_view()
    return None


def _own_from(
    array: DeviceNDArray, target: Device, copy: bool | None, stream: StreamLike
) -> DeviceNDArray:
    bound = binding(stream, target)
    if array.device is not target:
        if copy is False:
            raise BufferError(f"{array!r} cannot be used on {target} without a copy")
        return uploaded(array.copy_to_host(), bound, target)
    if copy:
        return copied(array, bound, target)
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
    if is_coherent(obj):
        return kept_in(current_device().default_stream, obj)
    is_host_array = isinstance(obj, (np.ndarray, np.generic))
    exchange = None if is_host_array else exchange_of(type(obj))
    desc = getattr(obj, NAME, None) if exchange is None else None
    if desc is not None and (names_stream(desc) or not hasattr(obj, "__dlpack__")):
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
            host does not wait. `NUMBA_CUDA_ARRAY_NAME_SYNC=0` stands for False.

    Raises:
        ValueError, TypeError: the description is not right.
        NotImplementedError: it has a mask.
        DeviceError: the current device does not reach the memory.
    """
    return offered.over_description(DeviceNDArray, desc, current_device(), owner, sync)


# ---- as arguments of kernels --------------------------------------------------------------------


def over(device: Device, tensor: dlpack.Tensor) -> DeviceNDArray:
    """A device array over a tensor of the device, whose elements are aligned.

    Raises:
        BufferError: they are not.
    """
    array = offered.over_tensor(DeviceNDArray, tensor, device)
    offered.check_aligned(array)
    return array


def described(device: Device, desc: Any) -> DeviceNDArray:
    """A device array over what a description names, which keeps nothing and waits for nothing."""
    return offered.over_description(DeviceNDArray, desc, device, None, sync=False)
