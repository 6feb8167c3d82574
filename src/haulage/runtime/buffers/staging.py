"""Large copies from and to pageable host memory, by way of pinned buffers.

A driver copies pageable memory through pinned memory of its own, one part after the other, and the
host waits. Here the host fills (or empties) one buffer of a ring while the device copies from (or
to) the others, as memory that is pinned lets it do. Devices say in `Properties.stages_copies` that
this is faster.
"""

from collections.abc import Iterator
from itertools import product
from math import prod

import numpy as np

from haulage.backends.base import PINNED
from haulage.errors import OutOfMemory
from haulage.runtime import memory
from haulage.runtime.buffers.copy import TO_HOST, Copy, Side
from haulage.runtime.devices.event import Event
from haulage.runtime.devices.stream import Stream
from haulage.runtime.geometry import layout

# Fewer bytes are copied as they are: buffers and events would cost more than they save.
LEAST = 1 << 20
# So many buffers, of so many bytes at most. Two would do if all copies took as long as the host's.
BUFFERS = 4
LARGEST_BUFFER = 4 << 20

_WORDS = {1: "|u1", 2: "=u2", 4: "=u4", 8: "=u8", 16: "=c16"}


def copy(copy: Copy) -> bool:
    """Make a copy to or from pageable host memory; it is done when this returns.

    The caller keeps the memory on both sides.

    Returns:
        False: nothing was done, as it is not worthwhile or there is no pinned memory left.

    Raises:
        KernelError: threads of a kernel before the copy had failed.
    """
    device, host = copy.on_device, copy.on_host
    # Parts are to lie in as few pieces of the device's memory as they can.
    axes = sorted(range(len(copy.shape)), key=lambda axis: -abs(device.strides[axis]))
    sizes = tuple(copy.shape[axis] for axis in axes)
    device = Side(device.address, tuple(device.strides[axis] for axis in axes))
    host = Side(host.address, tuple(host.strides[axis] for axis in axes))
    itemsize, nbytes = copy.itemsize, copy.written_nbytes
    buffer_nbytes = min(LARGEST_BUFFER, nbytes // BUFFERS)
    repeats = any(n > 1 and step == 0 for n, step in zip(sizes, device.strides, strict=True))
    if nbytes < LEAST or itemsize > buffer_nbytes or repeats:
        return False
    ring = _ring(copy.stream, buffer_nbytes)
    if not ring:
        return False
    to_host = copy.direction is TO_HOST
    pieces = list(_pieces(sizes, itemsize, buffer_nbytes))
    turns = len(pieces) + (len(ring) if to_host else 0)
    for turn in range(turns):
        buffer = ring[turn % len(ring)]
        buffer.wait()
        if to_host and turn >= len(ring):
            start, extent = pieces[turn - len(ring)]
            filled = _view(_part(host, start, extent), extent, itemsize)
            np.copyto(filled, buffer.view(extent, itemsize))
        if turn < len(pieces):
            start, extent = pieces[turn]
            if not to_host:
                given = _view(_part(host, start, extent), extent, itemsize)
                np.copyto(buffer.view(extent, itemsize), given)
            buffer.enqueue(to_host, _part(device, start, extent), extent, itemsize)
    copy.stream.finish()
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
        return _view(self._side(shape, itemsize), shape, itemsize)

    def enqueue(self, to_host: bool, there: Side, shape: tuple[int, ...], itemsize: int) -> None:
        """Let the device fill it from `there`, if `to_host`, or write its elements there."""
        device, stream = self._stream.device, self._stream.handle
        device.activate()
        own = self._side(shape, itemsize)
        target, source = (own, there) if to_host else (there, own)
        if there.strides == own.strides:
            nbytes = prod(shape) * itemsize
            device.backend.copy(target.address, source.address, nbytes, stream)
        else:
            device.backend.copy_nd(*target, *source, shape, itemsize, stream)
        self._event.record(self._stream)

    def _side(self, shape: tuple[int, ...], itemsize: int) -> Side:
        return Side(self._block.host_ptr, layout.c_strides(shape, itemsize))


def _ring(stream: Stream, nbytes: int) -> list[_Buffer]:
    """Buffers of so many bytes; none if there is not enough pinned memory for two of them."""
    ring: list[_Buffer] = []
    try:
        while len(ring) < BUFFERS:
            ring.append(_Buffer(stream, nbytes))
    except OutOfMemory:
        # The copy needs none of them: it is slower then, and right.
        if len(ring) < 2:
            ring.clear()
    return ring


def _pieces(
    shape: tuple[int, ...], itemsize: int, nbytes: int
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(first index, extent) of parts of a region that take `nbytes` bytes at most each.

    An extent is that of the last axes; before them each part has one index of the others.
    """
    axis, inner = len(shape), itemsize
    while axis and inner * shape[axis - 1] <= nbytes:
        axis -= 1
        inner *= shape[axis]
    if not axis:
        yield (), shape
        return
    n = shape[axis - 1]
    count = -(-n // (nbytes // inner))
    rows = -(-n // count)
    for outer in product(*map(range, shape[: axis - 1])):
        for start in range(0, n, rows):
            yield (*outer, start), (min(rows, n - start), *shape[axis:])


def _part(side: Side, start: tuple[int, ...], extent: tuple[int, ...]) -> Side:
    """The side of a piece."""
    offset = sum(index * step for index, step in zip(start, side.strides, strict=False))
    return Side(side.address + offset, side.strides[len(side.strides) - len(extent) :])


class _Raw:
    """Host memory under NumPy's array interface."""

    def __init__(self, interface: dict[str, object]) -> None:
        self.__array_interface__ = interface


def _view(side: Side, shape: tuple[int, ...], itemsize: int) -> np.ndarray:
    interface = {
        "data": (side.address, False),
        "strides": side.strides,
        "shape": shape,
        "typestr": _WORDS.get(itemsize, f"|V{itemsize}"),
        "version": 3,
    }
    return np.asarray(_Raw(interface))
