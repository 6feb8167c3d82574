"""Copies and fills: by the driver where its functions fit, else by kernels, or by the host."""

from collections.abc import Callable
from typing import Any

from haulage._core.driver import Functions
from haulage.backends.gpu_driver import copies
from haulage.backends.gpu_driver.copies import shortest
from haulage.backends.gpu_driver.kernels import Kernels
from haulage.backends.gpu_driver.regions import Region
from haulage.backends.nvidia_driver import kernels
from haulage.backends.nvidia_driver.calls import Calls, bindings
from haulage.backends.nvidia_driver.code import Code
from haulage.backends.nvidia_driver.contexts import Contexts
from haulage.backends.nvidia_driver.graphs import Graphs
from haulage.backends.nvidia_driver.launches import Launches
from haulage.backends.nvidia_driver.memory import Memory, Reaches
from haulage.errors import DeviceError

_HOST, _UNIFIED = 1, 4
_INVALID_VALUE = 1


class Copies(copies.Copies):
    """Copies and fills on the calling thread's device. Safe to use from any thread."""

    def __init__(
        self,
        calls: Calls,
        functions: Functions,
        contexts: Contexts,
        memory: Memory,
        code: Code,
        launches: Launches,
        graphs: Graphs,
        reaches: Reaches,
    ) -> None:
        super().__init__()
        self._calls = calls
        self._functions = functions
        self._driver = bindings()
        self._contexts = contexts
        self._memory = memory
        self._reaches = reaches
        self._recording = graphs.is_recording
        self._kernels = Kernels(
            contexts,
            launches,
            lambda device: code.load(kernels.text().encode(), device),
            lambda module, name: code.function(module, name, 0),
            lambda device: self._limit()[0],
        )
        self._limits: dict[int, tuple[int, int]] = {}

    def copy(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        """Copy bytes; the driver finds the direction by the addresses.

        Between two devices that do not reach each other it finds it in memory of its own
        allocations only, and fails with memory that was put behind reserved addresses.
        """
        if not nbytes:
            return
        pair = self._memory.devices_of(dst, src) if self._contexts.are_several() else None
        if pair is None:
            status = self._functions.copy(dst, src, nbytes, stream)
            if status:
                raise self._calls.failed("cuMemcpyAsync", (dst, src, nbytes, stream), status)
        else:
            to, of = map(self._contexts.of, pair)
            self._calls(self._driver.cuMemcpyPeerAsync, dst, to, src, of, nbytes, stream)

    def fill(self, dst: int, value: bytes, count: int, stream: int) -> None:
        """Write a value again and again."""
        driver = self._driver
        value, count = shortest(value, count)
        size = len(value)
        setters: dict[int, Callable[..., Any]] = {
            1: driver.cuMemsetD8Async,
            2: driver.cuMemsetD16Async,
            4: driver.cuMemsetD32Async,
        }
        if size in setters and dst % size == 0:
            self._calls(setters[size], dst, int.from_bytes(value, "little"), count, stream)
            return
        self._kernels.fill(dst, value, count, stream)

    def _on_device(self, start: int, stop: int) -> int:
        return self._memory.on_device(start, stop, self._contexts.device(), self._reaches)

    def _pinned(self, nbytes: int) -> tuple[int, int]:
        return self._memory.pinned(nbytes)

    def _wait(self, stream: int) -> None:
        self._calls(self._driver.cuStreamSynchronize, stream)

    def _is_recording(self, stream: int) -> bool:
        return self._recording(stream)

    # ---- by the driver --------------------------------------------------------------------------

    def _by_rows(self, what: Region, to: bool, of: bool, stream: int) -> bool:
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
            return self._is_taken(driver.cuMemcpy2DAsync, flat, to and of, stream)
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
        return self._is_taken(driver.cuMemcpy3DAsync, deep, to and of, stream)

    def _is_taken(self, function: Callable[..., Any], box: Any, between: bool, stream: int) -> bool:
        """Hand over a copy of rows; `between` memory that kernels reach the driver may refuse
        pitches that are not of its own making."""
        try:
            self._calls(function, box, stream)
        except DeviceError as error:
            if between and error.code == _INVALID_VALUE:
                return False
            raise
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

    def _between(self, what: Region, stream: int) -> None:
        """Copy between memory that kernels reach."""
        self._kernels.copy(what, stream)


def _place(box: Any, side: str, address: int, reached: bool, pitch: int) -> None:
    """Say where one side of a copy of rows is."""
    kind = bindings().CUmemorytype(_UNIFIED if reached else _HOST)
    setattr(box, f"{side}MemoryType", kind)
    setattr(box, f"{side}Device" if reached else f"{side}Host", address)
    setattr(box, f"{side}Pitch", pitch)
