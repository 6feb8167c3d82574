"""Copies of rows by CUDA's driver, and between devices."""

from typing import Any

from haulage.backends.gpu_driver import copies
from haulage.backends.gpu_driver.copies import Rows, Side
from haulage.backends.nvidia_driver.calls import bindings
from haulage.backends.nvidia_driver.memory import Memory
from haulage.errors import DeviceError

_HOST, _UNIFIED = 1, 4
_INVALID_VALUE = 1


class Copies(copies.Copies):
    """CUDA's copies."""

    _memory: Memory

    def _between_devices(self, dst: int, src: int, nbytes: int, stream: int) -> bool:
        # Between two that do not reach each other the driver finds the direction in memory of its
        # own allocations only, and fails with memory that was put behind reserved addresses.
        pair = self._memory.devices_of(dst, src)
        if pair is None:
            return False
        to, of = map(self._contexts.of, pair)
        self._calls("MemcpyPeerAsync", dst, to, src, of, nbytes, stream)
        return True

    def _rows(self, rows: Rows, stream: int) -> bool:
        flat = bindings().CUDA_MEMCPY2D()
        _place(flat, "dst", rows.target)
        _place(flat, "src", rows.source)
        flat.WidthInBytes, flat.Height = rows.run, rows.height
        return self._is_taken("Memcpy2DAsync", flat, rows, stream)

    def _planes(self, rows: Rows, planes: int, heights: tuple[int, int], stream: int) -> bool:
        deep = bindings().CUDA_MEMCPY3D()
        _place(deep, "dst", rows.target)
        _place(deep, "src", rows.source)
        deep.dstHeight, deep.srcHeight = heights
        deep.WidthInBytes, deep.Height, deep.Depth = rows.run, rows.height, planes
        return self._is_taken("Memcpy3DAsync", deep, rows, stream)

    def _is_taken(self, call: str, box: Any, rows: Rows, stream: int) -> bool:
        """Hand over a copy; between memory that kernels reach the driver may refuse pitches that
        are not of its own making."""
        try:
            self._calls(call, box, stream)
        except DeviceError as error:
            if rows.target.reached and rows.source.reached and error.code == _INVALID_VALUE:
                return False
            raise
        return True


def _place(box: Any, name: str, side: Side) -> None:
    """Say where one side of a copy of rows is."""
    kind = bindings().CUmemorytype(_UNIFIED if side.reached else _HOST)
    setattr(box, f"{name}MemoryType", kind)
    setattr(box, f"{name}Device" if side.reached else f"{name}Host", side.address)
    setattr(box, f"{name}Pitch", side.pitch)
