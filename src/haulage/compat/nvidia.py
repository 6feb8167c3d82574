"""What programs name of NVIDIA's linker and launcher; what is not there says so when it is used."""

from typing import Any, NoReturn

from haulage.errors import Unsupported

_WHY = (
    "is NVIDIA's, and Haulage compiles kernels from Python for each device; write the kernel with "
    "@cuda.jit and launch it as kernel[grid, block, stream, shared](arguments)"
)


class Linker:
    """numba's object for NVIDIA's linker: `link=` and `declare_device` name code to link here."""

    @classmethod
    def new(cls, *args: Any, **options: Any) -> NoReturn:
        """Unsupported."""
        raise Unsupported(
            "numba.cuda.cudadrv.driver.Linker is an inner part of numba's; name the code in "
            "cuda.jit(link=[...]) or cuda.declare_device(..., link=...), and the driver links it"
        )

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


def find_closest_arch(mycc: tuple[int, int]) -> tuple[int, int]:
    """The newest compute capability whose code runs on GPUs of the capability `mycc`.

    Raises:
        ValueError: they are older than any that code can be made for.
    """
    from haulage.targets.nvidia_architectures import compute_capability, for_capability

    return compute_capability(for_capability(mycc))
