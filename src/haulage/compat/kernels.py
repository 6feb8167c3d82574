"""numba's forms of compiling for types that are named, and what extensions of its compiler read.

Of the registers, `builder` is an `llvmlite.ir.IRBuilder` that stands in a function of a kernel;
what is built is for that kernel's target.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

from haulage.compat.modules import refuse
from haulage.errors import LaunchError
from haulage.kernel import roc_jit
from haulage.kernel.compilation import options_for
from haulage.kernel.device_function import DeviceFunction
from haulage.kernel.roc_kernel import RocKernel
from haulage.kernel.vocabulary import CUDA
from haulage.lang import tools
from haulage.lang.index import global_index
from haulage.lang.warp import laneid, warpsize
from haulage.platforms import current_target
from haulage.runtime.launch.loaded import Dims, normalise_dims


def compile_cuda(
    pyfunc: Callable[..., Any],
    return_type: Any,
    args: Any,
    debug: bool = False,
    lineinfo: bool = False,
    inline: bool = False,
    fastmath: Any = False,
    nvvm_options: Any = None,
    cc: Any = None,
) -> Any:
    """Type and lower a function for kernels on the current device.

    Args:
        pyfunc: the Python function.
        return_type: the Numba type that the result is converted to; None is what it is.
        args: the arguments' types, a tuple of Numba types, dtypes or their names.
        debug, fastmath: as for `cuda.jit`.
        lineinfo, inline, nvvm_options, cc: hints for NVIDIA's GPUs.

    Returns:
        Numba's compile result; `.signature.return_type` is what the function returns.

    Raises:
        CompileError: it cannot be compiled for these types.
    """
    hints = {"lineinfo": lineinfo, "inline": inline, "nvvm_options": nvvm_options, "cc": cc}
    function = DeviceFunction(pyfunc, CUDA, options_for(fastmath, bool(debug)), hints)
    return function.compile_device(args, return_type)


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


missing_launch_config_msg = (
    "Kernel launch configuration was not specified: write "
    "kernel[blockspergrid, threadsperblock](arg0, arg1, ...)"
)


def normalize_kernel_dimensions(griddim: Any, blockdim: Any) -> tuple[Dims, Dims]:
    """Both sizes, each an int or 1 to 3 of them, as (x, y, z).

    Raises:
        LaunchTypeError: one is something else.
        LaunchError: one is None, has too many sizes or one that is not positive.
    """
    if griddim is None or blockdim is None:
        raise LaunchError(missing_launch_config_msg)
    return normalise_dims(griddim, "griddim"), normalise_dims(blockdim, "blockdim")


def current_descriptor(name: str) -> Any:
    """A module's `__getattr__` for the name `cuda_target`: an object with the typing and lowering
    contexts for numba.cuda's kernels on the current device.

    Raises:
        AttributeError, ImportError: it is another name.
    """
    if name != "cuda_target":
        why = "it has cuda_target alone, which stands for the current device's target"
        refuse("haulage.cuda.descriptor", name, why, sys._getframe(1))
    from haulage.compiler.frontend import descriptor

    return descriptor(current_target(CUDA.warp_size))


# ---- registers ----------------------------------------------------------------------------------

# NVIDIA's name -> the kernel's word for it.
SREG_MAPPING = {
    **{
        f"{theirs}.{axis}": f"{ours}.{axis}"
        for theirs, ours in (
            ("tid", "threadIdx"),
            ("ntid", "blockDim"),
            ("ctaid", "blockIdx"),
            ("nctaid", "gridDim"),
        )
        for axis in "xyz"
    },
    **{each.name: each.name for each in (laneid, warpsize)},
}


def call_sreg(builder: Any, name: str) -> Any:
    """The LLVM value, an i32, of the register called `name`.

    Raises:
        KeyError: there is none of that name; the names are those of `SREG_MAPPING`.
    """
    target = builder.module.haulage_target
    for register in (laneid, warpsize):
        if register.name == name:
            return register.read(builder, target)
    return target.register(builder, SREG_MAPPING[name])


class SRegBuilder:
    """The registers of one axis, `"x"`, `"y"` or `"z"`, and what is made of them."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def tid(self, xyz: str) -> Any:
        """The thread's place in its block, an i32."""
        return call_sreg(self.builder, f"tid.{xyz}")

    def ctaid(self, xyz: str) -> Any:
        """The block's place in the grid, an i32."""
        return call_sreg(self.builder, f"ctaid.{xyz}")

    def ntid(self, xyz: str) -> Any:
        """Threads of a block, an i32."""
        return call_sreg(self.builder, f"ntid.{xyz}")

    def nctaid(self, xyz: str) -> Any:
        """Blocks of the grid, an i32."""
        return call_sreg(self.builder, f"nctaid.{xyz}")

    def getdim(self, xyz: str) -> Any:
        """The thread's place in the grid, an i64."""
        return global_index(tools, self.builder.module.haulage_target, self.builder, xyz)


def get_global_id(builder: Any, dim: int) -> Any:
    """The thread's place in the grid: an i64 for `dim` 1, else a list of `dim`."""
    registers = SRegBuilder(builder)
    places = [registers.getdim(axis) for axis in "xyz"[:dim]]
    return places[0] if dim == 1 else places
