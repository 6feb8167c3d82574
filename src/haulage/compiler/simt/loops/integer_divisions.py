"""Integer divisions that differ from thread to thread become what vectors have instructions for.

No processor that we know of divides vectors of integers, so LLVM takes one lane after another for
them, under a condition even with a branch for each. Divisions by anything but a constant become
calls of our mathematics: by way of doubles (`mathematics/divisions.py`) they are vectorised like
all else, and what all threads divide by is made a double once. The quotients are exact, so they are
the same as those of the strategies in which divisions stay as they are.

A division that may fail is only made under its condition. Where it is the same for all lanes of a
vector, LLVM's loop vectoriser makes it once, under the condition of the first lane, and where that
lane is off the others get poison (seen with LLVM 22.1). So it becomes a call that cannot fail and
may be made for every thread, which LLVM also moves out of the loop over threads.
"""

from collections.abc import Set

from haulage.compiler.mathematics.definitions import DIVISIONS, PREFIX, SPECULATED, declaration
from haulage.compiler.mathematics.divisions import NEAR
from haulage.compiler.mathematics.ir import SUFFIXES
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Function, Instruction
from haulage.compiler.simt.ir.writer import definition
from haulage.targets.base import Target


def call_divisions(analyses: Analyses, varying: Set[str], target: Target) -> list[str]:
    """Replace the divisions in a function by anything but constants whose results are in
    `varying`; the declarations of what is called now."""
    function = analyses.function
    # Without a rounding of its own for integers a processor is no faster by doubles.
    if not target.has_fused:
        return []
    ranges = analyses.get(ValueRanges)
    wide = "+avx512dq" in target.features.split(",")
    declared: dict[str, None] = {}
    for block in function.blocks.values():
        for place, item in enumerate(block.body):
            if item.opcode not in DIVISIONS or item.result not in varying:
                continue
            word = _called(item, ranges, wide)
            if word is not None:
                assert item.result is not None
                callee = f"{PREFIX}{word}.{SUFFIXES[item.type]}"
                arguments = [(each.type, each.text) for each in item.operands]
                block.body[place] = Builder.call(item.type, callee, arguments, name=item.result)
                declared[declaration(word, item.type)] = None
    return list(declared)


def _called(item: Instruction, ranges: ValueRanges, wide: bool) -> str | None:
    """The function that a division becomes a call of. `wide` is whether the processor makes
    doubles of vectors of 64-bit integers."""
    dividend, divisor = item.operands
    if not divisor.is_local or item.type not in ("i32", "i64"):
        return None
    low, high = ranges.of(dividend)
    signed = item.opcode[0] == "s"
    if item.type == "i32" or (low > -NEAR and high < NEAR and (low >= 0 or signed)):
        return f"near_{item.opcode}"
    return item.opcode if signed and wide else None


def speculate(function: Function, divergent: Set[str], axes: Set[str]) -> list[str]:
    """Replace the divisions by anything but constants in the blocks `divergent`, if they do not
    depend on the threads' index along one of `axes`, which work-item loops may have for their
    innermost one, by calls that may be made for every thread; the functions that are called."""
    found = [
        (function.blocks[label].body, place, item)
        for label in function.blocks
        if label in divergent
        for place, item in enumerate(function.blocks[label].body)
        if item.opcode in DIVISIONS and item.operands[1].number is None
    ]
    if not found:
        return []
    along = [function.made_from([f"%threadIdx.{axis}"]) for axis in axes]
    called: dict[str, str] = {}
    for body, place, item in found:
        assert item.result is not None
        if all(item.result in depending for depending in along):
            continue
        name = f"{SPECULATED}{item.opcode}.{item.type}"
        called[name] = _safe_division(name, item.opcode, item.type)
        arguments = [(each.type, each.text) for each in item.operands]
        body[place] = Builder.call(item.type, name, arguments, name=item.result)
    return list(called.values())


def _safe_division(name: str, opcode: str, kind: str) -> str:
    """The function that divides, and gives any number where a division would fail. It is not
    inlined, or LLVM would move the division back under its condition."""
    attributes = "noinline nounwind willreturn memory(none) speculatable"
    a, b = "%dividend", "%divisor"
    builder = Builder(name, [(kind, a), (kind, b)], kind, attributes)
    builder.block("%entry")
    unsafe = builder.compare("eq", kind, b, "0")
    # The least number divided by -1 is beyond its type. Divided by 1 all have the opposite quotient
    # and the same remainder, 0.
    negates = builder.compare("eq", kind, b, "-1") if opcode[0] == "s" else ""
    if negates:
        unsafe = builder.binary("or", "i1", unsafe, negates)
    made = builder.binary(opcode, kind, a, builder.select(unsafe, kind, "1", b))
    if negates:
        made = builder.select(negates, kind, builder.binary("sub", kind, "0", made), made)
    builder.ret(kind, made)
    return definition(builder.function)
