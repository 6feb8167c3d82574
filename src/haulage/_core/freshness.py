"""Whether the extension was built for this Python, and of the sources that lie beside it.

The build reads this file, too, and has nothing else of Haulage then.
"""

import os
import sys
from zlib import crc32

_ENDINGS = (".pyx", ".pxd", ".c", ".h")


def digest(folder: str) -> str | None:
    """Of the names and contents of the sources in a folder; None if there are none."""
    found = 0
    names = sorted(name for name in os.listdir(folder) if name.endswith(_ENDINGS))
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            found = crc32(file.read(), crc32(name.encode(), found))
    return f"{len(names)}:{found:08x}" if names else None


def refusal_of_this_python() -> str | None:
    """Why Haulage cannot run on this Python, if so."""
    if "t" not in getattr(sys, "abiflags", ""):
        return None
    version = ".".join(map(str, sys.version_info[:2]))
    return (
        f"Haulage relies on the global interpreter lock, which this Python ({version}t, a "
        f"free-threaded build) has not; use the build of {version} with it."
    )
