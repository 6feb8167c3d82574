"""What tests of kernels import from `numba.cuda.testing`, true of the current device.

Here are Numba's test base classes and the decorators of its own tests and of those of libraries.
A decorator that asks for something of NVIDIA's (a tool, a library, a header) skips where Haulage
has no use of it; one that asks what the device can do asks the current device. Besides the names
of Numba 0.66 to 0.68 there are those of the package numba-cuda. Importing this imports Numba.
"""

import os
import platform
import shutil
import unittest
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba.core import config
from numba.tests.support import (
    SerialMixin,
    TestCase,
    captured_stderr,
    captured_stdout,
    redirect_c_stdout,
    redirect_fd,
)

from haulage.api import close, get_current_device

__all__ = [
    "CUDATestCase",
    "ContextResettingTestCase",
    "ForeignArray",
    "SerialMixin",
    "TestCase",
    "captured_stderr",
    "captured_stdout",
    "cc_X_or_above",
    "config",
    "cudadevrt_missing",
    "ensure_supported_ccs_initialized",
    "numba_cuda_dir",
    "redirect_c_stdout",
    "redirect_fd",
    "skip_if_cuda_includes_missing",
    "skip_if_cudadevrt_missing",
    "skip_if_curand_kernel_missing",
    "skip_if_external_memmgr",
    "skip_if_mvc_enabled",
    "skip_if_mvc_libraries_unavailable",
    "skip_if_nvjitlink_missing",
    "skip_on_arm",
    "skip_on_cudasim",
    "skip_on_nvjitlink_13_1_sm_120",
    "skip_on_standalone_numba_cuda",
    "skip_on_wsl2",
    "skip_under_cuda_memcheck",
    "skip_unless_cc_50",
    "skip_unless_cc_53",
    "skip_unless_cc_60",
    "skip_unless_cc_75",
    "skip_unless_cc_90",
    "skip_unless_conda_cudatoolkit",
    "skip_unless_cudasim",
    "skip_with_cuda_python",
    "skip_with_nvdisasm",
    "skip_without_nvdisasm",
    "test_data_dir",
    "unittest",
    "xfail_unless_cudasim",
]

Test = TypeVar("Test", bound=Callable[..., Any])
Decorator = Callable[[Test], Test]

# The folder of Numba's own tests and their data.
numba_cuda_dir = Path(numba.__file__).parent / "cuda"
test_data_dir = numba_cuda_dir / "tests" / "data"


class CUDATestCase(SerialMixin, TestCase):
    """A test with a device: Numba's warnings of small grids and of host arrays are off in it."""

    FLOAT16_RTOL = np.finfo(np.float16).eps

    def setUp(self) -> None:
        self._warnings = (config.CUDA_LOW_OCCUPANCY_WARNINGS, config.CUDA_WARN_ON_IMPLICIT_COPY)
        config.CUDA_LOW_OCCUPANCY_WARNINGS = 0
        config.CUDA_WARN_ON_IMPLICIT_COPY = 0

    def tearDown(self) -> None:
        config.CUDA_LOW_OCCUPANCY_WARNINGS, config.CUDA_WARN_ON_IMPLICIT_COPY = self._warnings

    def skip_if_lto(self, reason: str) -> None:
        """Skip where code is optimised when it is linked, which Haulage does on no device."""


class ContextResettingTestCase(CUDATestCase):
    """A test that looks at a context or changes it: each one has a context of its own."""

    def tearDown(self) -> None:
        super().tearDown()
        close()


class ForeignArray:
    """An array of another library: device memory by its CUDA array interface only.

    Raises:
        AttributeError: the array has no such interface; Haulage's have it on NVIDIA GPUs only.
    """

    def __init__(self, arr: Any) -> None:
        self._arr = arr
        self.__cuda_array_interface__ = arr.__cuda_array_interface__


def ensure_supported_ccs_initialized() -> None:
    """Load what must be there before a process forks: nothing, on Haulage's devices."""


def cc_X_or_above(major: int, minor: int) -> bool:
    """Whether the current device has that compute capability or a higher one."""
    return get_current_device().compute_capability >= (major, minor)


def _needs_capability(major: int, minor: int) -> Decorator:
    def decorate(test: Test) -> Test:
        return _skip_unless(cc_X_or_above(major, minor), f"requires cc >= {major}.{minor}")(test)

    return decorate


def _skip_if(condition: bool, reason: str) -> Decorator:
    return unittest.skipIf(condition, reason)


def _skip_unless(condition: bool, reason: str) -> Decorator:
    return unittest.skipUnless(condition, reason)


skip_unless_cc_50 = _needs_capability(5, 0)
skip_unless_cc_53 = _needs_capability(5, 3)
skip_unless_cc_60 = _needs_capability(6, 0)
skip_unless_cc_75 = _needs_capability(7, 5)
skip_unless_cc_90 = _needs_capability(9, 0)


def skip_on_cudasim(reason: str) -> Decorator:
    """The test is run: Haulage's CPU device is not Numba's simulator."""
    return _skip_if(False, reason)


def skip_unless_cudasim(reason: str) -> Decorator:
    """The test is skipped: it is of Numba's simulator."""
    return _skip_if(True, reason)


def xfail_unless_cudasim(test: Test) -> Test:
    """The test is expected to fail, as it is outside of Numba's simulator."""
    return unittest.expectedFailure(test)


def skip_on_arm(reason: str) -> Decorator:
    """The test is skipped on a computer with ARM processors."""
    return _skip_if(platform.machine().lower().startswith(("arm", "aarch")), reason)


def skip_on_wsl2(reason: str) -> Decorator:
    """The test is skipped in Windows' subsystem for Linux."""
    return _skip_if("wsl2" in platform.release().lower(), reason)


def skip_under_cuda_memcheck(reason: str) -> Decorator:
    """The test is skipped where the environment says that NVIDIA's memory checker runs it."""
    return _skip_if("CUDA_MEMCHECK" in os.environ, reason)


def skip_if_external_memmgr(reason: str) -> Decorator:
    """The test is skipped where `NUMBA_CUDA_MEMORY_MANAGER` names a plug-in."""
    return _skip_if(config.CUDA_MEMORY_MANAGER != "default", reason)


def skip_if_mvc_enabled(reason: str) -> Decorator:
    """The test is skipped where Numba is set to link for older minor versions of CUDA."""
    return _skip_if(bool(config.CUDA_ENABLE_MINOR_VERSION_COMPATIBILITY), reason)


def skip_if_mvc_libraries_unavailable(test: Test) -> Test:
    """The test is skipped without NVIDIA's packages `cubinlinker` and `ptxcompiler`."""
    there = all(find_spec(name) is not None for name in ("cubinlinker", "ptxcompiler"))
    return _skip_unless(there, "requires cubinlinker and ptxcompiler")(test)


def skip_with_cuda_python(reason: str) -> Decorator:
    """The test is run: names of functions are not those of NVIDIA's Python bindings."""
    return _skip_if(False, reason)


def skip_without_nvdisasm(reason: str) -> Decorator:
    """The test is skipped without NVIDIA's disassembler."""
    return _skip_if(shutil.which("nvdisasm") is None, reason)


def skip_with_nvdisasm(reason: str) -> Decorator:
    """The test is skipped with NVIDIA's disassembler."""
    return _skip_if(shutil.which("nvdisasm") is not None, reason)


def skip_unless_conda_cudatoolkit(reason: str) -> Decorator:
    """The test is skipped: Haulage looks for no CUDA toolkit."""
    return _skip_if(True, reason)


def skip_if_nvjitlink_missing(reason: str) -> Decorator:
    """The test is skipped: Haulage links with no library of NVIDIA's."""
    return _skip_if(True, reason)


def skip_on_nvjitlink_13_1_sm_120(reason: str) -> Decorator:
    """The test is run: Haulage links with no library of NVIDIA's."""
    return _skip_if(False, reason)


def skip_on_standalone_numba_cuda(test: Test) -> Test:
    """The test is run: Numba is there."""
    return test


def skip_if_cuda_includes_missing(test: Test) -> Test:
    """The test is skipped without NVIDIA's header `cuda.h` in `NUMBA_CUDA_INCLUDE_PATH`."""
    return _skip_unless(_has_header("cuda.h"), "no cuda.h in NUMBA_CUDA_INCLUDE_PATH")(test)


def skip_if_curand_kernel_missing(test: Test) -> Test:
    """The test is skipped without `curand_kernel.h` in `NUMBA_CUDA_INCLUDE_PATH`."""
    there = _has_header("curand_kernel.h")
    return _skip_unless(there, "no curand_kernel.h in NUMBA_CUDA_INCLUDE_PATH")(test)


def _has_header(name: str) -> bool:
    return (Path(config.CUDA_INCLUDE_PATH) / name).is_file()


def cudadevrt_missing() -> bool:
    """Whether grids cannot wait for themselves for want of a library; they never want one here."""
    return False


def skip_if_cudadevrt_missing(test: Test) -> Test:
    """The test is run where grids can wait for themselves, which needs no library here."""
    return _skip_if(cudadevrt_missing(), "cudadevrt missing")(test)
