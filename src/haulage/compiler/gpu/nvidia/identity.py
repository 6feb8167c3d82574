"""What code for NVIDIA's GPUs depends on beside the program, Numba and LLVM."""

from haulage.compiler.gpu.libraries import content
from haulage.compiler.gpu.nvidia import libdevice
from haulage.errors import CompileError
from haulage.targets import nvidia_architectures


def identity(architecture: str) -> tuple[str, ...]:
    """The architecture, and libdevice, if there is one."""
    try:
        path = libdevice.find()
    except CompileError:
        # Many kernels need none; one that does is not compiled.
        path = None
    return (*nvidia_architectures.identity(architecture), content(path))
