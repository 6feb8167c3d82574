"""Copies and fills: by the driver's own functions where these fit, else by kernels, or by the host.

What kernels and the driver's copy of rows cannot do with pageable memory is done by the host, which
gathers or scatters elements in a pinned buffer. As with the driver's own copies of such memory, the
host first waits for the stream, and the copy is done when the call returns.
"""

import ctypes
import threading
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from haulage.backends.base import PINNED
from haulage.backends.nvidia_driver import kernels
from haulage.backends.nvidia_driver.calls import Calls, bindings
from haulage.backends.nvidia_driver.code import Code
from haulage.backends.nvidia_driver.contexts import Contexts
from haulage.backends.nvidia_driver.graphs import Graphs
from haulage.backends.nvidia_driver.launches import Launches
from haulage.backends.nvidia_driver.memory import Memory
from haulage.backends.nvidia_driver.regions import Region, region
from haulage.errors import CaptureError

# From so many bytes on a run is a row that the driver's copies of rows move as fast as a kernel.
_ROW = 64
# Bytes of the pinned buffer between pageable memory and kernels. Larger copies come in pieces of
# what is above, `runtime.arrays.staging`.
_BUFFER = 1 << 20
# A kernel numbers fewer elements than this.
_MOST = 1 << 31
_THREADS = 256
_HOST, _UNIFIED = 1, 4

_WORDS = {1: "|u1", 2: "=u2", 4: "=u4", 8: "=u8", 16: "=c16"}


class Copies:
    """Copies and fills on the calling thread's device. Safe to use from any thread."""

    def __init__(
        self,
        calls: Calls,
        contexts: Contexts,
        memory: Memory,
        code: Code,
        launches: Launches,
        graphs: Graphs,
    ) -> None:
        self._calls = calls
        self._driver = bindings()
        self._contexts = contexts
        self._memory = memory
        self._code = code
        self._launches = launches
        self._graphs = graphs
        self._lock = threading.Lock()
        self._buffer_lock = threading.Lock()
        self._buffer = (0, 0)
        self._modules: dict[int, int] = {}
        self._functions: dict[tuple[int, str], int] = {}
        self._limits: dict[int, tuple[int, int]] = {}

    def copy(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        """Copy bytes; the driver finds the direction by the addresses."""
        if nbytes:
            self._calls(self._driver.cuMemcpyAsync, dst, src, nbytes, stream)

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
        to = self._memory.on_device(*what.target_extent())
        of = self._memory.on_device(*what.source_extent())
        if what.run >= _ROW and self._copy_rows(what, bool(to), bool(of), stream):
            return
        if to and of:
            low, _ = what.source_extent()
            moved = Region(to, what.source - low + of, what.axes, what.run)
            self._by_kernel(moved, stream)
        elif what.run > _BUFFER:
            for part in what.parts():
                steps = [axis[1] for axis in part.axes], [axis[2] for axis in part.axes]
                sizes = [axis[0] for axis in part.axes]
                self.copy_nd(part.target, steps[0], part.source, steps[1], sizes, part.run, stream)
        else:
            if self._graphs.is_recording(stream):
                raise CaptureError(
                    "a copy between strided and pageable memory cannot be recorded, as the host "
                    "takes part in it; use pinned memory"
                )
            self._calls(self._driver.cuStreamSynchronize, stream)
            self._by_host(what, to, of, stream)

    def fill(self, dst: int, value: bytes, count: int, stream: int) -> None:
        """Write a value again and again."""
        driver = self._driver
        while len(value) % 2 == 0 and value[: len(value) // 2] * 2 == value:
            value, count = value[: len(value) // 2], 2 * count
        if value.count(value[0]) == len(value):
            value, count = value[:1], count * len(value)
        size = len(value)
        setters: dict[int, Callable[..., Any]] = {
            1: driver.cuMemsetD8Async,
            2: driver.cuMemsetD16Async,
            4: driver.cuMemsetD32Async,
        }
        if size in setters and dst % size == 0:
            self._calls(setters[size], dst, int.from_bytes(value, "little"), count, stream)
            return
        unit = np.gcd.reduce((16, size, dst)).item()
        for first in range(0, count, _MOST - 1):
            total = min(count - first, _MOST - 1)
            args = kernels.FILL.pack(dst + first * size, total, size // unit, value)
            self._launch(f"haulage_fill_{unit}", total, args, stream)

    # ---- by the driver --------------------------------------------------------------------------

    def _copy_rows(self, what: Region, to: bool, of: bool, stream: int) -> bool:
        """Copy by the driver's functions for two and three axes; whether they fit."""
        driver = self._driver
        if len(what.axes) > 2:
            return False
        (rows, to_pitch, of_pitch) = what.axes[-1]
        most = self._limit()[1]
        if not (what.run <= of_pitch <= most and what.run <= to_pitch <= most):
            return False
        if len(what.axes) == 1:
            flat = driver.CUDA_MEMCPY2D()
            _place(flat, "dst", what.target, to, to_pitch)
            _place(flat, "src", what.source, of, of_pitch)
            flat.WidthInBytes, flat.Height = what.run, rows
            self._calls(driver.cuMemcpy2DAsync, flat, stream)
            return True
        (planes, to_step, of_step) = what.axes[0]
        heights = []
        for step, pitch in ((to_step, to_pitch), (of_step, of_pitch)):
            if step % pitch or step // pitch < rows:
                return False
            heights.append(step // pitch)
        deep = driver.CUDA_MEMCPY3D()
        _place(deep, "dst", what.target, to, to_pitch)
        _place(deep, "src", what.source, of, of_pitch)
        deep.dstHeight, deep.srcHeight = heights
        deep.WidthInBytes, deep.Height, deep.Depth = what.run, rows, planes
        self._calls(driver.cuMemcpy3DAsync, deep, stream)
        return True

    def _limit(self) -> tuple[int, int]:
        """(multiprocessors, bytes of the widest pitch) of the device."""
        device = self._contexts.device()
        limit = self._limits.get(device)
        if limit is None:
            driver = self._driver
            names = driver.CUdevice_attribute
            handle = self._calls(driver.cuDeviceGet, device)
            units, pitch = (
                self._calls(driver.cuDeviceGetAttribute, attribute, handle)
                for attribute in (
                    names.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                    names.CU_DEVICE_ATTRIBUTE_MAX_PITCH,
                )
            )
            limit = self._limits[device] = units, pitch
        return limit

    # ---- by kernels -----------------------------------------------------------------------------

    def _by_kernel(self, what: Region, stream: int) -> None:
        """Copy between memory that kernels reach."""
        unit, axes = what.in_units()
        total = prod(size for size, _, _ in axes)
        if len(axes) > kernels.AXES or total >= _MOST:
            for part in what.parts():
                self._by_kernel(part, stream)
            return
        none = kernels.AXES - len(axes)
        sizes, to, of = zip(*reversed(axes), *[(1, 0, 0)] * none, strict=True)
        args = kernels.COPY.pack(what.target, what.source, total, len(axes), *sizes, *to, *of)
        self._launch(f"haulage_copy_{unit}", total, args, stream)

    def _launch(self, name: str, total: int, args: bytes, stream: int) -> None:
        device = self._contexts.device()
        function = self._functions.get((device, name))
        if function is None:
            with self._lock:
                module = self._modules.get(device)
                if module is None:
                    module = self._code.load(kernels.text().encode(), device)
                    self._modules[device] = module
            function = self._code.function(module, name, 0)
            self._functions[device, name] = function
        enough = 16 * self._limit()[0]
        blocks = min((total + _THREADS - 1) // _THREADS, enough)
        self._launches.start(device, function, (blocks, 1, 1), (_THREADS, 1, 1), 0, stream, args)

    # ---- by the host ----------------------------------------------------------------------------

    def _by_host(self, what: Region, to: int, of: int, stream: int) -> None:
        """Copy where one side at least is pageable; `to` and `of` are the sides' lowest addresses
        for kernels, 0 for such memory. The stream is idle."""
        if not to and not of:
            np.copyto(_view(what, target=True), _view(what, target=False))
            return
        target_low, source_low = what.target_extent()[0], what.source_extent()[0]
        with self._buffer_lock:
            if not self._buffer[0]:
                self._buffer = self._memory.alloc(_BUFFER, PINNED, 0)
            at_device, at_host = self._buffer
            for piece in what.pieces(_BUFFER):
                if of:
                    near = piece.moved_to(at_device)
                    source = piece.source - source_low + of
                    self._by_kernel(Region(at_device, source, near.axes, near.run), stream)
                    self._calls(self._driver.cuStreamSynchronize, stream)
                    far = piece.moved_from(at_host)
                    np.copyto(_view(far, target=True), _view(far, target=False))
                else:
                    near = piece.moved_to(at_host)
                    np.copyto(_view(near, target=True), _view(near, target=False))
                    far = piece.moved_from(at_device)
                    target = piece.target - target_low + to
                    self._by_kernel(Region(target, at_device, far.axes, far.run), stream)
                    self._calls(self._driver.cuStreamSynchronize, stream)


def _place(box: Any, side: str, address: int, reached: bool, pitch: int) -> None:
    """Say where one side of a copy of rows is."""
    kind = bindings().CUmemorytype(_UNIFIED if reached else _HOST)
    setattr(box, f"{side}MemoryType", kind)
    setattr(box, f"{side}Device" if reached else f"{side}Host", address)
    setattr(box, f"{side}Pitch", pitch)


def _view(what: Region, target: bool) -> np.ndarray:
    """One side of a region, in memory of the host, as an array of its runs."""
    address = what.target if target else what.source
    low, high = what.target_extent() if target else what.source_extent()
    room: Any = (ctypes.c_char * (high - low)).from_address(low)
    dtype = np.dtype(_WORDS.get(what.run, f"V{what.run}"))
    shape = [size for size, _, _ in what.axes]
    steps = [to if target else of for _, to, of in what.axes]
    return np.ndarray(shape, dtype, room, address - low, steps)
