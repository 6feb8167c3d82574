"""Compiling for NVIDIA's GPUs and for kernels, under numba's long names for it."""

from haulage.compat.absent import absent
from haulage.compat.compiling import compile_cuda
from haulage.compiler.frontend.pipeline import SIMTPipeline as CUDACompiler
from haulage.kernel.ptx import (
    compile,
    compile_all,
    compile_for_current_device,
    compile_ptx,
    compile_ptx_for_current_device,
)

__all__ = [
    "CUDACompiler",
    "compile",
    "compile_all",
    "compile_cuda",
    "compile_for_current_device",
    "compile_ptx",
    "compile_ptx_for_current_device",
]

__getattr__ = absent(
    __name__,
    "it is a step of numba.cuda's own compilation; haulage.compile(function, signature).stages "
    "has every step's text here",
)
