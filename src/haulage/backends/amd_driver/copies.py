"""Copies and fills, by the functions of the HIP runtime and the host.

The back end has no kernels of its own yet. So a copy with steps is made of copies of rows; where
these would be many, the host takes part: it gets the elements by way of pinned memory, puts them in
order and sends them on. A value of more than 4 bytes is written once, and copied to twice as much
memory again and again.
"""

import ctypes
from dataclasses import replace
from itertools import product
from math import gcd

import numpy as np

from haulage.backends.amd_driver.calls import Calls
from haulage.backends.amd_driver.contexts import Contexts
from haulage.backends.amd_driver.figures import attribute
from haulage.backends.amd_driver.graphs import Graphs
from haulage.backends.amd_driver.memory import Memory
from haulage.backends.gpu_driver import copies
from haulage.backends.gpu_driver.copies import BUFFER, shortest, view
from haulage.backends.gpu_driver.regions import Axis, Region, region

# hipMemcpyDefault: the runtime finds out where addresses are.
_BY_ADDRESSES = 4

# More calls of the runtime than this take longer than the way by the host.
_MOST_CALLS = 64


class _Pitched(ctypes.Structure):
    """hipPitchedPtr."""

    _fields_ = (
        ("address", ctypes.c_void_p),
        ("pitch", ctypes.c_size_t),
        ("width", ctypes.c_size_t),
        ("height", ctypes.c_size_t),
    )


class _Three(ctypes.Structure):
    """What has three numbers: hipPos, hipExtent."""

    _fields_ = (("x", ctypes.c_size_t), ("y", ctypes.c_size_t), ("z", ctypes.c_size_t))


class _Box(ctypes.Structure):
    """hipMemcpy3DParms."""

    _fields_ = (
        ("source_array", ctypes.c_void_p),
        ("source_place", _Three),
        ("source", _Pitched),
        ("target_array", ctypes.c_void_p),
        ("target_place", _Three),
        ("target", _Pitched),
        ("extent", _Three),
        ("kind", ctypes.c_int),
    )


class Copies(copies.Copies):
    """Copies and fills on the calling thread's device. Safe to use from any thread."""

    def __init__(self, calls: Calls, contexts: Contexts, memory: Memory, graphs: Graphs) -> None:
        super().__init__()
        self._calls = calls
        self._contexts = contexts
        self._on = memory.on_device
        self._take = memory.pinned
        self._recording = graphs.is_recording
        self._pitches: dict[int, int] = {}

    def copy(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        """Copy bytes; the runtime finds the direction by the addresses."""
        if nbytes:
            self._calls("hipMemcpyAsync", dst, src, nbytes, _BY_ADDRESSES, stream)

    def fill(self, dst: int, value: bytes, count: int, stream: int) -> None:
        """Write a value again and again."""
        value, count = shortest(value, count)
        if not count:
            return
        size = len(value)
        unit = gcd(4, size, dst) if size > 1 else 1
        function = {1: "hipMemsetD8Async", 2: "hipMemsetD16Async", 4: "hipMemsetD32Async"}[unit]
        signed = unit == 4
        parts = [value[at : at + unit] for at in range(0, size, unit)]
        if len(parts) == 1:
            number = int.from_bytes(value, "little", signed=signed)
            self._calls(function, dst, number, count, stream)
            return
        for at, part in enumerate(parts):
            number = int.from_bytes(part, "little", signed=signed)
            self._calls(function, dst + at * unit, number, 1, stream)
        done, total = size, size * count
        while done < total:
            more = min(done, total - done)
            self.copy(dst + done, dst, more, stream)
            done += more

    def _on_device(self, start: int, stop: int) -> int:
        return self._on(start, stop)

    def _pinned(self, nbytes: int) -> tuple[int, int]:
        return self._take(nbytes)

    def _wait(self, stream: int) -> None:
        self._calls("hipStreamSynchronize", stream)

    def _is_recording(self, stream: int) -> bool:
        return self._recording(stream)

    # ---- by the runtime -------------------------------------------------------------------------

    def _by_rows(self, what: Region, to: bool, of: bool, stream: int) -> bool:
        if len(what.axes) > 2 or not self._is_row(what):
            return False
        (rows, to_pitch, of_pitch) = what.axes[-1]
        if len(what.axes) == 1:
            target, source = (what.target, to_pitch), (what.source, of_pitch)
            rest = (what.run, rows, _BY_ADDRESSES, stream)
            self._calls("hipMemcpy2DAsync", *target, *source, *rest)
            return True
        (planes, to_step, of_step) = what.axes[0]
        for step, pitch in ((to_step, to_pitch), (of_step, of_pitch)):
            if step % pitch or step // pitch < rows:
                return False
        box = _Box(kind=_BY_ADDRESSES)
        box.target = _Pitched(what.target, to_pitch, what.run, to_step // to_pitch)
        box.source = _Pitched(what.source, of_pitch, what.run, of_step // of_pitch)
        box.extent = _Three(what.run, rows, planes)
        self._calls("hipMemcpy3DAsync", ctypes.byref(box), stream)
        return True

    def _is_row(self, what: Region) -> bool:
        """Whether the last axis is rows, which do not overlap."""
        _, to, of = what.axes[-1]
        return what.run <= to <= self._pitch() and what.run <= of <= self._pitch()

    def _pitch(self) -> int:
        """Bytes of the widest pitch of the device."""
        device = self._contexts.device()
        found = self._pitches.get(device)
        if found is None:
            found = self._pitches[device] = attribute(self._calls, device, "MAX_PITCH")
        return found

    def _between(self, what: Region, stream: int) -> None:
        flat = self._flat(what)
        if flat.runs // flat.axes[-1][0] > _MOST_CALLS and not self._recording(stream):
            self._wait(stream)
            self._by_host(what, what.target_extent()[0], what.source_extent()[0], stream)
        else:
            self._in_calls(flat, stream)

    def _flat(self, what: Region) -> Region:
        """The region with the longest axis that is rows as its last one, if there is one."""
        rows = [a for a in what.axes if self._is_row(replace(what, axes=(a,)))]
        if not rows:
            return replace(what, axes=(*what.axes, (1, what.run, what.run)))
        longest = max(rows)
        rest = list(what.axes)
        rest.remove(longest)
        return replace(what, axes=(*rest, longest))

    def _in_calls(self, what: Region, stream: int) -> None:
        """Copy rows along the last axis, with one call for each place along the others."""
        *outer, row = what.axes
        for places in product(*(range(size) for size, _, _ in outer)):
            steps = list(zip(places, outer, strict=True))
            target = what.target + sum(i * to for i, (_, to, _) in steps)
            source = what.source + sum(i * of for i, (_, _, of) in steps)
            if row[0] == 1:
                self.copy(target, source, what.run, stream)
            else:
                self._by_rows(Region(target, source, (row,), what.run), True, True, stream)

    # ---- by the host ----------------------------------------------------------------------------

    def _by_host(self, what: Region, to: int, of: int, stream: int) -> None:
        """Copy where the host takes part; `to` and `of` are the sides' lowest addresses for
        kernels, 0 for pageable memory. The stream is idle."""
        if not to and not of:
            np.copyto(view(what, target=True), view(what, target=False))
            return
        target_low, source_low = what.target_extent()[0], what.source_extent()[0]
        with self._buffer_lock:
            if not self._buffer[0]:
                self._buffer = self._pinned(2 * BUFFER)
            at_device, at_host = self._buffer
            for piece in what.pieces(BUFFER):
                if of:
                    moved = replace(piece, source=piece.source - source_low + of)
                    gathered = self._gather(moved, at_device, at_host, stream)
                else:
                    gathered = piece
                if not to:
                    np.copyto(view(gathered, target=True), view(gathered, target=False))
                    continue
                near = gathered.moved_to(at_host + BUFFER)
                np.copyto(view(near, target=True), view(near, target=False))
                far = piece.moved_from(at_device + BUFFER)
                self._rows(replace(far, target=piece.target - target_low + to), stream)
                self._wait(stream)

    def _gather(self, piece: Region, at_device: int, at_host: int, stream: int) -> Region:
        """Get the elements of a piece into the buffer, in the order in which they lie in the
        source; the piece with its source there. What is there once is got once."""
        order = sorted((axis for axis in piece.axes if axis[2]), key=lambda axis: -abs(axis[2]))
        dense, step = {}, piece.run
        for axis in reversed(order):
            dense[axis] = step
            step *= axis[0]
        low = piece.source_extent()[0]
        axes = tuple((size, dense[size, to, of], abs(of)) for size, to, of in order)
        self._rows(Region(at_device, low, axes, piece.run), stream)
        self._wait(stream)
        start, found = at_host, []
        for size, to, of in piece.axes:
            near = dense[size, to, of] if of else 0
            start += (size - 1) * near if of < 0 else 0
            found.append((size, to, -near if of < 0 else near))
        return replace(piece, source=start, axes=tuple(found))

    def _rows(self, what: Region, stream: int) -> None:
        """Copy a region by as few calls of the runtime as it is made of rows."""
        steps: list[Axis] = list(what.axes)
        sizes, to, of = zip(*steps, strict=True) if steps else ((), (), ())
        whole = region(what.target, to, what.source, of, sizes, what.run)
        assert whole is not None
        if not whole.axes:
            self.copy(whole.target, whole.source, whole.run, stream)
        elif not self._by_rows(whole, True, True, stream):
            self._in_calls(self._flat(whole), stream)
