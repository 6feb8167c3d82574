"""Copies between host and device, and the host memory that copies can use without waiting."""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from haulage import forks
from haulage.backends.base import PINNED
from haulage.errors import CaptureError
from haulage.runtime import memory, observing
from haulage.runtime.arrays import layout, staging
from haulage.runtime.arrays.address import address_of
from haulage.runtime.arrays.fields import Parts
from haulage.runtime.arrays.movers import moves_itself
from haulage.runtime.capture import capture_of, check_takes_work
from haulage.runtime.device import Device
from haulage.runtime.memory import Block
from haulage.runtime.stream import Stream
from haulage.runtime.transfers import host_copy


def check_dtype(dtype: Any) -> np.dtype:
    """`dtype` as a NumPy dtype whose elements are plain bytes.

    Raises:
        TypeError: NumPy knows no such dtype, or its elements are Python objects.
    """
    try:
        made = np.dtype(dtype)
    except TypeError:
        raise
    except Exception as error:  # NumPy reads some texts as Python's: SyntaxError and others
        raise TypeError(f"dtype {dtype!r}: NumPy knows no such dtype ({error})") from error
    if made.hasobject:
        raise TypeError(f"dtype {made}: a device cannot hold Python objects; use a numeric dtype")
    return made


def host_array(obj: Any) -> np.ndarray:
    """`obj` as a host array, as `np.asarray` makes it.

    Raises:
        TypeError: it has a mask, which a device array could not keep, or it is no array and NumPy
            makes none of it but one of Python objects.
    """
    host = np.asarray(obj)
    # Asked only of subclasses: `np.ma` is imported when it is first named.
    if host is not obj and isinstance(obj, np.ndarray) and isinstance(obj, np.ma.MaskedArray):
        raise TypeError(
            "a masked array would lose its mask on the device; copy a.data and a.mask apart, "
            "or a.filled()"
        )
    if host is not obj and host.dtype.hasobject and not isinstance(obj, np.ndarray):
        raise TypeError(
            f"{type(obj).__name__} object: expected an array, or what NumPy makes one of without "
            "Python objects"
        )
    return host


# ---- copies -----------------------------------------------------------------------------------


def move(
    stream: Stream,
    target: int,
    target_strides: Sequence[int],
    source: int,
    source_strides: Sequence[int],
    shape: Sequence[int],
    itemsize: int,
    parts: Parts | None = None,
) -> None:
    """Hand a copy of an n-d region to `stream`, as few bytes apart as the strides allow.

    The addresses are those of the elements (0, ..., 0); the source's strides may be 0. An axis that
    the target repeats (stride 0) must be repeated by the source too; it is written once. `parts` is
    (offset, bytes) of what is copied of each element, None for all of it.

    Raises:
        ValueError: the target repeats elements to which the source has different values.
    """
    if itemsize == 0 or 0 in shape:
        return
    if stream.device.capturing:
        check_takes_work(stream)
    watching = observing.observer
    if watching is not None and not watching.inside:
        work = (stream, target, target_strides, source, source_strides, shape, itemsize, parts)
        nbytes = _size(shape, itemsize, parts)
        watching.around(stream.device, stream.handle, observing.COPY, "", nbytes, move, *work)
        return
    if parts is not None:
        for at, nbytes in parts:
            move(stream, target + at, target_strides, source + at, source_strides, shape, nbytes)
        return
    sizes = _written_once(target_strides, source_strides, shape)
    backend = stream.device.backend
    stream.device.activate()
    small, to, of = layout.coalesce(sizes, target_strides, source_strides)
    if not small:
        backend.copy(target, source, itemsize, stream.handle)
    elif len(small) == 1 and to[0] == of[0] == itemsize:
        backend.copy(target, source, small[0] * itemsize, stream.handle)
    else:
        backend.copy_nd(target, to, source, of, small, itemsize, stream.handle)


def _written_once(
    target_strides: Sequence[int], source_strides: Sequence[int], shape: Sequence[int]
) -> list[int]:
    """`shape` with 1 for the axes that the target repeats.

    Raises:
        ValueError: the source has different values there.
    """
    sizes = list(shape)
    for axis, n in enumerate(shape):
        if n > 1 and target_strides[axis] == 0:
            if source_strides[axis] != 0:
                raise ValueError(
                    f"cannot write {n} values to axis {axis} of the target, which shows one value "
                    "repeatedly (stride 0)"
                )
            sizes[axis] = 1
    return sizes


def move_host(
    host: np.ndarray,
    stream: Stream,
    target: int,
    target_strides: Sequence[int],
    source: int,
    source_strides: Sequence[int],
    shape: Sequence[int],
    itemsize: int,
    parts: Parts | None,
    block: Block,
    is_new: bool = False,
) -> None:
    """`move` from or to the host array `host`, and wait for it unless it may run on.

    It may in a stream that is not the default one, if the host memory is pinned; that memory is
    then kept alive until the stream has passed the copy. Other memory goes by way of pinned buffers
    where that is faster.

    `block` is the device's memory; `is_new` says that the host's holds nothing yet. These are for
    those who watch copies.
    """
    sides = (target, target_strides, source, source_strides)
    if not observing.watchers:
        move_untold(host, stream, *sides, shape, itemsize, parts)
        return
    down = target == address_of(host)
    small, to, of = layout.coalesce(shape, target_strides, source_strides)
    dense = parts is None and (not small or (len(small) == 1 and to[0] == of[0] == itemsize))
    address, strides = (source, source_strides) if down else (target, target_strides)
    low, high = layout.extent(shape, strides, itemsize)
    ends = (address + low, address + high)
    place = host_copy.Place(block, address, _size(shape, itemsize, parts), dense, ends)
    work = (host, stream, *sides, shape, itemsize, parts)
    host_copy.watched(host, stream, down, place, is_new, move_untold, work)


def move_untold(
    host: np.ndarray,
    stream: Stream,
    target: int,
    target_strides: Sequence[int],
    source: int,
    source_strides: Sequence[int],
    shape: Sequence[int],
    itemsize: int,
    parts: Parts | None = None,
) -> None:
    """`move_host` that those who watch copies between places are not told of."""
    large = staging.is_worthwhile(host.nbytes, stream.device)
    pinned = (stream.handle != 0 or large) and note_pinned(host, stream)
    if not pinned and stream.handle in stream.device.capturing:
        raise CaptureError(
            f"a copy of host memory that is not pinned waits until it is done, so {stream!r}, "
            "which is being captured, cannot take it; use pinned_array(), or make the copy outside "
            "of the graph"
        )
    sides = (target, target_strides, source, source_strides)
    if not stream.device.properties.host_memory_is_device_memory and _overlap(
        *sides, shape, itemsize
    ):
        _move_by_copy(host, stream, *sides, shape, itemsize, parts)
        return
    if not large or pinned or itemsize == 0 or 0 in shape:
        runs_on = pinned and stream.handle != 0
        _move_host(host, stream, runs_on, *sides, shape, itemsize, parts)
        return
    down = target == address_of(host)
    sizes = _written_once(target_strides, source_strides, shape)
    for at, nbytes in parts if parts is not None else ((0, itemsize),):
        part = (target + at, target_strides, source + at, source_strides)
        of_device = part[2:] + part[:2] if down else part
        work = (stream, down, *of_device, sizes, nbytes)
        if observing.observer is None:
            staged = staging.copy(*work)
        else:
            size = prod(sizes) * nbytes
            staged = _observed(stream, down, size, staging.copy, work)
        if not staged:
            _move_host(host, stream, False, *part, shape, nbytes)


def _overlap(
    target: int,
    target_strides: Sequence[int],
    source: int,
    source_strides: Sequence[int],
    shape: Sequence[int],
    itemsize: int,
) -> bool:
    """Whether both sides are the same memory in part, as where the host has an array over mapped or
    managed memory: a driver's copies are not made for that."""
    low, high = layout.extent(shape, target_strides, itemsize)
    other_low, other_high = layout.extent(shape, source_strides, itemsize)
    return target + low < source + other_high and source + other_low < target + high


def _move_by_copy(
    host: np.ndarray,
    stream: Stream,
    target: int,
    target_strides: Sequence[int],
    source: int,
    source_strides: Sequence[int],
    shape: Sequence[int],
    itemsize: int,
    parts: Parts | None,
) -> None:
    """`move_host` by way of a copy of the host's side; it is done when this returns."""
    stream.finish()
    down = target == address_of(host)
    there = as_strided(host, tuple(shape), tuple(target_strides if down else source_strides))
    between = there.copy()
    own, dense = address_of(between), between.strides
    if down:
        target, target_strides = own, dense
    else:
        source, source_strides = own, dense
    sides = (target, target_strides, source, source_strides)
    move_untold(between, stream, *sides, shape, itemsize, parts)
    if down:
        stream.finish()
        there[...] = between


def _move_host(
    host: np.ndarray,
    stream: Stream,
    runs_on: bool,
    target: int,
    target_strides: Sequence[int],
    source: int,
    source_strides: Sequence[int],
    shape: Sequence[int],
    itemsize: int,
    parts: Parts | None = None,
) -> None:
    try:
        if observing.observer is None:
            move(stream, target, target_strides, source, source_strides, shape, itemsize, parts)
        else:
            work = (stream, target, target_strides, source, source_strides, shape, itemsize, parts)
            low, high = _bounds(host)
            down = low <= target < high
            size = _size(shape, itemsize, parts)
            _observed(stream, down, size, move, work)
        if not runs_on:
            stream.finish()
    except BaseException:
        # Ctrl-C may have cut the wait short with the copy under way.
        memory.hold(stream, host)
        raise


def _observed(
    stream: Stream, down: bool, nbytes: int, copy: Callable[..., Any], work: tuple[Any, ...]
) -> Any:
    """`copy(*work)`, told to whoever observes."""
    watching = observing.observer
    if watching is None or stream.handle in stream.device.capturing:
        return copy(*work)
    kind = observing.DOWNLOAD if down else observing.UPLOAD
    return watching.around(stream.device, stream.handle, kind, "", nbytes, copy, *work)


def _size(shape: Sequence[int], itemsize: int, parts: Parts | None) -> int:
    return prod(shape) * (itemsize if parts is None else sum(nbytes for _, nbytes in parts))


def fill(stream: Stream, target: int, value: bytes, count: int) -> None:
    """Write `value`, a whole element of 1 to 16 bytes, `count` times from `target` on."""
    backend = stream.device.backend
    if stream.device.capturing:
        check_takes_work(stream)
    stream.device.activate()
    watching = observing.observer
    if watching is None:
        backend.fill(target, value, count, stream.handle)
    else:
        work = (backend.fill, target, value, count, stream.handle)
        nbytes = count * len(value)
        watching.around(stream.device, stream.handle, observing.FILL, "", nbytes, *work)


# ---- pinned host memory -----------------------------------------------------------------------


class HostMemory:
    """What a pinned, mapped or managed NumPy array stands on; it holds the block."""

    __slots__ = ("block",)

    def __init__(self, block: Block) -> None:
        block.exposed = True
        self.block = block

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {
            "version": 3,
            "shape": (self.block.nbytes,),
            "typestr": "|u1",
            # NumPy takes an address of 0 for none given, also where there are no bytes.
            "data": (self.block.host_ptr or 1, False),
        }


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
    return np.ndarray(shape, dtype, host_bytes(block), -low, strides)


def host_bytes(block: Block) -> np.ndarray:
    """The memory of a block that the host can address, as a NumPy array of bytes."""
    return np.asarray(HostMemory(block))


def block_of(array: np.ndarray) -> Block | None:
    """The block that a pinned, mapped or managed NumPy array or a view of one stands on, if any."""
    base: Any = array
    while base is not None:
        if isinstance(base, HostMemory):
            return base.block
        base = base.obj if isinstance(base, memoryview) else getattr(base, "base", None)
    return None


def note_pinned(array: np.ndarray, stream: Stream) -> bool:
    """Whether `array` lies in memory that is pinned for the device of `stream`; notes the use."""
    block = block_of(array)
    if block is not None and block.is_pinned_for(stream.device):
        block.use(stream)
        return True
    low, high = _bounds(array)
    for start, entry in tuple(_registered.items()):
        stop, device, *_ = entry
        if device is stream.device and start <= low and high <= stop:
            captured = capture_of(stream)
            if captured is not None:
                captured.checks[start] = partial(_check_registered, start, entry)
            return True
    return False


def _check_registered(start: int, entry: "_Registered") -> None:
    if _registered.get(start) is not entry:
        raise ValueError(f"the host array at {start:#x} is not pinned any more; keep it pinned")


_Registered = tuple[int, Device, np.ndarray, Callable[[], object]]

# Address -> (end, device, the array, which is so kept alive while it is registered, and what undoes
# the registration).
_registered: dict[int, _Registered] = {}
_lock = forks.lock()


def register(array: np.ndarray, device: Device) -> int:
    """Pin the memory of an existing host array until `unregister`, and map it to the device.

    Returns the device's address of its first byte; 0 if it has none.

    Raises:
        TypeError: it is no NumPy array.
        ValueError: it has gaps, or is registered already.
    """
    _check_host_array(array)
    low, high = _bounds(array)
    if high - low != array.nbytes:
        raise ValueError(
            f"an array of shape {array.shape} with strides {array.strides} has gaps and cannot be "
            "pinned; make a copy with np.ascontiguousarray"
        )
    if low == high:
        return 0
    with _lock:
        if any(start < high and low < stop for start, (stop, *_) in _registered.items()):
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
        _registered[low] = (high, device, array, undo)
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
    low, high = _bounds(array)
    if low == high:
        return
    entry = _registered.get(low)
    if entry is None:
        raise ValueError(f"the array at {low:#x} is not pinned by a registration")
    device = entry[1]
    try:
        device.finish()
    finally:
        with _lock:
            if _registered.pop(low, None) is not None:
                entry[3]()


def _check_host_array(array: Any) -> None:
    if not isinstance(array, np.ndarray):
        hint = ""
        if moves_itself(array):
            hint = "; SmartArray(x, where='pinned') is in such memory, as where='mapped', which "
            hint += "devices reach"
        raise TypeError(f"{type(array).__name__} object: expected a NumPy array to pin{hint}")


def _bounds(array: np.ndarray) -> tuple[int, int]:
    low, high = layout.extent(array.shape, array.strides, array.itemsize)
    start = address_of(array)
    return start + low, start + high
