"""Where NVIDIA's files are: in wheels of theirs, then in toolkits."""

import os
import shutil
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

# The variables by which users name a toolkit, in the order in which they are asked; Conda's
# environments are laid out as one.
VARIABLES = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CONDA_PREFIX")
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
    for home in _homes():
        yield home / folder / name


def _homes() -> Iterator[Path]:
    """Toolkits: that a user names, that of the compiler on PATH, where packages put them."""
    yield from (Path(os.environ[each]) for each in VARIABLES if os.environ.get(each))
    compiler = shutil.which("nvcc")
    if compiler is not None:
        yield Path(compiler).resolve().parents[1]
    yield from map(Path, TOOLKITS)


@cache
def program(wheel: str, name: str) -> str | None:
    """The path of a program of theirs: in the wheel, in a toolkit or on PATH; None without it.

    A process looks for it once.
    """
    name = f"{name}.exe" if sys.platform == "win32" else name
    found = (str(place) for place in places(wheel, "bin", name) if place.is_file())
    return next(found, None) or shutil.which(name)
