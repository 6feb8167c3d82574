"""Looking for CUDA's driver, and for the package by which it is called."""

import ctypes
import functools
import importlib
import os
import sys

from haulage.backends.base import Probe
from haulage.backends.libraries import Search, failures, search
from haulage.extras import how_to_install

# The oldest driver all of whose functions that are called here are there: 535, of June 2023.
OLDEST = (12, 2)
_OLDEST_RELEASE = "535"

BINDINGS = "cuda.bindings.driver"
_INSTALL = how_to_install("nvidia")
# What makes cuda-bindings before 13.2 take each thread's own stream for the default one, in its
# calls but not in launches, which do not go by it. Whatever it is set to, "0" too.
_OTHER_DEFAULT = "CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM"

# What statuses of cuInit mean to who has to mend it.
_CAUSES = {
    34: "the library is a stub to link programs with, of a toolkit; take its folder out of "
    "LD_LIBRARY_PATH",
    46: "the devices are in use by a program that has them to itself, or are being reset",
    100: "no NVIDIA device is visible: none is there, or CUDA_VISIBLE_DEVICES or the container "
    "hides it",
    101: "CUDA_VISIBLE_DEVICES names a device that is not there",
    802: "the system is not ready yet: the service nvidia-fabricmanager may not be running",
    803: "the library and the kernel's module are of different versions of the driver; reboot, or "
    "reload the module, after an update",
    804: "the library is one of the packages for forward compatibility, which this device does not "
    "take; remove it from LD_LIBRARY_PATH",
    999: "the kernel's module may be missing or has failed; nvidia-smi and dmesg may tell more",
}


def probe() -> Probe:
    """Look for the driver, its devices and the package `cuda-bindings`; never raises."""
    found = search(("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so"))
    if found.library is None:
        missing = f"no NVIDIA driver: {failures(found)}"
        broken = f"the driver's library cannot be loaded: {found.broken}"
        if found.broken:
            return Probe(False, found.looked_for, broken, "its driver cannot be loaded")
        return Probe(False, found.looked_for, missing, "no driver")
    try:
        return _ask(found, found.library)
    except AttributeError as error:
        answer = f"the library is not the driver it is named after: {error}"
        return Probe(False, found.looked_for, answer, "its driver is something else")


def _ask(found: Search, driver: ctypes.CDLL) -> Probe:
    refused = functools.partial(Probe, False, found.looked_for)
    number, count = ctypes.c_int(), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(number))
    version = (number.value // 1000, number.value % 1000 // 10)
    its = f"the driver is there, for CUDA {version[0]}.{version[1]}"
    if version < OLDEST:
        return refused(
            f"{its}, which is too old: Haulage needs one for CUDA {OLDEST[0]}.{OLDEST[1]} or "
            f"later, which is driver {_OLDEST_RELEASE}",
            f"its driver is too old: CUDA {version[0]}.{version[1]}, "
            f"not {OLDEST[0]}.{OLDEST[1]} or later",
        )
    asked, status = "cuInit", driver.cuInit(0)
    if not status:
        asked, status = "cuDeviceGetCount", driver.cuDeviceGetCount(ctypes.byref(count))
    if status:
        cause = _CAUSES.get(status, "see the driver's log (dmesg)")
        named = _named(driver, status)
        return refused(
            f"{its}; {asked} answered {named}: {cause}",
            f"its driver answers {named}",
        )
    its += f", with {count.value} device(s)"
    missing = _missing_bindings()
    if not missing and os.environ.get(_OTHER_DEFAULT) and _bindings_version() < (13, 2):
        return refused(
            f"{its}, but {_OTHER_DEFAULT} is set, by which cuda-bindings of before 13.2 takes "
            "another default stream than Haulage: unset it, and name "
            "cuda.per_thread_default_stream() where that is meant",
            f"{_OTHER_DEFAULT} is set",
        )
    if missing:
        return refused(
            f"{its}, but {missing}: {_INSTALL}",
            f"{missing}: {_INSTALL}",
            f"an NVIDIA driver is there, and is not used, as {missing}; install it with: "
            f"{_INSTALL}",
        )
    return Probe(count.value > 0, found.looked_for, its)


def _named(driver: ctypes.CDLL, status: int) -> str:
    name = ctypes.c_char_p()
    driver.cuGetErrorName(status, ctypes.byref(name))
    return f"{status} ({name.value.decode()})" if name.value else str(status)


def _missing_bindings() -> str:
    """Why the package cannot be used; nothing if it can."""
    try:
        importlib.import_module(BINDINGS)
    except ModuleNotFoundError:
        return "the package cuda-bindings is not installed"
    except ImportError as error:
        return f"the package cuda-bindings cannot be imported ({error})"
    if (12, 9) <= _bindings_version() < (14, 0):
        return ""
    told = importlib.import_module("cuda.bindings").__version__
    return f"the package cuda-bindings is version {told}, not 12.9 to 13"


def _bindings_version() -> tuple[int, ...]:
    told: str = importlib.import_module("cuda.bindings").__version__
    return tuple(int(part) for part in told.split(".")[:2])
