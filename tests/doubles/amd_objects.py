"""What can be said of code for AMD's GPUs without one: LLVM's tools read it, where they are.

They are Debian's `llvm-19`; `HAULAGE`'s own reader of what a code object takes needs none.
"""

import hashlib
import re
import shutil
import struct
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import haulage
from doubles import amd_linked, amd_loader
from haulage.compiler.gpu.amd import emit
from haulage.targets import amd_linker
from haulage.targets.amd_metadata import kernels

# The architectures that all code is tried for.
ARCHITECTURES = ("gfx900", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")
MAGIC = b"\x7fELF"
# What fills the room behind a kernel.
_FILLING = ("s_nop", "s_code_end")
_NEWEST, _OLDEST = 30, 18


@cache
def disassembler() -> str | None:
    """LLVM's, or None if there is none that knows these GPUs."""
    names = [f"llvm-objdump-{number}" for number in range(_NEWEST, _OLDEST, -1)]
    return next((path for name in names if (path := shutil.which(name))), None)


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
    _objects[hashlib.sha256(made).digest()] = code
    return made


def check(code: bytes) -> None:
    """Raise an AssertionError unless ROCm's loader takes it, the note by which the runtime goes
    says what the descriptors say by which the hardware does, and LLVM's linker makes the same of
    the object, if that is remembered and there is such a linker."""
    loaded, found = amd_loader.load(code), kernels(code)
    assert found.keys() == loaded.kernels.keys()
    for name, kernel in found.items():
        assert loaded.entry(name) == loaded.functions[name].address
        said = struct.unpack("<III", loaded.read(loaded.kernels[name].address, 12))
        assert said == (kernel.shared_bytes, kernel.local_bytes, kernel.argument_bytes)
    object_, program = _objects.pop(hashlib.sha256(code).digest(), None), linker()
    if object_ is not None and program is not None:
        with tempfile.TemporaryDirectory() as folder:
            amd_linked.assert_as_lld(object_, Path(folder), program)


def instructions(
    kernel: Any, signature: str, architecture: str = "gfx942", **options: Any
) -> list[str]:
    """The instructions of a kernel's linked code, one string each with single spaces."""
    code = haulage.compile(kernel, signature, architecture, **options)
    check(code.code)
    program = disassembler()
    assert program is not None
    features = ["--mattr=+wavefrontsize64"] if code.resources["lanes"] == 64 else []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel.hsaco")
        file.write_bytes(code.code)
        command = [program, "-d", "--no-show-raw-insn", f"--mcpu={architecture}", *features]
        done = subprocess.run([*command, str(file)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
    lines = (line.partition("//")[0] for line in done.stdout.splitlines() if line[:1] == "\t")
    found = [" ".join(line.split()) for line in lines]
    assert not [line for line in found if "<unknown>" in line], found
    return [line for line in found if line and not line.startswith(_FILLING)]


def count(lines: list[str], pattern: str) -> int:
    """How many instructions begin as a regular expression says."""
    return sum(re.match(pattern, line) is not None for line in lines)
