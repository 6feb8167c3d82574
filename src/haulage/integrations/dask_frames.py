"""Arrays as Dask sends them between processes and writes them to disk: a header and frames.

Where the host addresses a device's memory, the frame of an array without gaps is that memory, and
keeps it alive; work that writes to it is waited for. Of other arrays it is one copy on the host.
Who receives it makes one copy, to the device that is current there, so that memory is always of
that device's own, counted and limited as all of it.
"""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from haulage.runtime.arrays.array import DeviceNDArray, DeviceRecord
from haulage.runtime.arrays.host_arrays import (
    HostVisibleNDArray,
    ManagedNDArray,
    MappedNDArray,
    device_of_array,
)
from haulage.runtime.exchange.foreign import as_cuda_array
from haulage.runtime.geometry import layout
from haulage.smart import SmartArray

Header = dict[str, Any]
Sent = tuple[Header, list[Any]]

_BYTE = np.dtype(np.uint8)


# `haulage.transfers()` names these functions, as `runtime/buffers/host_copy.py` translates them.
def dask_serialise(array: DeviceNDArray) -> Sent:
    """The header and the frame of a device array of any strides."""
    once, header = _described(array)
    if not once.size or not once.dtype.itemsize:
        return header, []
    if not _is_dense(once):
        host = once.copy_to_host()
        header["strides"] = host.strides
        return header, [_bytes_of(host)]
    flat = _flat(once)
    if flat.device.properties.host_memory_is_device_memory:
        # It waits for the work that uses the array, and holds the memory.
        return header, [np.from_dlpack(flat).data]
    return header, [flat.copy_to_host().data]


def dask_deserialise(header: Header, frames: list[Any]) -> DeviceNDArray:
    """A device array on the current device, from what `dask_serialise` made."""
    dtype = pickle.loads(header["dtype"])
    shape, strides = tuple(header["shape"]), tuple(header["strides"])
    made = DeviceNDArray(shape, strides, dtype)
    if frames:
        made.copy_to_device(np.ndarray(shape, dtype, frames[0], 0, strides))
    return _as_sent(made, header)


def _described(array: DeviceNDArray) -> tuple[DeviceNDArray, Header]:
    """Each element once, where axes repeat some; and the header of that."""
    once = array
    repeated = [n > 1 and step == 0 for n, step in zip(array.shape, array.strides, strict=True)]
    if any(repeated):
        once = array[tuple(slice(0, 1) if each else slice(None) for each in repeated)]
    strides = layout.dense_strides(once.shape, once.strides, once.dtype.itemsize)
    header = {
        "dtype": pickle.dumps(array.dtype),
        "shape": once.shape,
        "strides": strides,
        "readonly": array.readonly,
    }
    if any(repeated):
        header["repeated"] = array.shape
    return once, header


def _as_sent(made: DeviceNDArray, header: Header) -> DeviceNDArray:
    whole = header.get("repeated")
    if whole is not None:
        # Of the axes that the sender repeated only one element came.
        pairs = zip(made.shape, whole, made.strides, strict=True)
        strides = tuple(step if n == wanted else 0 for n, wanted, step in pairs)
        made = made._view(tuple(whole), strides)
    if header["readonly"]:
        made._protect()
    return made


def _is_dense(array: DeviceNDArray) -> bool:
    dense = layout.dense_strides(array.shape, array.strides, array.dtype.itemsize)
    # The stride of an axis of one element says nothing.
    return all(
        n == 1 or step == packed
        for n, step, packed in zip(array.shape, array.strides, dense, strict=True)
    )


def _flat(array: DeviceNDArray) -> DeviceNDArray:
    """The bytes of an array without gaps."""
    return array._view((array.nbytes,), (1,), dtype=_BYTE)


def _bytes_of(host: np.ndarray) -> memoryview:
    """The bytes of a NumPy array without gaps, which it keeps alive."""
    return host.reshape(-1, order="A").view(_BYTE).data


# ---- records ----------------------------------------------------------------------------------


def _send_record(record: DeviceRecord) -> Sent:
    return dask_serialise(record._array())


def _receive_record(header: Header, frames: list[Any]) -> DeviceRecord:
    made: DeviceRecord = dask_deserialise(header, frames)._as(DeviceRecord)
    return made


# ---- memory of the host -----------------------------------------------------------------------


def _host_frames(host: np.ndarray, header: Header) -> Sent:
    if 0 in host.strides or not (host.flags.c_contiguous or host.flags.f_contiguous):
        host = host.copy("C")
    header |= {
        "dtype": pickle.dumps(host.dtype),
        "shape": host.shape,
        "order": "C" if host.flags.c_contiguous else "F",
    }
    return header, [_bytes_of(host)] if host.nbytes else []


def _host_array(header: Header, frames: list[Any]) -> np.ndarray:
    dtype = pickle.loads(header["dtype"])
    shape = tuple(header["shape"])
    if not frames:
        return np.empty(shape, dtype, header["order"])
    return np.ndarray(shape, dtype, frames[0], order=header["order"])


def _send_host_visible(array: HostVisibleNDArray) -> Sent:
    device = device_of_array(array)
    if device is not None:
        # Its device may be writing to it.
        array.device_view()._settle(device.default_stream)
    header: Header = {
        "kind": None if device is None else type(array).__name__,
        "hints": array.hints,
        "writeable": array.flags.writeable,
    }
    return _host_frames(np.asarray(array), header)


def _receive_host_visible(header: Header, frames: list[Any]) -> np.ndarray:
    host = _host_array(header, frames)
    kind = {"MappedNDArray": MappedNDArray, "ManagedNDArray": ManagedNDArray}.get(header["kind"])
    if kind is None:  # it was a copy that NumPy had made of one
        return host.copy("K")
    made = kind(host.shape, host.strides, host.dtype, hints=tuple(header["hints"]))
    made[...] = host
    made.flags.writeable = header["writeable"]
    return made


def _send_smart(array: SmartArray) -> Sent:
    return _host_frames(array.get("host", "r"), {"class": pickle.dumps(type(array))})


def _receive_smart(header: Header, frames: list[Any]) -> SmartArray:
    kind = pickle.loads(header["class"])
    made: SmartArray = kind.__new__(kind)
    SmartArray.__init__(made, _host_array(header, frames))
    return made


Pair = tuple[Callable[[Any], Sent], Callable[[Header, list[Any]], Any]]

BY_CLASS: dict[type, Pair] = {
    DeviceNDArray: (dask_serialise, dask_deserialise),
    DeviceRecord: (_send_record, _receive_record),
    HostVisibleNDArray: (_send_host_visible, _receive_host_visible),
    SmartArray: (_send_smart, _receive_smart),
}


# ---- the family "cuda" ------------------------------------------------------------------------


def cuda_serialise(array: DeviceNDArray) -> Sent:
    """The header, and the memory itself as a device array of bytes, for UCX and its like.

    Raises:
        NotImplementedError: the array is on a device without a CUDA array interface; `distributed`
            then takes the next family.
    """
    if not array.device.protocols.cuda:
        raise NotImplementedError(f"{array!r} has no CUDA array interface")
    once, header = _described(array)
    if not once.size or not once.dtype.itemsize:
        return header, []
    if not _is_dense(once):
        once = once.__copy__()
        header["strides"] = once.strides
    # The other library does not look at our streams.
    once._settle(once.device.default_stream)
    once.device.default_stream.synchronize()
    return header, [_flat(once)]


def cuda_deserialise(header: Header, frames: list[Any]) -> DeviceNDArray:
    """A device array over the memory that was received, which it holds; nothing is copied."""
    dtype = pickle.loads(header["dtype"])
    shape, strides = tuple(header["shape"]), tuple(header["strides"])
    if frames:
        made = as_cuda_array(frames[0])._view(shape, strides, dtype=dtype)
    else:
        made = DeviceNDArray(shape, strides, dtype)
    return _as_sent(made, header)


def _send_cuda_record(record: DeviceRecord) -> Sent:
    return cuda_serialise(record._array())


def _receive_cuda_record(header: Header, frames: list[Any]) -> DeviceRecord:
    made: DeviceRecord = cuda_deserialise(header, frames)._as(DeviceRecord)
    return made


CUDA_BY_CLASS: dict[type, Pair] = {
    DeviceNDArray: (cuda_serialise, cuda_deserialise),
    DeviceRecord: (_send_cuda_record, _receive_cuda_record),
}
