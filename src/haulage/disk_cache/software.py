"""Versions of everything that makes code, found without importing any of it."""

import functools
import hashlib
import importlib.util
import os
import platform
import sys
from pathlib import Path

import numpy as np

_PACKAGE = Path(__file__).resolve().parent.parent


def versions() -> dict[str, str]:
    """What has to be the same for code to be what would be made now."""
    return {
        "python": f"{sys.implementation.cache_tag} {importlib.util.MAGIC_NUMBER.hex()}",
        "haulage": _sources(),
        "numpy": np.__version__,
        "numba": version_of("numba"),
        "llvmlite": version_of("llvmlite"),
        "llvm": _llvm_library(),
        "machine": f"{platform.system()} {platform.machine()}",
        # Settings of Numba's; which of them matter is Numba's to change.
        **{name: text for name, text in os.environ.items() if name.startswith("NUMBA_")},
    }


@functools.cache
def version_of(package: str) -> str:
    """A package's version as its metadata has it.

    Raises:
        PackageNotFoundError: there is no such package.
    """
    # The folder's name tells it; Python's own way takes 20 milliseconds for its import.
    found = [
        metadata
        for folder in _folders(package)
        for metadata in folder.parent.glob(f"{package}-*.dist-info")
    ]
    if len(found) == 1:
        return found[0].name.removeprefix(f"{package}-").removesuffix(".dist-info")
    from importlib.metadata import version

    return version(package)


@functools.cache
def _sources() -> str:
    """A digest of Haulage's own sources: between two releases the version does not tell."""
    digest = hashlib.sha256()
    for file in sorted(_PACKAGE.rglob("*.py")):
        digest.update(f"{file.relative_to(_PACKAGE)}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


@functools.cache
def _llvm_library() -> str:
    """Which build of LLVM there is: llvmlite's version does not tell where it was built apart."""
    for folder in _folders("llvmlite"):
        for library in (folder / "binding").glob("*llvmlite*"):
            if library.suffix in (".so", ".dylib", ".dll"):
                facts = library.stat()
                return f"{facts.st_size} {facts.st_mtime_ns}"
    return ""


def _folders(package: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    return [Path(folder) for folder in (spec and spec.submodule_search_locations) or ()]
