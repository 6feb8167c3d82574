"""`cuda_target`: it is of the device that is current when a program asks for it."""

from typing import Any

from haulage.kernel.vocabulary import CUDA
from haulage.platforms import PLATFORMS
from haulage.runtime import device


def current_target(name: str) -> Any:
    """A module's `__getattr__` for the name `cuda_target`: an object with the typing and lowering
    contexts for numba.cuda's kernels on the current device.

    Raises:
        AttributeError: it is another name.
    """
    if name != "cuda_target":
        raise AttributeError(
            f"Haulage's numba.cuda.descriptor has no {name!r}: it has cuda_target alone, which "
            "stands for the current device's target",
            name=name,
        )
    from haulage.compiler.frontend import descriptor

    maker = PLATFORMS[device.current_device().kind].target_maker()
    return descriptor(maker(CUDA.warp_size))
