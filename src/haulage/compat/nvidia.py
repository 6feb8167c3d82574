"""What programs name of NVIDIA's linker and launcher; each says so when it is used."""

from typing import Any, NoReturn

from haulage.errors import Unsupported

_WHY = (
    "is NVIDIA's, and Haulage compiles kernels from Python for each device; write the kernel with "
    "@cuda.jit and launch it as kernel[grid, block, stream, shared](arguments)"
)


class Linker:
    """NVIDIA's linker, which Haulage does not use."""

    @classmethod
    def new(cls, *args: Any, **options: Any) -> NoReturn:
        """Unsupported."""
        raise Unsupported(f"numba.cuda.cudadrv.driver.Linker {_WHY}")

    def __init__(self, *args: Any, **options: Any) -> None:
        self.new()


def launch_kernel(*args: Any, **options: Any) -> NoReturn:
    """Unsupported: it takes handles of NVIDIA's driver."""
    raise Unsupported(f"numba.cuda.cudadrv.driver.launch_kernel {_WHY}")


def test_libraries() -> bool:
    """Print that no library of NVIDIA's is looked for, where numba prints what it found; True."""
    print("No library of NVIDIA's is needed; `haulage info` shows the devices and their drivers")
    return True


def have_nvjitlink() -> bool:
    """Whether NVIDIA's linker nvJitLink is used, which it is not."""
    return False


def nvvm_is_available() -> bool:
    """Whether NVIDIA's compiler NVVM is used, which it is not."""
    return False
