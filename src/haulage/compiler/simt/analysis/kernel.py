"""A kernel's body as the two ways of running a block take it: read, with its memory set apart.

Shared arrays become parameters of the functions that are made from the body, and private arrays
(allocas) become rooms of which every thread has its own.
"""

import re
from dataclasses import dataclass

from haulage.compiler import llvm
from haulage.compiler.simt.analysis import exit_codes
from haulage.compiler.simt.ir import reader
from haulage.compiler.simt.ir.model import Function, Instruction
from haulage.targets.base import Target
from haulage.targets.cpu import BARRIER, GRID_BARRIER, WAVE_BARRIER
from haulage.targets.cpu_ir import SHARED_ADDRESS, SHARED_PREFIX
from haulage.targets.cpu_lanes import EXCHANGES, WARP_BARRIER

KERNEL = "haulage.kernel"

_DROPPED = ("llvm.lifetime.", "llvm.experimental.noalias.scope.decl", "llvm.donothing")
_SHARED = re.compile(
    rf"(?m)^@(?P<name>{re.escape(SHARED_PREFIX)}\d+) = [^\n\[]*\[(?P<bytes>\d+) x i8\][^\n]*"
    r", align (?P<align>\d+)"
)
_BYTES = re.compile(r"\[(\d+) x i8\]")
_ALLOCA = re.compile(r"= alloca (?P<type>.+?)(?:, align (?P<align>\d+))?$")


@dataclass(frozen=True)
class Storage:
    """Memory that the body names: LLVM name, bytes, alignment."""

    name: str
    nbytes: int
    align: int


@dataclass(frozen=True)
class Body:
    """The body without its memory: what is left of the module, the function, its rooms.

    `around` is the module's text without the body's definition; `shared` and `private` are the
    rooms, `may_fail` whether a thread can return a fault, `has_ends` whether it can come to several
    ends (`compiler/ends.py`), which then have codes other than 0.
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
    for block in function.blocks.values():
        # What a kernel returns, which is nothing, is written by each thread.
        nothing = function.parameters[0].name
        block.body = [
            _plain_call(item)
            for item in block.body
            if not _is_dropped(item) and not (item.opcode == "store" and nothing in item.uses)
        ]
    around = _without_definition(text)
    waiting = "|".join((BARRIER, GRID_BARRIER, WAVE_BARRIER, WARP_BARRIER, *sorted(EXCHANGES)))
    if re.search(rf"(?m)^ .*(@({waiting})\(|@{SHARED_PREFIX})", around):
        raise NotInlined
    found = exit_codes.all_ends(function)
    may_fail = bool(found & (exit_codes.FAULT | exit_codes.UNKNOWN))
    has_ends = found & ~(exit_codes.FAULT | exit_codes.UNKNOWN) not in (0, 1)
    return Body(around, function, shared, private, may_fail, has_ends)


def _is_dropped(item: Instruction) -> bool:
    return item.callee is not None and item.callee.startswith(_DROPPED)


def _plain_call(item: Instruction) -> Instruction:
    # A tail call may not be given memory of its caller, which is what rooms and slots become.
    return item.without(frozenset(("tail", "musttail", "notail")))


def _take_shared(function: Function, text: str) -> tuple[Storage, ...]:
    """Replace the addresses of shared arrays by parameters named like the arrays."""
    names: dict[str, str] = {}
    used: dict[str, None] = {}
    for block in function.blocks.values():
        for item in block.body:
            if item.callee == SHARED_ADDRESS:
                found = re.search(rf"@({re.escape(SHARED_PREFIX)}\d+)", item.text)
                assert found is not None
                assert item.result is not None
                names[item.result] = f"%{found[1]}"
                used[found[1]] = None
        block.body = [item for item in block.body if item.callee != SHARED_ADDRESS]
    function.rename(names)
    sizes = {found["name"]: found for found in _SHARED.finditer(text)}
    return tuple(
        Storage(f"%{name}", int(sizes[name]["bytes"]), max(64, int(sizes[name]["align"])))
        for name in used
    )


def _take_private(function: Function, target: Target) -> tuple[Storage, ...]:
    rooms = []
    for block in function.blocks.values():
        for item in block.body:
            if item.opcode == "alloca":
                found = _ALLOCA.search(item.text)
                assert found is not None, item.text
                assert item.result is not None
                size = _size_of(found["type"], target)
                rooms.append(Storage(item.result, size, int(found["align"] or 16)))
        block.body = [item for item in block.body if item.opcode != "alloca"]
    return tuple(rooms)


def _size_of(type_text: str, target: Target) -> int:
    if found := _BYTES.fullmatch(type_text):
        return int(found[1])
    probe = llvm.parse(f"@probe = external global {type_text}").get_global_variable("probe")
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
