"""Copies and fills: by the driver's own functions where these fit, else by kernels, or by the host.

What kernels and the driver's copy of rows cannot do with pageable memory is done by the host, which
gathers or scatters elements in a pinned buffer. As with the driver's own copies of such memory, the
host first waits for the stream, and the copy is done when the call returns.
"""

import ctypes
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from haulage.backends.gpu_driver.regions import Region, region
from haulage.errors import CaptureError

# From so many bytes on a run is a row that the driver's copies of rows move as fast as a kernel.
ROW = 64
# Bytes of the pinned buffer between pageable memory and kernels. Larger copies come in pieces of
# what is above, `runtime.buffers.staging`.
BUFFER = 1 << 20

_WORDS = {1: "|u1", 2: "=u2", 4: "=u4", 8: "=u8", 16: "=c16"}


class Copies(ABC):
    """Copies on the calling thread's device. Safe to use from any thread."""

    def __init__(self) -> None:
        self._buffer_lock = threading.Lock()
        self._buffer = (0, 0)

    @abstractmethod
    def copy(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        """Copy bytes; the driver finds the direction by the addresses."""

    @abstractmethod
    def _by_rows(self, what: Region, to: bool, of: bool, stream: int) -> bool:
        """Copy by the driver's functions for two and three axes; whether they fit. `to` and `of`
        say which sides kernels reach."""

    @abstractmethod
    def _between(self, what: Region, stream: int) -> None:
        """Copy between memory that kernels reach."""

    @abstractmethod
    def _on_device(self, start: int, stop: int) -> int:
        """The address by which kernels reach the bytes from `start` to `stop`; 0: they do not."""

    @abstractmethod
    def _pinned(self, nbytes: int) -> tuple[int, int]:
        """New pinned memory: its addresses for kernels and for the host."""

    @abstractmethod
    def _wait(self, stream: int) -> None:
        """Wait for all work of a stream."""

    @abstractmethod
    def _is_recording(self, stream: int) -> bool:
        """Whether a stream is recorded."""

    def copy_nd(
        self,
        dst: int,
        dst_strides: Sequence[int],
        src: int,
        src_strides: Sequence[int],
        shape: Sequence[int],
        itemsize: int,
        stream: int,
    ) -> None:
        """Copy an n-d region."""
        what = region(dst, dst_strides, src, src_strides, shape, itemsize)
        if what is None:
            return
        if not what.axes:
            self.copy(what.target, what.source, what.run, stream)
            return
        to = self._on_device(*what.target_extent())
        of = self._on_device(*what.source_extent())
        if what.run >= ROW and self._by_rows(what, bool(to), bool(of), stream):
            return
        if to and of:
            low, _ = what.source_extent()
            moved = Region(to, what.source - low + of, what.axes, what.run)
            self._between(moved, stream)
        elif what.run > BUFFER:
            for part in what.parts():
                steps = [axis[1] for axis in part.axes], [axis[2] for axis in part.axes]
                sizes = [axis[0] for axis in part.axes]
                self.copy_nd(part.target, steps[0], part.source, steps[1], sizes, part.run, stream)
        else:
            if self._is_recording(stream):
                raise CaptureError(
                    "a copy between strided and pageable memory cannot be recorded, as the host "
                    "takes part in it; use pinned memory"
                )
            self._wait(stream)
            self._by_host(what, to, of, stream)

    def _by_host(self, what: Region, to: int, of: int, stream: int) -> None:
        """Copy where one side at least is pageable; `to` and `of` are the sides' lowest addresses
        for kernels, 0 for such memory. The stream is idle."""
        if not to and not of:
            np.copyto(view(what, target=True), view(what, target=False))
            return
        target_low, source_low = what.target_extent()[0], what.source_extent()[0]
        with self._buffer_lock:
            if not self._buffer[0]:
                self._buffer = self._pinned(BUFFER)
            at_device, at_host = self._buffer
            for piece in what.pieces(BUFFER):
                if of:
                    near = piece.moved_to(at_device)
                    source = piece.source - source_low + of
                    self._between(Region(at_device, source, near.axes, near.run), stream)
                    self._wait(stream)
                    far = piece.moved_from(at_host)
                    np.copyto(view(far, target=True), view(far, target=False))
                else:
                    near = piece.moved_to(at_host)
                    np.copyto(view(near, target=True), view(near, target=False))
                    far = piece.moved_from(at_device)
                    target = piece.target - target_low + to
                    self._between(Region(target, at_device, far.axes, far.run), stream)
                    self._wait(stream)


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
