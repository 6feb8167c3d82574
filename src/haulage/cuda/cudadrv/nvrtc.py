"""NVIDIA's compiler NVRTC, which Haulage does not use, under numba's long name for its module."""

from haulage.compat.absent import absent
from haulage.compat.errors import NvrtcCompilationError, NvrtcError, NvrtcSupportError

__all__ = ["NvrtcCompilationError", "NvrtcError", "NvrtcSupportError"]

__getattr__ = absent(
    __name__, "it compiles CUDA C++ for NVIDIA's devices; write the kernel in Python with @cuda.jit"
)
