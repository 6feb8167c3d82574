"""Where NVIDIA's files are: in wheels of theirs, then in toolkits."""

import os
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

# The variables by which users name a toolkit, in the order in which they are asked.
VARIABLES = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")
# Where Linux's packages put one.
TOOLKITS = () if sys.platform == "win32" else ("/usr/local/cuda", "/opt/cuda", "/usr/lib/cuda")


def places(wheel: str, folder: str, name: str) -> Iterator[Path]:
    """Where a file may be: in the wheel of that name, then in the folder of each toolkit."""
    try:
        for file in files(wheel) or ():
            if file.name == name:
                yield Path(str(file.locate()))
    except PackageNotFoundError:
        pass
    homes = [os.environ[variable] for variable in VARIABLES if os.environ.get(variable)]
    for home in (*homes, *TOOLKITS):
        yield Path(home) / folder / name


@cache
def program(wheel: str, name: str) -> str | None:
    """The path of a program of theirs: in the wheel, in a toolkit or on PATH; None without it.

    A process looks for it once.
    """
    name = f"{name}.exe" if sys.platform == "win32" else name
    found = (str(place) for place in places(wheel, "bin", name) if place.is_file())
    return next(found, None) or shutil.which(name)
