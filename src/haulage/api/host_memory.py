"""Host memory that a device reaches, or copies from fast: pinned, mapped and managed."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import numpy as np

from haulage._core.arrays import let_make_host, new_host_array, pinned_array
from haulage._core.arrays import managed_array as managed_array
from haulage._core.arrays import mapped_array as mapped_array
from haulage.api.arrays import Shape, like, note_dtype, order_of, prepare
from haulage.backends.base import (
    ATTACH_HOST,
    COHERENT,
    MANAGED,
    MAPPED,
    NON_COHERENT,
    PINNED,
    PORTABLE,
    WRITE_COMBINED,
)
from haulage.checks import flag
from haulage.interruption import on_error
from haulage.runtime import memory
from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.arrays.host_arrays import (
    HostVisibleNDArray,
    ManagedNDArray,
    MappedNDArray,
)
from haulage.runtime.buffers import pinned_memory
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.registry import current_device
from haulage.runtime.devices.stream_arguments import StreamLike, device_of
from haulage.runtime.geometry import dtypes, layout
from haulage.runtime.geometry.numpy_arrays import address_of

# What is asked of memory: (its kind, its flags), and the names of the flags.
_Memory = tuple[tuple[str, int], tuple[str, ...]]

_PINNED: _Memory = (PINNED, 0), ()
_MAPPED: dict[tuple[bool, bool], _Memory] = {
    (False, False): ((MAPPED, 0), ()),
    (True, False): ((MAPPED, PORTABLE), ("portable",)),
    (False, True): ((MAPPED, WRITE_COMBINED), ("wc",)),
    (True, True): ((MAPPED, PORTABLE | WRITE_COMBINED), ("portable", "wc")),
}
_PLAIN = _MAPPED[False, False]
_MANAGED: dict[bool, _Memory] = {
    True: ((MANAGED, 0), ()),
    False: ((MANAGED, ATTACH_HOST), ("attach_host",)),
}
_COARSE: _Memory = (MAPPED, NON_COHERENT), ("non_coherent",)
_FINE: _Memory = (MAPPED, COHERENT), ("coherent",)

_HostVisible = TypeVar("_HostVisible", bound=HostVisibleNDArray)


def _pinned_array(
    shape: Shape, dtype: Any = np.float64, strides: Shape | None = None, order: str = "C"
) -> np.ndarray:
    """`pinned_array` where it takes more than a look."""
    sizes, steps, kind = prepare(shape, dtype, strides, order)
    note_dtype(dtype, kind)
    steps = layout.normalise_strides(steps, sizes)
    return pinned_memory.pinned_array(current_device(), sizes, steps, kind)


def pinned_array_like(ary: Any) -> np.ndarray:
    """A new pinned array with the shape, dtype and order of axes of `ary`, not initialised."""
    order = order_of(ary)
    if order is not None:
        made = new_host_array(np.ndarray, ary.shape, ary.dtype, order, 0, *_PINNED)
        if made is not None:
            return made
    shape, strides = like(ary)
    kind = dtypes.check_dtype(ary.dtype)
    note_dtype(ary.dtype, kind)
    return pinned_memory.pinned_array(current_device(), shape, strides, kind)


def pinned_zeros(
    shape: Shape, dtype: Any = np.float64, strides: Shape | None = None, order: str = "C"
) -> np.ndarray:
    """A new pinned array, filled with zeros."""
    array = pinned_array(shape, dtype, strides, order)
    array[...] = np.zeros((), array.dtype)
    return array


def _mapped_array(
    shape: Shape,
    dtype: Any = np.float64,
    strides: Shape | None = None,
    order: str = "C",
    stream: StreamLike = 0,
    portable: bool = False,
    wc: bool = False,
) -> MappedNDArray:
    """`mapped_array` where it takes more than a look."""
    asked = _MAPPED[flag(portable, "portable"), flag(wc, "wc")]
    if strides is None:
        made = new_host_array(MappedNDArray, shape, dtype, order, stream, *asked)
        if made is not None:
            return made
    return _host_visible(MappedNDArray, shape, dtype, strides, order, stream, asked)


def mapped_array_like(
    ary: Any, stream: StreamLike = 0, portable: bool = False, wc: bool = False
) -> MappedNDArray:
    """A new mapped array with the shape, dtype and order of axes of `ary`, not initialised."""
    asked = _PLAIN
    if not (portable is False and wc is False):
        asked = _MAPPED[flag(portable, "portable"), flag(wc, "wc")]
    order = order_of(ary)
    if order is not None:
        made = new_host_array(MappedNDArray, ary.shape, ary.dtype, order, stream, *asked)
        if made is not None:
            return made
    shape, strides = like(ary)
    return _host_visible(MappedNDArray, shape, ary.dtype, strides, "C", stream, asked)


def _managed_array(
    shape: Shape,
    dtype: Any = np.float64,
    strides: Shape | None = None,
    order: str = "C",
    stream: StreamLike = 0,
    attach_global: bool = True,
) -> ManagedNDArray:
    """`managed_array` where it takes more than a look."""
    asked = _MANAGED[flag(attach_global, "attach_global")]
    if strides is None:
        made = new_host_array(ManagedNDArray, shape, dtype, order, stream, *asked)
        if made is not None:
            return made
    return _host_visible(ManagedNDArray, shape, dtype, strides, order, stream, asked)


def coarsegrain_array(
    shape: Shape, dtype: Any = np.float64, strides: Shape | None = None, order: str = "C"
) -> MappedNDArray:
    """A mapped array in coarse-grained memory: host and device see each other's writes only when
    a kernel begins or ends."""
    return _host_visible(MappedNDArray, shape, dtype, strides, order, 0, _COARSE)


def finegrain_array(
    shape: Shape, dtype: Any = np.float64, strides: Shape | None = None, order: str = "C"
) -> MappedNDArray:
    """A mapped array in fine-grained memory: host and device see each other's writes while a kernel
    runs."""
    return _host_visible(MappedNDArray, shape, dtype, strides, order, 0, _FINE)


let_make_host(_pinned_array, _mapped_array, _managed_array, MappedNDArray, ManagedNDArray)


def _host_visible(
    cls: type[_HostVisible],
    shape: Shape,
    dtype: Any,
    strides: Shape | None,
    order: str,
    stream: StreamLike,
    asked: _Memory,
) -> _HostVisible:
    sizes, steps, kind = prepare(shape, dtype, strides, order)
    note_dtype(dtype, kind)
    return cls(sizes, steps, kind, stream, hints=asked[1])


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
