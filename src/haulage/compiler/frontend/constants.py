"""Works out arithmetic on constants before types are inferred.

So `shared.array((TILE, TILE + 1), ...)` has a constant shape: a number that is written, or a global
or closure variable that is a number, stays one under `+`, `-`, `*`, `//`, `%` and a sign.
"""

import operator
from collections.abc import Callable
from typing import Any

from numba.core import ir
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.ir_utils import find_const, guard

_OPERATIONS: set[Callable[..., Any]] = {
    operator.add,
    operator.sub,
    operator.mul,
    operator.floordiv,
    operator.mod,
    operator.neg,
    operator.pos,
}


@register_pass(mutates_CFG=False, analysis_only=False)
class FoldConstants(FunctionPass):
    """Replaces integer arithmetic on constants by its value."""

    _name = "haulage_fold_constants"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        function_ir = state.func_ir
        changed = False
        for label in sorted(function_ir.blocks):
            for statement in function_ir.blocks[label].find_insts(ir.Assign):
                value = _folded(function_ir, statement.value)
                if value is not None:
                    constant = ir.Const(value, statement.loc)
                    definitions = function_ir._definitions[statement.target.name]
                    for number, definition in enumerate(definitions):
                        if definition is statement.value:
                            definitions[number] = constant
                    statement.value = constant
                    changed = True
        return changed


def _folded(function_ir: Any, expression: Any) -> int | None:
    """The value of an expression on whole numbers that are all constant, or None."""
    if not isinstance(expression, ir.Expr) or expression.op not in ("binop", "unary"):
        return None
    if expression.fn not in _OPERATIONS:
        return None
    operands = [guard(find_const, function_ir, variable) for variable in expression.list_vars()]
    if not operands or not all(type(operand) is int for operand in operands):
        return None
    try:
        value = int(expression.fn(*operands))
    except ZeroDivisionError:
        # The kernel's own arithmetic says what that is.
        return None
    return value if -(2**63) <= value < 2**63 else None
