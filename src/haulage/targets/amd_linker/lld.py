"""LLVM's linker in the place of Haulage's: where it is, and its call."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from haulage import config
from haulage.errors import Unsupported
from haulage.targets.amd_linker.reading import refused

# Older ones do not know code object v5.
OLDEST = 15
NEWEST_LOOKED_FOR = 30
# A kernel takes a fraction of a second.
_SECONDS = 300

_VERSION = re.compile(r"\bLLD (\d+)")


def link(code: bytes) -> bytes:
    """The code object of an object.

    Raises:
        CompileError: the linker does not take it; the message has its own.
        Unsupported: there is no such linker.
    """
    program = chosen()
    with tempfile.TemporaryDirectory(prefix="haulage-") as folder:
        source, made = Path(folder, "kernel.o"), Path(folder, "kernel.hsaco")
        source.write_bytes(code)
        options = ["-shared", "-Bsymbolic", "--no-undefined", "-o", str(made), str(source)]
        done = _run(program, *options)
        if done.returncode:
            raise refused(f"{program} failed with {done.returncode}: {done.stderr.strip()}")
        return made.read_bytes()


def chosen() -> str:
    """The path of the linker that `HAULAGE_AMD_LINKER` asks for.

    Raises:
        Unsupported: it is not there, or too old.
    """
    named = config.amd_linker()
    if named == "lld":
        return _newest(os.environ.get("ROCM_PATH", ""), os.environ.get("PATH", ""))
    if not Path(named).is_file() or not os.access(named, os.X_OK):
        raise Unsupported(f"HAULAGE_AMD_LINKER={named}: there is no such program")
    return named


@cache
def _newest(rocm: str, path: str) -> str:
    """For one state of the environment's variables, which say where to look."""
    seen = {}
    for place in _places(rocm, path):
        version = _version(place)
        if version is not None and version >= OLDEST:
            return place
        seen[place] = version
    found = "; ".join(f"{place} is LLD {version}" for place, version in seen.items())
    raise Unsupported(
        f"HAULAGE_AMD_LINKER=lld: no ld.lld of LLVM {OLDEST} or newer in ROCM_PATH, /opt/rocm or "
        f"PATH{f' ({found})' if found else ''}; install ROCm or LLVM's lld, or unset the variable "
        "for Haulage's own linker"
    )


def _places(rocm: str, path: str) -> Iterator[str]:
    for root in (rocm, "/opt/rocm"):
        for folder in ("llvm/bin", "lib/llvm/bin"):
            program = Path(root, folder, "ld.lld")
            if root and program.is_file():
                yield str(program)
    names = [f"ld.lld-{number}" for number in range(NEWEST_LOOKED_FOR, OLDEST - 1, -1)]
    for name in (*names, "ld.lld"):
        found = shutil.which(name, path=path)
        if found:
            yield found


def _version(program: str) -> int | None:
    found = _VERSION.search(_run(program, "--version").stdout)
    return int(found[1]) if found else None


def _run(program: str, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([program, *options], capture_output=True, text=True, timeout=_SECONDS)
