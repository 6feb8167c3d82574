"""numba's form of compiling a function that kernels call."""

from collections.abc import Callable
from typing import Any

from haulage.kernel.compilation import options_for
from haulage.kernel.device_function import DeviceFunction
from haulage.kernel.vocabulary import CUDA


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
