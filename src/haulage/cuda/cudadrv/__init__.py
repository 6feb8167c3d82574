"""Where programs for numba.cuda look for its private side; what is rare is imported when named."""

import importlib
from types import ModuleType

from haulage.compat.absent import absent
from haulage.cuda.cudadrv import devicearray, devices, driver, error, runtime

__all__ = ["devicearray", "devices", "driver", "error", "runtime"]

_WHEN_NAMED = ("drvapi", "dummyarray", "enums", "libs", "ndarray", "nvrtc", "nvvm", "rtapi")

_absent = absent(__name__, "it is a part of NVIDIA's driver that Haulage has no use of")


def __getattr__(name: str) -> ModuleType:
    if name in _WHEN_NAMED:
        return importlib.import_module(f"{__name__}.{name}")
    _absent(name)
