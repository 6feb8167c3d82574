"""Host memory that a device reaches, or copies from fast: pinned, mapped and managed."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from haulage.api.arrays import Shape, like, prepare
from haulage.backends.base import MAPPED
from haulage.checks import flag
from haulage.interruption import on_error
from haulage.runtime import memory
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.arrays.host_arrays import ManagedNDArray, MappedNDArray
from haulage.runtime.buffers import pinned_memory
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import current_device
from haulage.runtime.devices.stream_arguments import StreamLike, device_of
from haulage.runtime.geometry import dtypes, layout
from haulage.runtime.geometry.numpy_arrays import address_of


def pinned_array(
    shape: Shape, dtype: Any = np.float64, strides: Shape | None = None, order: str = "C"
) -> np.ndarray:
    """A new NumPy array, not initialised, in pinned memory.

    Copies in a stream from and to it may still run when the call that makes them returns.
    """
    sizes, steps, kind = prepare(shape, dtype, strides, order)
    steps = layout.normalise_strides(steps, sizes)
    return pinned_memory.pinned_array(current_device(), sizes, steps, kind)


def pinned_array_like(ary: Any) -> np.ndarray:
    """A new pinned array with the shape, dtype and order of axes of `ary`, not initialised."""
    shape, strides = like(ary)
    return pinned_memory.pinned_array(
        current_device(), shape, strides, dtypes.check_dtype(ary.dtype)
    )


def pinned_zeros(
    shape: Shape, dtype: Any = np.float64, strides: Shape | None = None, order: str = "C"
) -> np.ndarray:
    """A new pinned array, filled with zeros."""
    array = pinned_array(shape, dtype, strides, order)
    array[...] = np.zeros((), array.dtype)
    return array


def mapped_array(
    shape: Shape,
    dtype: Any = np.float64,
    strides: Shape | None = None,
    order: str = "C",
    stream: StreamLike = 0,
    portable: bool = False,
    wc: bool = False,
) -> MappedNDArray:
    """A new NumPy array in pinned memory that kernels reach as well, not initialised.

    Args:
        shape: a number or a tuple of numbers.
        dtype: anything that `np.dtype` takes.
        strides: in bytes; by default without gaps, in `order`.
        order: 'C' or 'F'.
        stream: that its copies use where they are given none.
        portable: pinned for copies, and in the reach of kernels, of all devices of the driver, not
            of the array's own alone. NVIDIA's and AMD's drivers have all mapped arrays so.
        wc: write-combined: faster for the host to write and the device to read, slow for the host
            to read.

    `portable` and `wc` are asked of the driver; the CPU device has no use for them. The array's
    `hints` show them.
    """
    return MappedNDArray(*prepare(shape, dtype, strides, order), stream, hints=_hints(portable, wc))


def mapped_array_like(
    ary: Any, stream: StreamLike = 0, portable: bool = False, wc: bool = False
) -> MappedNDArray:
    """A new mapped array with the shape, dtype and order of axes of `ary`, not initialised."""
    return MappedNDArray(*like(ary), ary.dtype, stream, hints=_hints(portable, wc))


def managed_array(
    shape: Shape,
    dtype: Any = np.float64,
    strides: Shape | None = None,
    order: str = "C",
    stream: StreamLike = 0,
    attach_global: bool = True,
) -> ManagedNDArray:
    """A new array in managed memory, which host and device both address; not initialised.

    Args:
        shape, dtype, strides, order, stream: as for `mapped_array`.
        attach_global: False makes it the host's at first, where the driver knows such a thing.
    """
    hints = () if flag(attach_global, "attach_global") else ("attach_host",)
    return ManagedNDArray(*prepare(shape, dtype, strides, order), stream, hints=hints)


def coarsegrain_array(
    shape: Shape, dtype: Any = np.float64, strides: Shape | None = None, order: str = "C"
) -> MappedNDArray:
    """A mapped array in coarse-grained memory: host and device see each other's writes only when
    a kernel begins or ends."""
    return MappedNDArray(*prepare(shape, dtype, strides, order), hints=("non_coherent",))


def finegrain_array(
    shape: Shape, dtype: Any = np.float64, strides: Shape | None = None, order: str = "C"
) -> MappedNDArray:
    """A mapped array in fine-grained memory: host and device see each other's writes while a kernel
    runs."""
    return MappedNDArray(*prepare(shape, dtype, strides, order), hints=("coherent",))


def _hints(portable: bool, wc: bool) -> tuple[str, ...]:
    return tuple(n for n, asked in (("portable", portable), ("wc", wc)) if flag(asked, n))


# ---- memory that the host has already -----------------------------------------------------------


@contextmanager
def pinned(*arylist: np.ndarray) -> Iterator[None]:
    """`with pinned(a, b):` pins the memory of existing NumPy arrays inside.

    Its end waits for the device, so that no copy still uses them.

    Raises:
        TypeError: something else than NumPy arrays.
        ValueError: an array with gaps, or one that is pinned already.
    """
    with register(*arylist):
        yield


class register:
    """Pin the memory of existing NumPy arrays until `deregister`, or to the end of a `with`."""

    def __init__(self, *arrays: np.ndarray) -> None:
        self._arrays: list[np.ndarray] = []
        device = current_device()
        with on_error(lambda: deregister(*self._arrays)):
            for array in arrays:
                pinned_memory.register(array, device)
                self._arrays.append(array)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: Any) -> None:
        deregister(*self._arrays)


def deregister(*arrays: np.ndarray) -> None:
    """Undo `register`; waits for the work of the device that may use the arrays.

    What waiting for one of them raises is raised when all are undone.
    """
    with ExitStack() as undo:
        for array in reversed(arrays):
            undo.callback(pinned_memory.unregister, array)


@contextmanager
def mapped(*arylist: np.ndarray, stream: StreamLike = 0) -> Iterator[Any]:
    """`with mapped(a) as d:` lets kernels reach the memory of existing NumPy arrays inside.

    Gives a device array over the same memory, bound to `stream`; for several arrays a list of them.
    Its end waits for the device; the device arrays are closed then. That of a read-only array is
    read-only.

    Raises:
        TypeError: something else than NumPy arrays.
        ValueError: an array with gaps, or one that is pinned already.
    """
    device = device_of(stream) or current_device()
    with ExitStack() as undo:
        arrays = []
        for host in arylist:
            array = _map(host, device, stream)
            undo.callback(pinned_memory.unregister, host)
            undo.callback(array.close)
            arrays.append(array)
        yield arrays[0] if len(arrays) == 1 else arrays


def _map(host: np.ndarray, device: Device, stream: StreamLike) -> DeviceNDArray:
    device_ptr = pinned_memory.register(host, device)
    low, high = layout.extent(host.shape, host.strides, host.itemsize)
    first = address_of(host) + low
    block = memory.adopt(device, device_ptr, first, high - low, lambda: None, MAPPED)
    array = DeviceNDArray(host.shape, host.strides, host.dtype, stream, block)
    array.readonly = not host.flags.writeable
    return array
