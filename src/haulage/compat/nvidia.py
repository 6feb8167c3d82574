"""What programs name of NVIDIA's driver, linker and compilers; what is not there says so when used.

Nothing here raises the errors: they are for the `except` of programs.
"""

from ctypes import CFUNCTYPE, c_byte, c_int, c_size_t, c_void_p, py_object
from typing import Any, NoReturn

from haulage.errors import Unsupported
from haulage.targets.nvidia_architectures import compute_capability, for_capability

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
    return compute_capability(for_capability(mycc))


# ---- errors -------------------------------------------------------------------------------------


class NvvmError(Exception):
    """NVIDIA's compiler NVVM failed; Haulage does not use it."""


class NvvmSupportError(ImportError):
    """NVIDIA's compiler NVVM is not there; Haulage does not need it."""


class NvvmWarning(Warning):
    """NVIDIA's compiler NVVM warned; Haulage does not use it."""


class NvrtcError(Exception):
    """NVIDIA's compiler NVRTC failed; Haulage does not use it."""


class NvrtcCompilationError(NvrtcError):
    """NVIDIA's compiler NVRTC could not compile a source; Haulage does not use it."""


class NvrtcSupportError(ImportError):
    """NVIDIA's compiler NVRTC is not there; Haulage does not need it."""


class LinkerError(RuntimeError):
    """NVIDIA's linker failed; Haulage raises a DeviceError with the linker's log."""


class DeadMemoryError(RuntimeError):
    """Memory was freed twice; Haulage's is freed once."""


# ---- types of ctypes, and streams' handles ------------------------------------------------------

cu_device = c_int
nvvm_result = c_int
cu_device_attribute = c_int
cu_function_attribute = c_int
cu_jit_option = c_int
cu_jit_input_type = c_int
cu_device_ptr = c_size_t
cu_context = c_void_p
cu_module = c_void_p
cu_function = c_void_p
cu_stream = c_void_p
cu_event = c_void_p
cu_link_state = c_void_p
cu_ipc_mem_handle = c_byte * 64
cu_uuid = c_byte * 16
cu_stream_callback_pyobj = CFUNCTYPE(None, cu_stream, c_int, py_object)
cu_occupancy_b2d_size = CFUNCTYPE(c_size_t, c_int)

CU_STREAM_DEFAULT = 0
CU_STREAM_LEGACY = 1
CU_STREAM_PER_THREAD = 2
