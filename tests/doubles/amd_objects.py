"""What can be said of code for AMD's GPUs without one: LLVM's tools read it, where they are.

They are Debian's `llvm-19`; `HAULAGE`'s own reader of what a code object takes needs none.
"""

import hashlib
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import haulage
from doubles import amd_described, amd_linked
from doubles.amd_described import Launch
from haulage.compiler.gpu.amd import emit
from haulage.targets import amd_linker
from haulage.targets.amd_linker import notes
from haulage.targets.amd_metadata import kernels

# The architectures that all code is tried for.
ARCHITECTURES = ("gfx900", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")
MAGIC = b"\x7fELF"
# LLVM's programs that `check` goes by, where they are.
PROGRAMS = ("ld.lld", "llvm-objdump", "llvm-readelf")
# What fills the room behind a kernel.
_FILLING = ("s_nop", "s_code_end")
_NEWEST, _OLDEST = 30, 18


@cache
def _newest(program: str) -> str | None:
    """The path of LLVM's program, or None if there is none that knows these GPUs."""
    names = [f"{program}-{number}" for number in range(_NEWEST, _OLDEST, -1)]
    return next((path for name in names if (path := shutil.which(name))), None)


def disassembler() -> str | None:
    """LLVM's, or None if there is none that knows these GPUs."""
    return _newest("llvm-objdump")


def reader() -> str | None:
    """LLVM's reader of ELF files, or None if there is none that knows these GPUs."""
    return _newest("llvm-readelf")


needs_disassembler = pytest.mark.skipif(
    disassembler() is None, reason="no llvm-objdump: apt-get install llvm-19"
)


@cache
def linker() -> str | None:
    """LLVM's of the version that ours is compared with, or None."""
    return shutil.which("ld.lld-19")


# By what their code objects hash to: the objects that these were linked from.
_objects: dict[bytes, bytes] = {}


def remember() -> Any:
    """From now on keep what is linked, so that `check` can compare linkers; gives what `forget`
    takes."""
    before = emit.link
    emit.link = _remembering
    return before


def forget(before: Any) -> None:
    """Link as before a `remember`."""
    emit.link = before


def _remembering(code: bytes, unread: tuple[str, ...] = ()) -> bytes:
    made = amd_linker.link(code, unread)
    _objects[hashlib.sha256(made).digest()] = notes.without(code, unread)
    return made


def check(code: bytes, launch: Launch | None = None) -> tuple[str, ...]:
    """See that ROCm's loader takes it, that the note by which the runtime goes says what the
    descriptors say by which the hardware does, and what `launch` passes; and that LLVM's linker
    makes the same of the object, if that is remembered.

    Returns:
        Those of LLVM's programs that are there, by which it was checked too.

    Raises:
        AssertionError: it is not right.
    """
    object_, program = _objects.pop(hashlib.sha256(code).digest(), None), linker()
    amd_described.check_descriptors(code)
    if launch is not None:
        amd_described.check_launch(code, launch)
    if object_ is None or program is None:
        return ()
    with tempfile.TemporaryDirectory() as folder:
        amd_linked.assert_as_lld(object_, Path(folder), program)
    return ("ld.lld",)


def read(codes: Sequence[bytes]) -> tuple[str, ...]:
    """See that LLVM's programs read code objects, and find what `amd_metadata` does. All at once,
    as starting a program takes longer than its work.

    Returns:
        Those of the programs that are there.

    Raises:
        AssertionError: one of them is not right.
    """
    programs = []
    if codes and reader() is not None:
        parts = _said(reader(), "-hlSdrs", "--notes", of=codes).split("\nFile: ")[-len(codes) :]
        for code, printed in zip(codes, parts, strict=True):
            amd_described.check_reading(code, printed)
        programs.append("llvm-readelf")
    if codes and disassembler() is not None:
        # It takes all files for such of the first one's architecture.
        by_kind: dict[tuple[str, str], list[bytes]] = {}
        for code in codes:
            kind = amd_described.architecture(code), _features(code)
            by_kind.setdefault(kind, []).append(code)
        for alike in by_kind.values():
            _disassembled(alike)
        programs.append("llvm-objdump")
    return tuple(programs)


_HALVES = "+real-true16"


def _features(code: bytes) -> str:
    """What the disassembler has to be told of a code object, besides its architecture."""
    (lanes,) = {each.lanes for each in kernels(code).values()}
    features = ["+wavefrontsize64"] * (lanes == 64)
    # LLVM 19 has the halves of gfx11's registers, and does not look for them of itself.
    features += [_HALVES] * amd_described.architecture(code).startswith("gfx11")
    return ",".join(features)


def instructions(
    kernel: Any, signature: str, architecture: str = "gfx942", **options: Any
) -> list[str]:
    """The instructions of a kernel's linked code, one string each with single spaces."""
    code = haulage.compile(kernel, signature, architecture, **options)
    check(code.code)
    found = _disassembled([code.code])
    return [line for line in found if not line.startswith(_FILLING)]


def _disassembled(codes: Sequence[bytes]) -> list[str]:
    """All instructions of code objects of one kind, and what fills the room behind."""
    features = _features(codes[0])
    printed = _said(disassembler(), "-d", "--no-show-raw-insn", f"--mattr={features}", of=codes)
    assert printed.count("file format elf64-amdgpu") == len(codes)
    lines = (line.partition("//")[0] for line in printed.splitlines() if line[:1] == "\t")
    found = [" ".join(line.split()) for line in lines]
    assert len(found) >= len(codes)
    # What is no instruction is printed as a number.
    unknown = [line for line in found if line.startswith(".")]
    if _HALVES in features:
        unknown = [line for line in unknown if not _is_of_halves(line)]
    assert not unknown, (unknown, found)
    return [line for line in found if line]


# The gfx11 instructions with one operand whose result is a half, and what they can be given in one
# word: registers of wavefronts and of lanes, and constants.
_TO_HALVES = (0x0A, *range(0x50, 0x65))
_IN_ONE_WORD = (*range(108), *range(128, 209), *range(240, 249), *range(256, 512))


def _is_of_halves(line: str) -> bool:
    """Whether a number is an instruction of gfx11 that writes the upper half of a register. LLVM 19
    knows those with one operand, in their short form, for the lower half only: the same without a
    bit."""
    found = re.fullmatch(r"\.long (0x[0-9a-f]{8})", line)
    word = int(found[1], 16) if found else 0
    is_upper = word >> 24 & 1
    return (
        word >> 25 == 0x3F
        and bool(is_upper)
        and (word >> 9 & 0xFF) in _TO_HALVES
        and (word & 0x1FF) in _IN_ONE_WORD
    )


def _said(program: str | None, *options: str, of: Sequence[bytes]) -> str:
    """What one of LLVM's programs prints of code objects; it must warn of nothing."""
    assert program is not None
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, f"{number}.hsaco") for number in range(len(of))]
        for file, code in zip(files, of, strict=True):
            file.write_bytes(code)
        command = [program, *options, *map(str, files)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def count(lines: list[str], pattern: str) -> int:
    """How many instructions begin as a regular expression says."""
    return sum(re.match(pattern, line) is not None for line in lines)
