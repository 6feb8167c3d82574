"""Kernels compiled for types that are named, under numba's long names for it."""

from collections.abc import Callable, Sequence
from typing import Any

from haulage.compat.absent import absent
from haulage.kernel import roc_jit
from haulage.kernel.device_function import DeviceFunction
from haulage.kernel.roc_kernel import RocKernel
from haulage.kernel.roc_kernel import RocKernel as AutoJitHSAKernel
from haulage.kernel.roc_kernel import RocKernel as HSAKernel
from haulage.kernel.roc_kernel import RocKernel as HSAKernelBase

__all__ = [
    "AutoJitHSAKernel",
    "DeviceFunction",
    "HSAKernel",
    "HSAKernelBase",
    "compile_device",
    "compile_device_template",
    "compile_kernel",
]


def compile_kernel(
    pyfunc: Callable[..., Any], args: Sequence[Any], debug: bool = False
) -> RocKernel:
    """The kernel of a Python function for arguments of these types, and for no others.

    Raises:
        CompileError: it cannot be compiled for them.
    """
    kernel: RocKernel = roc_jit(tuple(args), debug=debug)(pyfunc)
    return kernel


def compile_device(
    pyfunc: Callable[..., Any], return_type: Any, args: Sequence[Any], debug: bool = False
) -> DeviceFunction:
    """The function for kernels of a Python function, for arguments of these types.

    Args:
        return_type: the Numba type that the result is converted to; None is what it is.

    Raises:
        CompileError: it cannot be compiled for them.
    """
    signature = tuple(args) if return_type is None else return_type(*args)
    function: DeviceFunction = roc_jit(signature, device=True, debug=debug)(pyfunc)
    return function


def compile_device_template(pyfunc: Callable[..., Any]) -> DeviceFunction:
    """The function for kernels of a Python function, for whatever they call it with."""
    function: DeviceFunction = roc_jit(pyfunc, device=True)
    return function


__getattr__ = absent(
    __name__,
    "it is a step of numba.roc's own compilation; haulage.compile(function, signature).stages "
    "has every step's text here",
)
