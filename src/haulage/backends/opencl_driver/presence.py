"""Whether a GPU may be there that OpenCL reaches; asks no driver.

To load OpenCL's drivers takes a while, which programs that name no device would pay.
"""

import sys
from pathlib import Path

_RENDER = Path("/dev/dri")
_WINDOWS_GPU = Path("/dev/dxg")  # of Windows' subsystem for Linux


def is_likely() -> bool:
    """Whether it is worth looking for OpenCL where no device is named."""
    if sys.platform.startswith("linux"):
        return _WINDOWS_GPU.exists() or any(_RENDER.glob("renderD*"))
    return sys.platform == "win32"
