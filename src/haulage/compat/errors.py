"""Errors of compilers and runtimes that are not used, for the `except` of programs: nothing here
raises them."""


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


class HsaWarning(UserWarning):
    """HSA's runtime warned; Haulage does not use it."""
