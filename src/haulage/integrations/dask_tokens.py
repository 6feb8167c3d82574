"""What Dask hashes arrays and kernels by, and how many bytes it takes them to hold."""

from typing import Any

import numpy as np

from haulage.compiler.cache.values import options_text
from haulage.compiler.options import Options
from haulage.kernel.as_function import AsFunction
from haulage.kernel.launcher import Launcher
from haulage.runtime.arrays.array import DeviceNDArray, DeviceRecord
from haulage.runtime.arrays.host_arrays import HostVisibleNDArray
from haulage.smart import SmartArray


def _of_elements(kind: str, host: np.ndarray) -> Any:
    from dask.hashing import hash_buffer_hex

    # By value, whatever the device, the order in memory and the strides.
    values = np.ascontiguousarray(host)
    if values.dtype.names is not None:
        # The bytes between fields are of no meaning, and differ.
        plain = np.zeros(values.shape, values.dtype)
        plain[...] = values
        values = plain
    digest = hash_buffer_hex(values.reshape(-1).view(np.uint8)) if values.nbytes else ""
    # `str` has no words for how a dtype's fields lie.
    return kind, repr(host.dtype), host.dtype.itemsize, host.shape, digest


def _of_device_array(array: DeviceNDArray) -> Any:
    host = _on_host(array)
    return _of_elements("haulage.DeviceNDArray", host)


def _on_host(array: DeviceNDArray) -> np.ndarray:
    on_host = array.device.properties.host_memory_is_device_memory
    if on_host and array.size and array.is_c_contiguous() and array.dtype.itemsize:
        flat = array._view((array.nbytes,), (1,), dtype=np.dtype(np.uint8))
        return np.from_dlpack(flat).view(array.dtype).reshape(array.shape)
    host: np.ndarray = array.copy_to_host()
    return host


def _of_record(record: DeviceRecord) -> Any:
    return _of_elements("haulage.DeviceRecord", _on_host(record._array()))


def _of_host_visible(array: HostVisibleNDArray) -> Any:
    return _of_elements(f"haulage.{type(array).__name__}", np.asarray(array))


def _of_smart(array: SmartArray) -> Any:
    return _of_elements("haulage.SmartArray", array.get("host", "r"))


def _of_function(function: AsFunction) -> Any:
    from dask.tokenize import normalize_token

    # What it is made from again in another process: two that differ in that are two functions, as
    # the kernels of one Python function with two signatures are.
    return f"haulage.{type(function).__name__}", normalize_token(function._state())


def _of_options(options: Options) -> Any:
    return "haulage.Options", options_text(options)


def _of_launcher(launcher: Launcher) -> Any:
    sizes = launcher.configuration and (launcher.griddim, launcher.blockdim, launcher.sharedmem)
    return "haulage.Launcher", _of_function(launcher.kernel), sizes


TOKENS: dict[type, Any] = {
    DeviceNDArray: _of_device_array,
    DeviceRecord: _of_record,
    HostVisibleNDArray: _of_host_visible,
    SmartArray: _of_smart,
    AsFunction: _of_function,
    Options: _of_options,
    Launcher: _of_launcher,
}


def _size(array: Any) -> int:
    """The bytes of the elements that have memory of their own."""
    size = int(array.dtype.itemsize)
    for length, step in zip(array.shape, array.strides, strict=True):
        size *= length if step or not length else 1
    return size


SIZES: dict[type, Any] = {
    DeviceNDArray: _size,
    DeviceRecord: _size,
    HostVisibleNDArray: _size,
    SmartArray: _size,
}
