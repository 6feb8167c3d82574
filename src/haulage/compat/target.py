"""`cuda_target`: it is of the device that is current when a program asks for it."""

import sys
from typing import Any

from haulage.compat.absent import refuse
from haulage.kernel.vocabulary import CUDA
from haulage.platforms import PLATFORMS
from haulage.runtime import device


def current_target(name: str) -> Any:
    """A module's `__getattr__` for the name `cuda_target`: an object with the typing and lowering
    contexts for numba.cuda's kernels on the current device.

    Raises:
        AttributeError, ImportError: it is another name.
    """
    if name != "cuda_target":
        why = "it has cuda_target alone, which stands for the current device's target"
        refuse("haulage.cuda.descriptor", name, why, sys._getframe(1))
    from haulage.compiler.frontend import descriptor

    maker = PLATFORMS[device.current_device().kind].target_maker()
    return descriptor(maker(CUDA.warp_size))
