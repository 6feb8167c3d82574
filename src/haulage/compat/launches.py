"""numba's forms of what is checked before a launch."""

from typing import Any

from haulage.errors import LaunchError
from haulage.runtime.launching.launch import Dims, normalise_dims

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
