"""Copies of rows by the HIP runtime."""

import ctypes

from haulage.backends.gpu_driver import copies
from haulage.backends.gpu_driver.copies import Rows

# hipMemcpyDefault: the runtime finds out where addresses are.
_BY_ADDRESSES = 4


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
    """HIP's copies."""

    def _rows(self, rows: Rows, stream: int) -> bool:
        (to, to_pitch, _), (of, of_pitch, _), run, height = rows
        asked = to, to_pitch, of, of_pitch, run, height, _BY_ADDRESSES, stream
        self._calls("Memcpy2DAsync", *asked)
        return True

    def _planes(self, rows: Rows, planes: int, heights: tuple[int, int], stream: int) -> bool:
        (to, to_pitch, _), (of, of_pitch, _), run, height = rows
        box = _Box(kind=_BY_ADDRESSES)
        box.target = _Pitched(to, to_pitch, run, heights[0])
        box.source = _Pitched(of, of_pitch, run, heights[1])
        box.extent = _Three(run, height, planes)
        self._calls("Memcpy3DAsync", ctypes.byref(box), stream)
        return True
