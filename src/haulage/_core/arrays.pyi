from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, TypeVar

import numpy as np

from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.arrays.host_arrays import ManagedNDArray, MappedNDArray
from haulage.runtime.devices.stream_arguments import StreamLike

Shape = SupportsIndex | Sequence[SupportsIndex]

_Array = TypeVar("_Array", bound=np.ndarray)

class Header:
    block: Any
    device: Any
    device_pointer: Any
    dtype: Any
    layout: Any
    readonly: Any
    shape: Any
    size: Any
    stream: Any
    strides: Any
    _launch_part: Any

def know(dtype_type: type, array_type: type, stream_type: type) -> None: ...
def know_host_visible(host_visible_type: type) -> None: ...
def know_dtype(given: object, dtype: object) -> None: ...
def new_array(shape: object, dtype: object, order: str, stream: object) -> Any: ...
def new_host_array(
    kind: type[_Array],
    shape: object,
    dtype: object,
    order: object,
    stream: object,
    memory: tuple[str, int],
    hints: tuple[str, ...],
) -> _Array | None: ...
def keep_binding(self: Any, obj: Any) -> None: ...
def let_make_device(otherwise: Callable[..., DeviceNDArray]) -> None: ...
def let_make_host(
    pinned: Callable[..., np.ndarray],
    mapped: Callable[..., MappedNDArray],
    managed: Callable[..., ManagedNDArray],
    mapped_type: type[MappedNDArray],
    managed_type: type[ManagedNDArray],
) -> None: ...
def device_array(
    shape: Shape,
    dtype: Any = ...,
    strides: Shape | None = None,
    order: str = "C",
    stream: StreamLike = 0,
) -> DeviceNDArray:
    """A new array on the device, not initialised, as `np.empty` gives on the host.

    Args:
        shape: a number or a tuple of numbers.
        dtype: anything that `np.dtype` takes.
        strides: in bytes; by default without gaps, in `order`.
        order: 'C' or 'F'.
        stream: that the array is bound to.
    """

def empty(
    shape: Shape, dtype: Any = ..., order: str = "C", stream: StreamLike = 0
) -> DeviceNDArray:
    """`device_array` under NumPy's name and with its order of arguments."""

def pinned_array(
    shape: Shape, dtype: Any = ..., strides: Shape | None = None, order: str = "C"
) -> np.ndarray:
    """A new NumPy array, not initialised, in pinned memory.

    Copies in a stream from and to it may still run when the call that makes them returns.
    """

def mapped_array(
    shape: Shape,
    dtype: Any = ...,
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

def managed_array(
    shape: Shape,
    dtype: Any = ...,
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
