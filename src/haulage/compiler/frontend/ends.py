"""Numbers the ends of a kernel, as `compiler/ends.py` explains them."""

import copy
import dis
from types import CodeType
from typing import Any

from numba.core import ir

from haulage.compiler.ends import LEFT, MOST
from haulage.compiler.frontend.counting import Count

# What a `return` without a value is made of, besides what it shares its place with by accident.
_OF_RETURN = frozenset(("LOAD_CONST", "RETURN_VALUE", "RETURN_CONST", "NOP", "POP_TOP"))
_RETURNS = frozenset(("RETURN_VALUE", "RETURN_CONST"))
_NO_STATEMENT = frozenset(("RESUME", "MAKE_CELL", "COPY_FREE_VARS", "CACHE"))

# A place in the source: lines and columns of beginning and end.
_Place = tuple[int | None, int | None, int | None, int | None]


def number_ends(function_ir: Any, code: CodeType) -> None:
    """Give each `ir.Return` of a function its number, as attribute `haulage_end`.

    Their attribute `haulage_offset` says where in the bytecode they are. A block that only returns
    is made one for each way to it.
    """
    early = early_returns(code)
    numbers = 0
    for label in sorted(function_ir.blocks):
        for made in _one_for_each_way(function_ir, label):
            end = made.terminator
            if isinstance(end, ir.Return):
                end.haulage_end = LEFT if end.haulage_offset in early else min(numbers, MOST)
                numbers += end.haulage_end != LEFT


def _one_for_each_way(function_ir: Any, label: int) -> list[Any]:
    blocks = function_ir.blocks
    block = blocks[label]
    if not _only_returns(block):
        return [block]
    before = [each for each in blocks.values() if label in each.terminator.get_targets()]
    made = [block]
    for source in before[1:]:
        new = max(blocks) + 1
        blocks[new] = copy.copy(block)
        blocks[new].body = [copy.copy(statement) for statement in block.body]
        for statement in blocks[new].find_insts(ir.Assign):
            function_ir._definitions[statement.target.name].append(statement.value)
        _lead(source.terminator, label, new)
        made.append(blocks[new])
    return made


def _only_returns(block: Any) -> bool:
    return isinstance(block.terminator, ir.Return) and all(
        isinstance(statement, Count)
        or (
            isinstance(statement, ir.Assign)
            and (
                isinstance(statement.value, ir.Const)
                or (isinstance(statement.value, ir.Expr) and statement.value.op == "cast")
            )
        )
        for statement in block.body[:-1]
    )


def _lead(terminator: Any, old: int, new: int) -> None:
    """Let a jump or branch go to another label."""
    for name in ("target", "truebr", "falsebr"):
        if getattr(terminator, name, None) == old:
            setattr(terminator, name, new)


def early_returns(code: CodeType) -> set[int]:
    """Offsets of the instructions of `return` statements amid the function.

    An end that nobody wrote has the place of what was done last, which other instructions have too.
    A `return` that is the function's last statement ends it like any other. Where Python keeps no
    columns (`-X no_debug_ranges`) each `return` counts as one amid the function.
    """
    places: dict[int, _Place] = {}
    used: dict[_Place, set[str]] = {}
    for instruction in dis.get_instructions(code):
        positions = instruction.positions
        if positions is None or instruction.opname in _NO_STATEMENT:
            continue
        place = (
            positions.lineno,
            positions.end_lineno,
            positions.col_offset,
            positions.end_col_offset,
        )
        used.setdefault(place, set()).add(instruction.opname)
        if instruction.opname in _RETURNS:
            places[instruction.offset] = place
    if not all(None not in place for place in places.values()):
        return set(places)
    starts = [(line, column) for line, _, column, _ in used if line and column is not None]
    last = max(starts)
    margin = min(column for _, column in starts)
    # `return None` may stand at the place of its None.
    ending = {last} if last[1] in (margin, margin + len("return ")) else set()
    return {
        offset
        for offset, place in places.items()
        if used[place] <= _OF_RETURN and (place[0], place[2]) not in ending
    }
