"""Host memory that copies can use without waiting: new pinned arrays, and memory that is pinned
while it is registered."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from haulage import forks
from haulage.backends.base import PINNED
from haulage.runtime import memory
from haulage.runtime.buffers.coherent import is_coherent
from haulage.runtime.devices.capture import capture_of
from haulage.runtime.devices.device import Device
from haulage.runtime.devices.stream import Stream
from haulage.runtime.geometry import layout
from haulage.runtime.geometry.numpy_arrays import bounds
from haulage.runtime.memory import Block
from haulage.runtime.process import runtime


def pinned_array(
    device: Device,
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: np.dtype,
    flags: int = 0,
) -> np.ndarray:
    """A new NumPy array, not initialised, in pinned host memory.

    Strides are in bytes; flags are those of `Backend.alloc`.
    """
    low, high = layout.extent(shape, strides, dtype.itemsize)
    block = memory.allocate(device, high - low, PINNED, flags)
    host_checker = runtime.current.host_checker
    kind = np.ndarray if host_checker is None else host_checker.pinned_type
    return np.ndarray.__new__(kind, shape, dtype, buffer_of(block), -low, strides)


def host_bytes(block: Block) -> np.ndarray:
    """The memory of a block that the host can address, as a NumPy array of bytes."""
    return np.ndarray(block.nbytes, np.uint8, buffer_of(block))


def buffer_of(block: Block) -> Any:
    """The block, which has Python's buffer protocol: it is what NumPy's arrays over it stand on."""
    return block


def block_of(array: np.ndarray) -> Block | None:
    """The block that a pinned, mapped or managed NumPy array or a view of one stands on, if any."""
    base: Any = array
    while base is not None:
        if isinstance(base, Block):
            return base
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return None


def note_pinned(array: np.ndarray, stream: Stream) -> bool:
    """Whether `array` lies in memory that is pinned for the device of `stream`; notes the use."""
    block = block_of(array)
    if block is not None and block.is_pinned_for(stream.device):
        block.use(stream)
        return True
    low, high = bounds(array)
    for start, entry in tuple(registered.items()):
        stop, device, *_ = entry
        if device is stream.device and start <= low and high <= stop:
            captured = capture_of(stream)
            if captured is not None:
                captured.checks[start] = partial(_check_registered, start, entry)
            return True
    return False


def _check_registered(start: int, entry: "_Registered") -> None:
    if registered.get(start) is not entry:
        raise ValueError(f"the host array at {start:#x} is not pinned any more; keep it pinned")


_Registered = tuple[int, Device, np.ndarray, Callable[[], object]]

# Address -> (end, device, the array, which is so kept alive while it is registered, and what undoes
# the registration).
registered: dict[int, _Registered] = {}
_lock = forks.lock()


def register(array: np.ndarray, device: Device) -> int:
    """Pin the memory of an existing host array until `unregister`, and map it to the device.

    Returns the device's address of its first byte; 0 if it has none.

    Raises:
        TypeError: it is no NumPy array.
        ValueError: it has gaps, or is registered already.
    """
    _check_host_array(array)
    low, high = bounds(array)
    if high - low != array.nbytes:
        raise ValueError(
            f"an array of shape {array.shape} with strides {array.strides} has gaps and cannot be "
            "pinned; make a copy with np.ascontiguousarray"
        )
    if low == high:
        return 0
    with _lock:
        if any(start < high and low < stop for start, (stop, *_) in registered.items()):
            raise ValueError(
                f"the memory at {low:#x}, or a part of it, is pinned already; unpin it first"
            )
        provider = memory.provider()
        block = block_of(array)
        if block is not None and not block.closed and block.is_pinned_for(device):
            # A driver does not pin its own memory once more.
            device_ptr = block.device_ptr and block.device_ptr + low - block.host_ptr
            undo: Callable[[], object] = _nothing
        elif provider is None:
            device_ptr, undo = memory.pin(device, low, high - low)
        else:
            device_ptr, undo = provider.pin(device, array, low, high - low)
        registered[low] = (high, device, array, undo)
    return device_ptr


def _nothing() -> None:
    """Undo the registration of memory that is pinned for as long as it is there."""


def unregister(array: np.ndarray) -> None:
    """Undo `register`, after waiting for the work of the device that may use the memory.

    Raises:
        TypeError: it is no NumPy array.
        ValueError: it is not registered.
    """
    _check_host_array(array)
    low, high = bounds(array)
    if low == high:
        return
    entry = registered.get(low)
    if entry is None:
        raise ValueError(f"the array at {low:#x} is not pinned by a registration")
    device = entry[1]
    try:
        device.finish()
    finally:
        with _lock:
            if registered.pop(low, None) is not None:
                entry[3]()


def _check_host_array(array: Any) -> None:
    if not isinstance(array, np.ndarray):
        hint = ""
        if is_coherent(array):
            hint = "; SmartArray(x, where='pinned') is in such memory, as where='mapped', which "
            hint += "devices reach"
        raise TypeError(f"{type(array).__name__} object: expected a NumPy array to pin{hint}")
