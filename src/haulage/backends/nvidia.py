"""NVIDIA GPUs: so far only looking for the driver. The back end itself is not in this version."""

import ctypes
import sys

from haulage.backends.base import Probe
from haulage.backends.libraries import failures, search

_NO_BACKEND = "this version of Haulage cannot run on NVIDIA GPUs yet"


def probe() -> Probe:
    """Look for the CUDA driver and ask it for its version and devices; never raises."""
    names = ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")
    found = search(names)
    if found.library is None:
        return Probe(False, found.looked_for, f"{failures(found)}; {_NO_BACKEND}")
    try:
        answer = _ask(found.library)
    except AttributeError as error:
        answer = f"the library is not the driver it is named after: {error}"
    return Probe(False, found.looked_for, f"{answer}; {_NO_BACKEND}")


def _ask(driver: ctypes.CDLL) -> str:
    status = driver.cuInit(0)
    if status:
        return f"the driver is there, cuInit answered {status}"
    version, count = ctypes.c_int(), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    driver.cuDeviceGetCount(ctypes.byref(count))
    text = f"{version.value // 1000}.{version.value % 1000 // 10}"
    return f"the driver is there, for CUDA {text}, with {count.value} device(s)"
