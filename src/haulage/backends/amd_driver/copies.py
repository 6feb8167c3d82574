"""Copies and fills: by the HIP runtime where its functions fit, else by kernels, or by the host."""

import ctypes
from collections.abc import Callable

from haulage._core.driver import Functions
from haulage.backends.amd_driver.calls import Calls
from haulage.backends.amd_driver.code import Code
from haulage.backends.amd_driver.contexts import Contexts
from haulage.backends.amd_driver.figures import attribute
from haulage.backends.amd_driver.graphs import Graphs
from haulage.backends.amd_driver.launches import Launches
from haulage.backends.amd_driver.memory import Memory
from haulage.backends.gpu_driver import copies
from haulage.backends.gpu_driver.copies import shortest
from haulage.backends.gpu_driver.kernels import Kernels
from haulage.backends.gpu_driver.regions import Region

# hipMemcpyDefault: the runtime finds out where addresses are.
_BY_ADDRESSES = 4
_SETTERS = {1: "hipMemsetD8Async", 2: "hipMemsetD16Async", 4: "hipMemsetD32Async"}


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

    def __init__(
        self,
        calls: Calls,
        functions: Functions,
        contexts: Contexts,
        memory: Memory,
        code: Code,
        launches: Launches,
        graphs: Graphs,
        own_code: Callable[[int], bytes],
    ) -> None:
        """`own_code` gives the code of the back end's own kernels for a device."""
        super().__init__()
        self._calls = calls
        self._functions = functions
        self._contexts = contexts
        self._on = memory.on_device
        self._take = memory.pinned
        self._recording = graphs.is_recording
        self._kernels = Kernels(
            contexts,
            launches,
            lambda device: code.load(own_code(device), device),
            code.function,
            lambda device: attribute(calls, device, "MULTIPROCESSOR_COUNT"),
        )
        self._pitches: dict[int, int] = {}

    def copy(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        """Copy bytes; the runtime finds the direction by the addresses."""
        if nbytes:
            status = self._functions.copy(dst, src, nbytes, stream)
            if status:
                asked = dst, src, nbytes, _BY_ADDRESSES, stream
                raise self._calls.failed("hipMemcpyAsync", asked, status)

    def fill(self, dst: int, value: bytes, count: int, stream: int) -> None:
        """Write a value again and again."""
        value, count = shortest(value, count)
        if not count:
            return
        size = len(value)
        if size in _SETTERS and dst % size == 0:
            number = int.from_bytes(value, "little", signed=size == 4)
            self._calls(_SETTERS[size], dst, number, count, stream)
        else:
            self._kernels.fill(dst, value, count, stream)

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
        if len(what.axes) > 2:
            return False
        (rows, to_pitch, of_pitch) = what.axes[-1]
        most = self._pitch()
        if not (what.run <= to_pitch <= most and what.run <= of_pitch <= most):
            return False
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

    def _pitch(self) -> int:
        """Bytes of the widest pitch of the device."""
        device = self._contexts.device()
        found = self._pitches.get(device)
        if found is None:
            found = self._pitches[device] = attribute(self._calls, device, "MAX_PITCH")
        return found

    def _between(self, what: Region, stream: int) -> None:
        """Copy between memory that kernels reach."""
        self._kernels.copy(what, stream)
