"""Objects for AMD's GPUs from LLVM IR, and LLVM's tools where they are installed."""

import shutil
import subprocess
from functools import cache

import llvmlite.binding as llvm
import pytest

from doubles.amd_linked import by_lld

ARCHITECTURES = ("gfx900", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201")

TRIPLE = "amdgcn-amd-amdhsa"
# What `apt-get install lld-19 llvm-19` installs.
LLVM = 19


@cache
def _machine(architecture: str, level: int):
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(TRIPLE)
    return target.create_target_machine(cpu=architecture, opt=level, reloc="pic")


@cache
def amd_object(
    ir: str, architecture: str = "gfx942", *, level: int = 2, version: int = 500
) -> bytes:
    """The object of a module's text; `version` is the code object's, times 100."""
    machine = _machine(architecture, level)
    flags = "!llvm.module.flags = !{!9000}\n"
    flags += f'!9000 = !{{i32 1, !"amdhsa_code_object_version", i32 {version}}}'
    if "!llvm.module.flags" in ir:
        flags = ""
    layout = f'target triple = "{TRIPLE}"\ntarget datalayout = "{machine.target_data}"\n'
    module = llvm.parse_assembly(f"{layout}{ir}\n{flags}\n")
    if level:
        tuning = llvm.create_pipeline_tuning_options(speed_level=level)
        builder = llvm.create_pass_builder(machine, tuning)
        builder.getModulePassManager().run(module, builder)
    return bytes(machine.emit_object(module))


@cache
def tool(name: str) -> str:
    """The path of one of LLVM's tools; the test is skipped where it is not installed."""
    found = shutil.which(f"{name}-{LLVM}")
    if found is None:
        pytest.skip(f"{name}-{LLVM} is not installed (apt-get install lld-{LLVM} llvm-{LLVM})")
    return found


def run(name: str, *arguments: str) -> str:
    """What a tool prints; it must succeed and warn of nothing."""
    done = subprocess.run([tool(name), *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def linked_by_lld(code: bytes, folder, *options: str) -> bytes:
    """The code object that LLVM's linker makes of an object."""
    return by_lld(code, folder, tool("ld.lld"), *options)
