"""What code for OpenCL devices depends on beside the program, Numba and LLVM."""


def identity(architecture: str) -> tuple[str, ...]:
    """The architecture; there is no library that code is linked with."""
    return (architecture,)
