"""Large copies from and to pageable host memory, by way of pinned buffers.

A driver copies pageable memory through pinned memory of its own, one part after the other, and the
host waits. Here the host fills (or empties) one buffer of a ring while the device copies from (or
to) the others, as memory that is pinned lets it do. Devices say in `Properties.stages_copies` that
this is faster.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

import numpy as np

from haulage.backends.base import PINNED
from haulage.errors import OutOfMemory
from haulage.runtime import memory
from haulage.runtime.arrays import layout
from haulage.runtime.device import Device
from haulage.runtime.event import Event
from haulage.runtime.stream import Stream

# Fewer bytes are copied as they are: buffers and events would cost more than they save.
LEAST = 1 << 20
# So many buffers, of so many bytes at most. Two would do if all copies took as long as the host's.
BUFFERS = 4
LARGEST_BUFFER = 4 << 20

_WORDS = {1: "|u1", 2: "=u2", 4: "=u4", 8: "=u8", 16: "=c16"}


def is_worthwhile(nbytes: int, device: Device) -> bool:
    """Whether copies of so many bytes of pageable memory go by buffers."""
    return nbytes >= LEAST and device.properties.stages_copies


def copy(
    stream: Stream,
    down: bool,
    device_at: int,
    device_strides: Sequence[int],
    host_at: int,
    host_strides: Sequence[int],
    shape: Sequence[int],
    itemsize: int,
) -> bool:
    """Copy an n-d region to the host if `down`, else from it; it is done when this returns.

    The addresses are those of the elements (0, ..., 0), the strides in bytes; those of the source
    may be 0. The caller keeps the memory on both sides.

    Returns:
        False: nothing was done, as it is not worthwhile or there is no pinned memory left.

    Raises:
        KernelError: threads of a kernel before the copy had failed.
    """
    sizes, steps, host_steps = layout.coalesce(shape, device_strides, host_strides)
    nbytes = prod(sizes) * itemsize
    room = min(LARGEST_BUFFER, nbytes // BUFFERS)
    repeats = any(n > 1 and step == 0 for n, step in zip(sizes, steps, strict=True))
    if nbytes < LEAST or itemsize > room or repeats:
        return False
    ring = _ring(stream, room)
    if not ring:
        return False
    pieces = list(_pieces(sizes, itemsize, room))
    turns = len(pieces) + (len(ring) if down else 0)
    for turn in range(turns):
        buffer = ring[turn % len(ring)]
        buffer.wait()
        if down and turn >= len(ring):
            start, extent = pieces[turn - len(ring)]
            at, strides = _part(host_at, host_steps, start, extent)
            np.copyto(_view(at, strides, extent, itemsize), buffer.view(extent, itemsize))
        if turn < len(pieces):
            start, extent = pieces[turn]
            if not down:
                at, strides = _part(host_at, host_steps, start, extent)
                np.copyto(buffer.view(extent, itemsize), _view(at, strides, extent, itemsize))
            buffer.hand(down, *_part(device_at, steps, start, extent), extent, itemsize)
    stream.finish()
    return True


class _Buffer:
    """A pinned buffer, whose copies are handed to a stream.

    Its memory goes back to be used again once the stream is done with it, however the copy ends.
    """

    __slots__ = ("_block", "_event", "_stream")

    def __init__(self, stream: Stream, nbytes: int) -> None:
        self._block = memory.allocate(stream.device, nbytes, PINNED)
        self._block.use(stream)
        self._stream = stream
        self._event = Event(stream.device, timing=False)

    def wait(self) -> None:
        """Wait until the last copy from or to it is done."""
        self._event.synchronize()

    def view(self, shape: tuple[int, ...], itemsize: int) -> np.ndarray:
        """Elements without gaps at its start."""
        return _view(self._block.host_ptr, layout.c_strides(shape, itemsize), shape, itemsize)

    def hand(
        self, down: bool, at: int, strides: tuple[int, ...], shape: tuple[int, ...], itemsize: int
    ) -> None:
        """Let the device fill it from there, if `down`, or write its elements there."""
        device, stream = self._stream.device, self._stream.handle
        device.activate()
        own, dense = self._block.host_ptr, layout.c_strides(shape, itemsize)
        if strides == dense:
            target, source = (own, at) if down else (at, own)
            device.backend.copy(target, source, prod(shape) * itemsize, stream)
        elif down:
            device.backend.copy_nd(own, dense, at, strides, shape, itemsize, stream)
        else:
            device.backend.copy_nd(at, strides, own, dense, shape, itemsize, stream)
        self._event.record(self._stream)


def _ring(stream: Stream, room: int) -> list[_Buffer]:
    """Buffers of `room` bytes; none if there is not enough pinned memory for two of them."""
    ring: list[_Buffer] = []
    try:
        while len(ring) < BUFFERS:
            ring.append(_Buffer(stream, room))
    except OutOfMemory:
        # The copy needs none of them: it is slower then, and right.
        if len(ring) < 2:
            ring.clear()
    return ring


def _pieces(
    shape: tuple[int, ...], itemsize: int, room: int
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(first index, extent) of parts of a region that take `room` bytes at most each.

    An extent is that of the last axes; before them each part has one index of the others.
    """
    axis, inner = len(shape), itemsize
    while axis and inner * shape[axis - 1] <= room:
        axis -= 1
        inner *= shape[axis]
    if not axis:
        yield (), shape
        return
    n = shape[axis - 1]
    count = -(-n // (room // inner))
    rows = -(-n // count)
    for outer in product(*map(range, shape[: axis - 1])):
        for start in range(0, n, rows):
            yield (*outer, start), (min(rows, n - start), *shape[axis:])


def _part(
    at: int, strides: tuple[int, ...], start: tuple[int, ...], extent: tuple[int, ...]
) -> tuple[int, tuple[int, ...]]:
    """(address of the first element, strides) of a piece."""
    offset = sum(index * step for index, step in zip(start, strides, strict=False))
    return at + offset, strides[len(strides) - len(extent) :]


class _Raw:
    """Host memory under NumPy's array interface."""

    def __init__(self, interface: dict[str, object]) -> None:
        self.__array_interface__ = interface


def _view(
    address: int, strides: tuple[int, ...], shape: tuple[int, ...], itemsize: int
) -> np.ndarray:
    interface = {
        "data": (address, False),
        "strides": strides,
        "shape": shape,
        "typestr": _WORDS.get(itemsize, f"|V{itemsize}"),
        "version": 3,
    }
    return np.asarray(_Raw(interface))
