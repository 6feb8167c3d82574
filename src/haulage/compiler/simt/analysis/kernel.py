"""A kernel's body as both strategies take it: read, with its memory set apart.

Shared arrays become parameters of the functions that are made from the body, and private arrays
(allocas) storage of which every thread has its own.
"""

import re
from dataclasses import dataclass

from haulage.compiler import llvm
from haulage.compiler.definitions import definition_start
from haulage.compiler.simt.analysis import exits
from haulage.compiler.simt.analysis.barriers import BARRIERS
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.ir import reader
from haulage.compiler.simt.ir.model import Function, Instruction
from haulage.compiler.simt.ir.types import TAIL_CALLS, size_of
from haulage.targets.base import Target
from haulage.targets.cpu_ir import SHARED_ADDRESS, SHARED_PREFIX

KERNEL = "haulage.kernel"

_DROPPED = ("llvm.lifetime.", "llvm.experimental.noalias.scope.decl", "llvm.donothing")
_GONE = (f"@{SHARED_PREFIX}", "source_filename", "; ModuleID")
# A barrier, or the use of a shared array, within a function.
_WAITING = re.compile(rf"(?m)^ .*@(?:(?:{'|'.join(map(re.escape, BARRIERS))})\(|{SHARED_PREFIX})")
_SHARED = re.compile(
    rf"(?m)^@(?P<name>{re.escape(SHARED_PREFIX)}\d+) = [^\n\[]*\[(?P<bytes>\d+) x i8\][^\n]*"
    r", align (?P<align>\d+)"
)


@dataclass(frozen=True)
class Storage:
    """Memory that the body names: LLVM name, bytes, alignment."""

    name: str
    nbytes: int
    align: int


@dataclass(frozen=True)
class Body:
    """The body, the module around it, and its storage.

    `around` is the module's text without the body's definition; `shared` is the storage that a
    block has, `private` what each thread has; `may_fail` whether a thread can return a fault,
    `has_ends` whether it can come to several ends (`compiler/ends.py`), which then have codes other
    than 0.
    """

    around: str
    function: Function
    shared: tuple[Storage, ...]
    private: tuple[Storage, ...]
    may_fail: bool
    has_ends: bool


class NotInlined(Exception):
    """A function that was not inlined, as it calls itself, has a barrier or a shared array."""


def read(text: str, target: Target) -> Body:
    """The body `haulage.kernel` of a module's text, whose every value has a name.

    Raises:
        NotInlined: a barrier or a shared array is in another function.
    """
    function = reader.read(text, KERNEL)
    shared = _take_shared(function, text)
    # What a kernel returns, which is nothing, is written by each thread.
    nothing = function.parameters[0].name
    private: list[Storage] = []
    for block in function.blocks.values():
        kept: list[Instruction] = []
        for item in block.body:
            if item.opcode == "alloca":
                private.append(_storage_of(item, target))
            elif not (item.callee or "").startswith(_DROPPED) and not (
                item.opcode == "store" and nothing in item.uses
            ):
                # A tail call may not be given memory of its caller, as storage and slots are.
                kept.append(item.without(TAIL_CALLS))
        block.body = kept
    around = _without_definition(text)
    if _WAITING.search(around):
        raise NotInlined
    found = exits.all_ends(Analyses(function))
    may_fail = bool(found & (exits.FAULT | exits.UNKNOWN))
    has_ends = found & ~(exits.FAULT | exits.UNKNOWN) not in (0, 1)
    return Body(around, function, shared, tuple(private), may_fail, has_ends)


def _take_shared(function: Function, text: str) -> tuple[Storage, ...]:
    """Replace the addresses of shared arrays by parameters named like the arrays."""
    names: dict[str, str] = {}
    for block in function.blocks.values():
        found = [item for item in block.body if item.callee == SHARED_ADDRESS]
        names |= {item.result or "": f"%{item.operands[0].text[1:]}" for item in found}
        if found:
            block.body = [item for item in block.body if item not in found]
    if not names:
        return ()
    function.rename(names)
    sizes = {f"%{found['name']}": found for found in _SHARED.finditer(text)}
    return tuple(
        Storage(name, int(sizes[name]["bytes"]), max(64, int(sizes[name]["align"])))
        for name in dict.fromkeys(names.values())
    )


def _storage_of(item: Instruction, target: Target) -> Storage:
    """What an alloca becomes."""
    kind = item.source_type
    size = size_of(kind)
    if size is None:
        probe = llvm.parse(f"@probe = external global {kind}").get_global_variable("probe")
        size = llvm.machine(target).target_data.get_abi_size(probe.global_value_type)
    return Storage(item.result or "", size, item.align or 16)


def _without_definition(text: str) -> str:
    """The module's text without the kernel, and without the names of the module and its source."""
    start = definition_start(text, KERNEL)
    rest = text[:start] + text[text.index("\n}", start) + 3 :]
    return "\n".join(line for line in rest.splitlines() if not line.startswith(_GONE))
