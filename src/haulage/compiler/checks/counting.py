"""What becomes of the calls that count, in the text of modules.

To LLVM and the passes of the CPU compiler a count is a call of an unknown function, which is made
as often as threads come to it. When the function of a block is whole, with the loops over its
threads, it becomes an addition to a variable of that function: LLVM may take that for a sum over
the loop, keep it in a register, and widen it. Where the function ends each sum is added to its
counter, in the row of the thread of the system that runs the block (`_core/check_counts.c`).
"""

import re
from typing import Any

from haulage.compiler import llvm
from haulage.compiler.checks.counters import COUNT
from haulage.targets.base import Target

# Adds a sum, void (i64 counter, i64 times).
_ADD = "haulage.count.many"
_DECLARED = re.compile(rf"(?m)^declare void @{re.escape(COUNT)}\(i64\).*\n")
_CALL = re.compile(rf"(?m)^ +(?:tail )?call void @{re.escape(COUNT)}\(i64 (\d+)\).*$")
_FUNCTION = re.compile(r"(?ms)^define .*?^}$")
_HEAD = re.compile(r"\A.*\{\n(?:[^\s;][^\n]*:[^\n]*\n)?")
_RETURN = re.compile(r"(?m)^(?=  ret )")
_SUSPENDS = "@llvm.coro."
# Two calls are never made one, which would be of two ways.
_DECLARATION = (
    f"declare void @{COUNT}(i64) nomerge nounwind willreturn nocallback nofree "
    "memory(inaccessiblemem: readwrite)\n"
)
_DEFINITION = f"""declare ptr @haulage_check_counters() nounwind willreturn memory(none)
define internal void @{_ADD}(i64 %counter, i64 %times) alwaysinline nounwind {{
  %row = call ptr @haulage_check_counters()
  %at = getelementptr inbounds i64, ptr %row, i64 %counter
  %before = load i64, ptr %at, align 8
  %after = add i64 %before, %times
  store i64 %after, ptr %at, align 8
  ret void
}}"""


def declared(text: str) -> str:
    """A module's text in which LLVM knows of `COUNT` what it may do with calls of it."""
    return _DECLARED.sub(_DECLARATION, text)


def counted(module: Any, target: Target) -> Any:
    """A module, which is changed, in which `COUNT` counts."""
    if COUNT not in [function.name for function in module.functions]:
        return module
    llvm.run_passes(module, target, "always_inliner")
    text = _DECLARED.sub("", _FUNCTION.sub(_summed, str(module)))
    return llvm.parse(f"{text}\n{_DEFINITION}\n")


def _summed(found: re.Match[str]) -> str:
    """The text of a function that sums up what it counts, and adds that where it ends; of a
    coroutine, which returns before it ends, one that adds at once."""
    text = found[0]
    numbers = sorted(set(_CALL.findall(text)), key=int)
    if not numbers:
        return text
    if _SUSPENDS in text:
        return _CALL.sub(rf"  call void @{_ADD}(i64 \1, i64 1)", text)
    places = iter(range(len(text)))

    def addition(call: re.Match[str]) -> str:
        room = _room(call[1])
        before, after = (f"%haulage.{each}.{next(places)}" for each in ("before", "after"))
        return _lines(
            f"{before} = load i64, ptr {room}",
            f"{after} = add i64 {before}, 1",
            f"store i64 {after}, ptr {room}",
        ).removesuffix("\n")

    def ending(_: re.Match[str]) -> str:
        sums = [(number, f"%haulage.sum.{next(places)}") for number in numbers]
        added = (f"call void @{_ADD}(i64 {number}, i64 {total})" for number, total in sums)
        return _lines(*(f"{total} = load i64, ptr {_room(n)}" for n, total in sums), *added)

    text = _RETURN.sub(ending, _CALL.sub(addition, text))
    made = (f"{_room(number)} = alloca i64" for number in numbers)
    begun = (f"store i64 0, ptr {_room(number)}" for number in numbers)
    return _HEAD.sub(lambda head: head[0] + _lines(*made, *begun), text, count=1)


def _room(number: str) -> str:
    return f"%haulage.count.{number}"


def _lines(*instructions: str) -> str:
    return "".join(f"  {each}\n" for each in instructions)
