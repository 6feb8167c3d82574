"""The classes that gather a kernel's LLVM IR, under numba's long names for them."""

from haulage.compat.absent import absent
from haulage.compiler.frontend.codegen import IRCodegen as JITCUDACodegen
from haulage.compiler.frontend.codegen import IRLibrary as CUDACodeLibrary

__all__ = ["CUDACodeLibrary", "JITCUDACodegen"]

__getattr__ = absent(__name__, "it is of code for NVIDIA's GPUs, which this version does not make")
