"""A kernel's body as both strategies take it: read, with its memory set apart.

Shared arrays become parameters of the functions that are made from the body, and private arrays
(allocas) storage of which every thread has its own.
"""

import re
from dataclasses import dataclass

from haulage.compiler import llvm
from haulage.compiler.simt.analysis import exits
from haulage.compiler.simt.analysis.barriers import BARRIERS
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.ir import reader
from haulage.compiler.simt.ir.model import Function
from haulage.compiler.simt.ir.types import size_of
from haulage.targets.base import Target
from haulage.targets.cpu_ir import SHARED_ADDRESS, SHARED_PREFIX

KERNEL = "haulage.kernel"

_DROPPED = ("llvm.lifetime.", "llvm.experimental.noalias.scope.decl", "llvm.donothing")
_TAIL_CALLS = frozenset(("tail", "musttail", "notail"))
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
    private = _take_private(function, target)
    # What a kernel returns, which is nothing, is written by each thread.
    nothing = function.parameters[0].name
    for block in function.blocks.values():
        block.body = [
            # A tail call may not be given memory of its caller, as storage and slots are.
            item.without(_TAIL_CALLS)
            for item in block.body
            if not (item.callee or "").startswith(_DROPPED)
            and not (item.opcode == "store" and nothing in item.uses)
        ]
    around = _without_definition(text)
    waiting = (*(f"@{name}(" for name in BARRIERS), f"@{SHARED_PREFIX}")
    for line in around.splitlines():
        if line.startswith(" ") and "@haulage." in line and any(each in line for each in waiting):
            raise NotInlined
    found = exits.all_ends(Analyses(function))
    may_fail = bool(found & (exits.FAULT | exits.UNKNOWN))
    has_ends = found & ~(exits.FAULT | exits.UNKNOWN) not in (0, 1)
    return Body(around, function, shared, private, may_fail, has_ends)


def _take_shared(function: Function, text: str) -> tuple[Storage, ...]:
    """Replace the addresses of shared arrays by parameters named like the arrays."""
    names: dict[str, str] = {}
    for block in function.blocks.values():
        for item in block.body:
            if item.callee == SHARED_ADDRESS:
                assert item.result is not None
                names[item.result] = f"%{item.operands[0].text[1:]}"
        block.body = [item for item in block.body if item.callee != SHARED_ADDRESS]
    function.rename(names)
    sizes = {f"%{found['name']}": found for found in _SHARED.finditer(text)}
    return tuple(
        Storage(name, int(sizes[name]["bytes"]), max(64, int(sizes[name]["align"])))
        for name in dict.fromkeys(names.values())
    )


def _take_private(function: Function, target: Target) -> tuple[Storage, ...]:
    """Drop the allocas, which become storage of their names."""
    storage = []
    for block in function.blocks.values():
        for item in block.body:
            if item.opcode == "alloca":
                assert item.result is not None
                size = size_of(item.source_type) or _abi_size(item.source_type, target)
                storage.append(Storage(item.result, size, item.align or 16))
        block.body = [item for item in block.body if item.opcode != "alloca"]
    return tuple(storage)


def _abi_size(kind: str, target: Target) -> int:
    probe = llvm.parse(f"@probe = external global {kind}").get_global_variable("probe")
    size: int = llvm.machine(target).target_data.get_abi_size(probe.global_value_type)
    return size


def _without_definition(text: str) -> str:
    lines = text.splitlines()
    start = next(
        index
        for index, line in enumerate(lines)
        if line.startswith("define") and f"@{KERNEL}(" in line
    )
    end = lines.index("}", start)
    kept = lines[:start] + lines[end + 1 :]
    gone = (f"@{SHARED_PREFIX}", "source_filename", "; ModuleID")
    return "\n".join(line for line in kept if not line.startswith(gone))
