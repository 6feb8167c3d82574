"""AMD GPUs: so far only looking for the driver. The back end itself is not in this version."""

import ctypes
import os
import sys

from haulage.backends.base import Probe
from haulage.backends.libraries import failures, search

_NO_BACKEND = "this version of Haulage cannot run on AMD GPUs yet"


def probe() -> Probe:
    """Look for the HIP runtime and ask it for its version and devices; never raises."""
    if sys.platform == "win32":
        names: tuple[str, ...] = ("amdhip64_7.dll", "amdhip64_6.dll", "amdhip64.dll")
        below = "bin"
    else:
        names = tuple(f"libamdhip64.so{end}" for end in (".7", ".6", ".5", ""))
        below = "lib"
    roots = [os.environ.get("ROCM_PATH"), os.environ.get("HIP_PATH"), "/opt/rocm"]
    found = search(names, [os.path.join(root, below) for root in roots if root])
    if found.library is None:
        return Probe(False, found.looked_for, f"{failures(found)}; {_NO_BACKEND}")
    try:
        answer = _ask(found.library)
    except AttributeError as error:
        answer = f"the library is not the runtime it is named after: {error}"
    return Probe(False, found.looked_for, f"{answer}; {_NO_BACKEND}")


def _ask(runtime: ctypes.CDLL) -> str:
    status = runtime.hipInit(0)
    if status:
        return f"the runtime is there, hipInit answered {status}"
    version, count = ctypes.c_int(), ctypes.c_int()
    runtime.hipRuntimeGetVersion(ctypes.byref(version))
    runtime.hipGetDeviceCount(ctypes.byref(count))
    return f"the runtime is there, version {version.value}, with {count.value} device(s)"
