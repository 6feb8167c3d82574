"""What becomes of the calls that count, in the text of modules.

To LLVM and the passes of the CPU compiler a count is a call of an unknown function, which is made
as often as threads come to it. When the function of a block is whole, with the loops over its
threads, it becomes an addition to a variable of that function: LLVM may take that for a sum over
the loop, keep it in a register, and widen it. Where the function ends each sum is added to its
counter, in the row of the thread of the system that runs the block (`_core/check_counts.c`).
"""

import re
from itertools import count
from typing import Any

from haulage.compiler import llvm
from haulage.compiler.checks.counters import COUNT
from haulage.compiler.definitions import definition_start
from haulage.compiler.simt.ir import reader, writer
from haulage.compiler.simt.ir.model import Function, Instruction
from haulage.targets.base import Target

_DECLARED = re.compile(rf"(?m)^declare void @{re.escape(COUNT)}\(i64\).*\n")
# Two calls are never made one, which would be of two ways.
_DECLARATION = (
    f"declare void @{COUNT}(i64) nomerge nounwind willreturn nocallback nofree "
    "memory(inaccessiblemem: readwrite)\n"
)
# Adds a sum, void (i64 counter, i64 times).
_ADD = "haulage.count.many"
_DEFINITIONS = f"""declare ptr @haulage_check_counters() nounwind willreturn memory(none)
define internal void @{_ADD}(i64 %counter, i64 %times) alwaysinline nounwind {{
  %row = call ptr @haulage_check_counters()
  %at = getelementptr inbounds i64, ptr %row, i64 %counter
  %before = load i64, ptr %at, align 8
  %after = add i64 %before, %times
  store i64 %after, ptr %at, align 8
  ret void
}}
define internal void @{COUNT}(i64 %counter) alwaysinline nounwind {{
  call void @{_ADD}(i64 %counter, i64 1)
  ret void
}}"""
# What coroutines call.
_SUSPENDS = "@llvm.coro."


def declared(text: str) -> str:
    """A module's text in which LLVM knows of `COUNT` what it may do with calls of it."""
    return _DECLARED.sub(_DECLARATION, text)


def counted(module: Any, target: Target) -> Any:
    """A module, which is changed, in which `COUNT` counts."""
    if COUNT not in [function.name for function in module.functions]:
        return module
    llvm.run_passes(module, target, "always_inliner", "instruction_namer")
    text = str(module)
    for each in [each.name for each in module.functions if not each.is_declaration]:
        text = _summed(text, each)
    return llvm.parse(f"{_DECLARED.sub('', text)}\n{_DEFINITIONS}\n")


def _summed(text: str, name: str) -> str:
    """A module's text, whose function `name` sums up what it counts, and adds that where it ends.

    Coroutines, which return before they end, add at once.
    """
    start = definition_start(text, name)
    first, end = text.index("{\n", start) + 2, text.index("\n}", start)
    body = text[first:end]
    if f"@{COUNT}(" not in body or _SUSPENDS in body:
        return text
    function = reader.read(text, name)
    _sum_up(function)
    return f"{text[:first]}{writer.listing(function)}{text[end:]}"


def _sum_up(function: Function) -> None:
    counters: dict[str, str] = {}
    names = map("%haulage.counted.{}".format, count())
    for block in function.blocks.values():
        items: list[Instruction] = []
        for item in block.body:
            if item.called == f"@{COUNT}":
                counter = item.operands[0].text
                room = counters.setdefault(counter, f"%haulage.count.{counter}")
                before, after = next(names), next(names)
                items += _made(
                    f"{before} = load i64, ptr {room}",
                    f"{after} = add i64 {before}, 1",
                    f"store i64 {after}, ptr {room}",
                )
            else:
                items.append(item)
        block.body = items
    for block in function.blocks.values():
        if isinstance(block.terminator, Instruction) and block.terminator.opcode == "ret":
            for counter, room in counters.items():
                total = next(names)
                block.body += _made(
                    f"{total} = load i64, ptr {room}",
                    f"call void @{_ADD}(i64 {counter}, i64 {total})",
                )
    function.blocks[function.entry].body[:0] = _made(
        *(f"{room} = alloca i64" for room in counters.values()),
        *(f"store i64 0, ptr {room}" for room in counters.values()),
    )


def _made(*lines: str) -> list[Instruction]:
    return [reader.read_instruction(line) for line in lines]
