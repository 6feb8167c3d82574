"""Copies and fills: by the driver's own functions where these fit, else by kernels, or by the host.

What kernels and the driver's copy of rows cannot do with pageable memory is done by the host, which
gathers or scatters elements in a pinned buffer. As with the driver's own copies of such memory, the
host first waits for the stream, and the copy is done when the call returns.
"""

import ctypes
import threading
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from haulage.backends.base import PINNED
from haulage.backends.gpu_driver.calls import Calls
from haulage.backends.gpu_driver.contexts import Contexts
from haulage.backends.gpu_driver.graphs import Graphs
from haulage.backends.gpu_driver.kernels import Kernels
from haulage.backends.gpu_driver.memory import Memory
from haulage.backends.gpu_driver.regions import Region
from haulage.backends.gpu_driver.streams import Streams
from haulage.errors import CaptureError

# From so many bytes on a run is a row that the driver's copies of rows move as fast as a kernel.
ROW = 64
# Bytes of the pinned buffer between pageable memory and kernels. Larger copies come in pieces of
# what is above, `runtime.buffers.staging`.
BUFFER = 1 << 20

_SETTERS = {1: "MemsetD8Async", 2: "MemsetD16Async", 4: "MemsetD32Async"}

_WORDS = {1: "|u1", 2: "=u2", 4: "=u4", 8: "=u8", 16: "=c16"}


class Side(NamedTuple):
    """One side of a copy of rows: where it begins, bytes from one row to the next, and whether
    kernels reach it."""

    address: int
    pitch: int
    reached: bool


class Rows(NamedTuple):
    """A copy of `height` rows of `run` bytes."""

    target: Side
    source: Side
    run: int
    height: int


class Copies(ABC):
    """Copies on the calling thread's device. Safe to use from any thread."""

    def __init__(
        self,
        calls: Calls,
        streams: Streams,
        contexts: Contexts,
        memory: Memory,
        graphs: Graphs,
        kernels: Kernels,
    ) -> None:
        self._calls = calls
        self._streams = streams
        self._copy = streams.driver.copy
        self._contexts = contexts
        self._memory = memory
        self._graphs = graphs
        self._kernels = kernels
        self._pitches: dict[int, int] = {}
        self._buffer_lock = threading.Lock()
        self._buffer = (0, 0)

    @abstractmethod
    def _rows(self, rows: Rows, stream: int) -> bool:
        """Copy by the driver's function for two axes; whether it takes that."""

    @abstractmethod
    def _planes(self, rows: Rows, planes: int, heights: tuple[int, int], stream: int) -> bool:
        """Copy by the driver's function for three axes, `heights` rows from one plane to the next
        in the target and in the source; whether it takes that."""

    def copy(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        """Copy bytes; the driver finds the direction by the addresses."""
        if not nbytes:
            return
        if self._contexts.are_several() and self._between_devices(dst, src, nbytes, stream):
            return
        status = self._copy(dst, src, nbytes, stream)
        if status:
            raise self._calls.failed("MemcpyAsync", (dst, src, nbytes, stream), status)

    def _between_devices(self, dst: int, src: int, nbytes: int, stream: int) -> bool:
        """Copy between two devices, where the driver wants to be told so; whether it is done."""
        return False

    def fill(self, dst: int, value: bytes, count: int, stream: int) -> None:
        """Write a value again and again."""
        if not count:
            return
        value, count = shortest(value, count)
        size = len(value)
        if size in _SETTERS and dst % size == 0:
            self._calls(_SETTERS[size], dst, int.from_bytes(value, "little"), count, stream)
        else:
            self._kernels.fill(dst, value, count, stream)

    def copy_region(self, what: Region, stream: int) -> None:
        """Copy an n-d region."""
        if not what.axes:
            self.copy(what.target, what.source, what.run, stream)
            return
        to = self._memory.on_device(*what.target_extent())
        of = self._memory.on_device(*what.source_extent())
        if what.run >= ROW and self._by_rows(what, bool(to), bool(of), stream):
            return
        if to and of:
            low, _ = what.source_extent()
            moved = Region(to, what.source - low + of, what.axes, what.run)
            self._kernels.copy(moved, stream)
        elif what.run > BUFFER:
            for part in what.parts():
                self.copy_region(part, stream)
        else:
            if self._graphs.is_recording(stream):
                raise CaptureError(
                    "a copy between strided and pageable memory cannot be recorded, as the host "
                    "takes part in it; use pinned memory"
                )
            self._streams.synchronize(stream)
            self._by_host(what, to, of, stream)

    def _by_rows(self, what: Region, to: bool, of: bool, stream: int) -> bool:
        """Copy by the driver's functions for two and three axes; whether they fit. `to` and `of`
        say which sides kernels reach."""
        if len(what.axes) > 2:
            return False
        (height, to_pitch, of_pitch) = what.axes[-1]
        most = self._widest_pitch()
        if not (what.run <= to_pitch <= most and what.run <= of_pitch <= most):
            return False
        rows = Rows(
            Side(what.target, to_pitch, to), Side(what.source, of_pitch, of), what.run, height
        )
        if len(what.axes) == 1:
            return self._rows(rows, stream)
        (planes, to_step, of_step) = what.axes[0]
        for step, pitch in ((to_step, to_pitch), (of_step, of_pitch)):
            if step % pitch or step // pitch < height:
                return False
        return self._planes(rows, planes, (to_step // to_pitch, of_step // of_pitch), stream)

    def _widest_pitch(self) -> int:
        """Bytes of the widest pitch of the device."""
        device = self._contexts.device()
        found = self._pitches.get(device)
        if found is None:
            found = self._pitches[device] = self._calls.attribute(device, "MAX_PITCH")
        return found

    def _by_host(self, what: Region, to: int, of: int, stream: int) -> None:
        """Copy where one side at least is pageable; `to` and `of` are the sides' lowest addresses
        for kernels, 0 for such memory. The stream is idle."""
        if not to and not of:
            np.copyto(view(what, target=True), view(what, target=False))
            return
        target_low, source_low = what.target_extent()[0], what.source_extent()[0]
        with self._buffer_lock:
            if not self._buffer[0]:
                self._buffer = self._memory.alloc(BUFFER, PINNED, 0)
            at_device, at_host = self._buffer
            for piece in what.pieces(BUFFER):
                if of:
                    near = piece.moved_to(at_device)
                    source = piece.source - source_low + of
                    self._kernels.copy(Region(at_device, source, near.axes, near.run), stream)
                    self._streams.synchronize(stream)
                    far = piece.moved_from(at_host)
                    np.copyto(view(far, target=True), view(far, target=False))
                else:
                    near = piece.moved_to(at_host)
                    np.copyto(view(near, target=True), view(near, target=False))
                    far = piece.moved_from(at_device)
                    target = piece.target - target_low + to
                    self._kernels.copy(Region(target, at_device, far.axes, far.run), stream)
                    self._streams.synchronize(stream)


def view(what: Region, target: bool) -> np.ndarray:
    """One side of a region, in memory of the host, as an array of its runs."""
    address = what.target if target else what.source
    low, high = what.target_extent() if target else what.source_extent()
    room: Any = (ctypes.c_char * (high - low)).from_address(low)
    dtype = np.dtype(_WORDS.get(what.run, f"V{what.run}"))
    shape = [size for size, _, _ in what.axes]
    steps = [to if target else of for _, to, of in what.axes]
    return np.ndarray(shape, dtype, room, address - low, steps)


def shortest(value: bytes, count: int) -> tuple[bytes, int]:
    """The shortest value that gives the same memory, with how often it is written."""
    while len(value) % 2 == 0 and value[: len(value) // 2] * 2 == value:
        value, count = value[: len(value) // 2], 2 * count
    if value.count(value[0]) == len(value):
        value, count = value[:1], count * len(value)
    return value, count
