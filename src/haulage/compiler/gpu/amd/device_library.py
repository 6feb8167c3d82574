"""AMD's library of mathematics for kernels (OCML), as LLVM bitcode: where it is."""

import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from haulage.errors import CompileError
from haulage.targets.amd_architectures import version

if TYPE_CHECKING:
    from haulage.targets.amd import AMDTarget

FILE = "ocml.bc"
# ROCm's own variable for the folder with such files.
FOLDER = "HIP_DEVICE_LIB_PATH"
# The variables by which users name a ROCm installation, in the order in which they are asked.
VARIABLES = ("ROCM_PATH", "ROCM_HOME", "HIP_PATH")
_WHEEL = "rocm-sdk-core"
# The functions of which there are no others.
MISSED = "gamma, lgamma and Bessel's functions are then missing in kernels for AMD's GPUs"
# Where a ROCm installation has them, by its version and by who has packed it.
_INSIDE = (
    *("amdgcn/bitcode", "lib/llvm/amdgcn/bitcode", "llvm/amdgcn/bitcode"),
    *("lib/amdgcn/bitcode", "lib/llvm/lib/clang/*/lib/amdgcn/bitcode"),
    *("lib/llvm/lib/clang/*/amdgcn/bitcode", "lib/clang/*/amdgcn/bitcode"),
)
# Where Linux's packages put it.
_INSTALLED = () if sys.platform == "win32" else ("/opt/rocm", "/usr", "/usr/lib64/rocm")
_PACKAGED = ("lib/*-linux-gnu/amdgcn/bitcode", "lib64/amdgcn/bitcode")


def _places() -> Iterator[Path]:
    try:
        for file in files(_WHEEL) or ():
            if file.name == FILE:
                yield Path(str(file.locate())).parent
    except PackageNotFoundError:
        pass
    homes = [os.environ[variable] for variable in VARIABLES if os.environ.get(variable)]
    for home in (*homes, *_INSTALLED):
        for inside in (*_INSIDE, *_PACKAGED):
            yield from sorted(Path(home).glob(inside))


@cache
def find() -> Path | None:
    """The file, or None if it is in none of the places.

    Raises:
        CompileError: it is not in the folder that `HIP_DEVICE_LIB_PATH` names.
    """
    named = os.environ.get(FOLDER)
    if named:
        file = Path(named) / FILE
        if file.is_file():
            return file
        raise CompileError(
            f"{FOLDER}={named}: there is no {FILE} in that folder; name one that has it, or unset "
            "the variable, and it is looked for where ROCm and Debian have it"
        )
    return next((place / FILE for place in _places() if (place / FILE).is_file()), None)


def missing() -> str:
    """What to install where there is none."""
    return (
        f"on AMD's GPUs this needs {FILE}, which ROCm and Debian's package rocm-device-libs have: "
        f"install one of them, or set {FOLDER} to the folder with the file, or "
        f"{' or '.join(VARIABLES)} to a ROCm installation; looked there, for the package {_WHEEL}, "
        f"and below {', '.join(_INSTALLED)}"
    )


def link(module: Any, target: "AMDTarget", *, fast: bool) -> None:
    """Link the library into a parsed module that declares functions of it.

    Raises:
        CompileError: LLVM cannot read the file.
    """
    import llvmlite.binding as llvm

    path = find()
    assert path is not None
    try:
        library = llvm.parse_bitcode(_bitcode(path))
    except RuntimeError as error:
        raise CompileError(
            f"{path}: LLVM {'.'.join(map(str, llvm.llvm_version_info))} cannot read it "
            f"({' '.join(str(error).split())}); set {FOLDER} to the folder of an {FILE} that is "
            "whole and not newer"
        ) from error
    library.triple = module.triple
    library.data_layout = module.data_layout
    module.link_in(library)
    settings = llvm.parse_assembly(_settings(target, fast=fast))
    settings.triple = module.triple
    settings.data_layout = module.data_layout
    module.link_in(settings)


@cache
def _bitcode(path: Path) -> bytes:
    return path.read_bytes()


def _settings(target: "AMDTarget", *, fast: bool) -> str:
    """The variables that the library's functions ask: each decides a branch once and for all."""
    major, minor, stepping = version(target.architecture)
    lanes = target.wave_size
    values = {
        "ISA_version": ("i32", 1000 * major + 100 * minor + stepping),
        "ABI_version": ("i32", 500),
        "finite_only_opt": ("i8", int(fast)),
        "unsafe_math_opt": ("i8", int(fast)),
        "daz_opt": ("i8", int(fast)),
        "correctly_rounded_sqrt32": ("i8", int(not fast)),
        "wavefrontsize64": ("i8", int(lanes == 64)),
        "wavefrontsize_log2": ("i8", lanes.bit_length() - 1),
    }
    return "\n".join(
        f"@__oclc_{name} = linkonce_odr hidden addrspace(4) constant {kind} {value}"
        for name, (kind, value) in values.items()
    )
