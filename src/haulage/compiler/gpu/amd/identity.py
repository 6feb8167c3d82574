"""What code for AMD's GPUs depends on beside the program, Numba and LLVM."""

from haulage.compiler.gpu.amd import device_library
from haulage.compiler.gpu.libraries import content
from haulage.targets import amd_architectures


def identity(architecture: str) -> tuple[str, ...]:
    """The architecture, who links, and the device library, if there is one."""
    return (*amd_architectures.identity(architecture), content(device_library.find()))
