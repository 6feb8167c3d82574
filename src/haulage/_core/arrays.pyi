from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

from haulage.runtime.arrays.array import DeviceNDArray
from haulage.runtime.devices.stream_arguments import StreamLike

Shape = SupportsIndex | Sequence[SupportsIndex]

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
def know_dtype(given: object, dtype: object) -> None: ...
def new_array(shape: object, dtype: object, order: str, stream: object) -> Any: ...
def let_make(otherwise: Callable[..., DeviceNDArray]) -> None: ...
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
