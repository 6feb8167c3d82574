"""NVIDIA's assembler, from the wheel `nvidia-cuda-nvcc` or a toolkit; it needs no GPU."""

import re
import shutil
import subprocess
import tempfile
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

# The architectures that all code is tried for.
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")


@cache
def program() -> str | None:
    """The assembler's path, or None if there is none."""
    try:
        for file in files("nvidia-cuda-nvcc") or ():
            if file.name in ("ptxas", "ptxas.exe"):
                return str(file.locate())
    except PackageNotFoundError:
        pass
    return shutil.which("ptxas")


def assemble(ptx: str, *options: str) -> bytes:
    """The cubin of a PTX text for the architecture that it names.

    Raises:
        AssertionError: it is not right; the message has the assembler's.
    """
    architecture = re.search(r"(?m)^\.target (\w+)", ptx)
    assert architecture is not None, ptx[:200]
    path = program()
    assert path is not None, "ptxas is not there: pip install nvidia-cuda-nvcc"
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        command = [path, f"-arch={architecture[1]}", *options, "-o", str(made), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{ptx}"
        return made.read_bytes()
