"""NVIDIA's compiler NVVM, which Haulage does not use, under numba's long name for its module."""

from haulage.compat.absent import absent
from haulage.compat.ctypes_names import nvvm_result
from haulage.compat.errors import NvvmError, NvvmSupportError, NvvmWarning
from haulage.compat.nvidia import find_closest_arch
from haulage.compat.nvidia import nvvm_is_available as is_available

__all__ = [
    "NvvmError",
    "NvvmSupportError",
    "NvvmWarning",
    "find_closest_arch",
    "is_available",
    "nvvm_result",
]

__getattr__ = absent(
    __name__,
    "it is a part of NVIDIA's compiler, and Haulage compiles with LLVM; kernel.inspect_llvm() and "
    "kernel.inspect_asm() show what it makes",
)
