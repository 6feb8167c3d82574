"""The classes of what kernels are typed and lowered with, under numba's long names for them."""

from haulage.compat.absent import absent
from haulage.compiler.frontend.convention import CallConvention as CUDACallConv
from haulage.compiler.frontend.target import SIMTContext as CUDATargetContext
from haulage.compiler.frontend.target import SIMTTypingContext as CUDATypingContext

__all__ = ["CUDACallConv", "CUDATargetContext", "CUDATypingContext"]

__getattr__ = absent(__name__, "it is of code for NVIDIA's GPUs, which this version does not make")
