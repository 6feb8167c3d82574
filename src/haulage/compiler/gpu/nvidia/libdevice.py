"""NVIDIA's library of mathematics for kernels, as LLVM bitcode: where it is, and its functions."""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from haulage.compiler.gpu.nvidia import toolkit
from haulage.compiler.llvm import run_passes
from haulage.errors import CompileError
from haulage.extras import how_to_install
from haulage.targets.base import Target

FILE = "libdevice.10.bc"
_CALLED = re.compile(r"(?m)^declare [^@\n]*@(__nv_\w+)\(")


@cache
def find() -> Path:
    """The file.

    Raises:
        CompileError: it is in none of the places.
    """
    looked: list[str] = []
    for place in toolkit.places("nvidia-nvvm", str(Path("nvvm", "libdevice")), FILE):
        if place.is_file():
            return place
        looked.append(str(place))
    raise CompileError(
        f"mathematics on NVIDIA's GPUs needs {FILE}, which the wheel nvidia-nvvm and CUDA's "
        f"toolkits have: {how_to_install('nvidia')}; looked for the wheel, {', '.join(looked)}"
    )


def called(text: str) -> list[str]:
    """The functions of the library that a module's text declares."""
    return sorted(set(_CALLED.findall(text)))


def link(module: Any, names: Iterable[str], target: Target) -> None:
    """Link functions of the library into a parsed module that declares them.

    Raises:
        CompileError: it is not there, or broken.
    """
    import llvmlite.binding as llvm

    library = llvm.parse_bitcode(_part(_bitcode(), frozenset(names), target))
    library.triple = module.triple
    library.data_layout = module.data_layout
    module.link_in(library)


@cache
def _part(bitcode: bytes, names: frozenset[str], target: Target) -> bytes:
    """Functions of the library, and what they call: a fiftieth of it, and kernels of one program
    mostly have the same functions."""
    import llvmlite.binding as llvm

    try:
        library = llvm.parse_bitcode(bitcode)
    except RuntimeError as error:
        raise CompileError(
            f"{find()} is not NVIDIA's library of mathematics, or is of a kind that this version "
            f"of LLVM cannot read; {how_to_install('nvidia')} brings one: {error}"
        ) from error
    for function in library.functions:
        if not function.is_declaration and function.name not in names:
            function.linkage = "internal"
    run_passes(library, target, "global_dead_code_eliminate")
    made: bytes = library.as_bitcode()
    return made


@cache
def _bitcode() -> bytes:
    return find().read_bytes()
