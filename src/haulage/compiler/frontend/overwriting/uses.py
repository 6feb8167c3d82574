"""Whether all that a kernel does with an array is to write elements by its name.

LLVM drops a store of what was read from the same place, and the read with it: what it says of the
function that is left does not tell of `x[i] = x[i]`.
"""

from typing import Any

from numba.core import ir

from haulage.compiler.access.model import Path
from haulage.compiler.frontend.overwriting.values import Values

# Attributes that ask for no element.
_ABOUT = frozenset(("shape", "size", "ndim", "strides", "itemsize", "nbytes"))


def is_only_written(values: Values, path: Path) -> bool:
    """Whether an array is used by its name only, to write elements or to ask for its shape."""
    return all(_is_known(values, path, statement) for _, statement in values.statements())


def _is_known(values: Values, path: Path, statement: Any) -> bool:
    if isinstance(statement, (ir.Del, ir.Jump)):
        return True
    if isinstance(statement, (ir.SetItem, ir.StaticSetItem)):
        index = getattr(statement, "index_var", statement.index)
        return not any(
            isinstance(each, ir.Var) and _is_it(values, path, each)
            for each in (index, statement.value)
        )
    if not isinstance(statement, ir.Assign):
        return not any(_is_it(values, path, each) for each in statement.list_vars())
    value = statement.value
    used = [value] if isinstance(value, ir.Var) else []
    if isinstance(value, ir.Expr):
        used = value.list_vars()
    if not any(_is_it(values, path, each) for each in used):
        return True
    # Another name for it, or for an entry of the tuple that it is in.
    if values.memory(statement.target) is not None:
        return True
    if not isinstance(value, ir.Expr):
        return False
    if value.op == "getattr":
        return value.attr in _ABOUT
    return value.op == "call" and values.python(value.func) is len


def _is_it(values: Values, path: Path, variable: Any) -> bool:
    """Whether a variable is the array, or a tuple that it is in."""
    found = values.memory(variable)
    return found is not None and found == path[: len(found)]
