"""`cuda_target`: it is of the device that is current when a program asks for it."""

import sys
from typing import Any

from haulage.compat.absent import refuse
from haulage.kernel.vocabulary import CUDA
from haulage.platforms import current_target


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
