"""Checks of the indices that a function writes in brackets, for errors that name the array."""

from typing import Any

from numba.core import cgutils, ir, types
from numba.core.ir_utils import get_definition, guard
from numba.np.arrayobj import make_array, make_array_flat_cls

from haulage.lang.tools import check_index

_GETITEMS = ("getitem", "static_getitem", "typed_getitem")


def check(lower: Any, statement: Any) -> None:
    """Let threads stop at `statement` whose index is out of an array's bounds; `lower` is Numba's
    lowering of the function, in front of the statement."""
    value = statement.value if isinstance(statement, ir.Assign) else None
    if isinstance(value, ir.Expr) and value.op in _GETITEMS:
        index = value.index_var if value.op == "static_getitem" else value.index
        _check(lower, value.value, index, lower.fndesc.calltypes[value])
    elif isinstance(statement, ir.SetItem):
        _check(lower, statement.target, statement.index, lower.fndesc.calltypes[statement])
    elif isinstance(statement, ir.StaticSetItem):
        _check(lower, statement.target, statement.index_var, lower.fndesc.calltypes[statement])


def accessed(lower: Any, statement: Any) -> str:
    """How the function names the array that a statement accesses by an index, or hands to a word;
    nothing if there is none."""
    if isinstance(statement, (ir.SetItem, ir.StaticSetItem)):
        return _named(lower.func_ir, statement.target)
    value = statement.value if isinstance(statement, ir.Assign) else None
    if isinstance(value, ir.Expr) and value.op in _GETITEMS:
        return _named(lower.func_ir, value.value)
    return array_of_call(lower, statement)


def made(lower: Any, statement: Any) -> str:
    """How the function names what a statement makes; nothing if it does not."""
    if not isinstance(statement, ir.Assign):
        return ""
    target = statement.target
    if not target.name.startswith("$"):
        return _named(lower.func_ir, target)
    for block in lower.func_ir.blocks.values():
        for each in block.find_insts(ir.Assign):
            if isinstance(each.value, ir.Var) and each.value.name == target.name:
                return "" if each.target.name[0] == "$" else _named(lower.func_ir, each.target)
    return ""


def array_of_call(lower: Any, statement: Any) -> str:
    """How the function names the first argument of a call, which words that take an array and an
    index have there; nothing if it is no call."""
    value = statement.value if isinstance(statement, ir.Assign) else None
    if isinstance(value, ir.Expr) and value.op == "call" and value.args:
        return _named(lower.func_ir, value.args[0])
    return ""


def _check(lower: Any, target: Any, index: Any, signature: Any) -> None:
    if signature is None or index is None:
        return
    context, builder = lower.context, lower.builder
    array_type, index_type = signature.args[:2]
    if not isinstance(array_type, (types.Array, types.NumpyFlatType)):
        return
    array = context.cast(builder, lower.loadvar(target.name), lower.typeof(target.name), array_type)
    name = _named(lower.func_ir, target)
    value = context.cast(builder, lower.loadvar(index.name), lower.typeof(index.name), index_type)
    if isinstance(array_type, types.NumpyFlatType):
        flat = make_array_flat_cls(array_type)(context, builder, value=array)
        array_type = array_type.array_type
        whole = make_array(array_type)(context, builder, value=flat.array)
        wide = context.cast(builder, value, index_type, types.intp)
        check_index(context, builder, wide, whole.nitems, 0, name, wraps=False)
        return
    whole = make_array(array_type)(context, builder, value=array)
    sizes = cgutils.unpack_tuple(builder, whole.shape, array_type.ndim)
    kinds, values = (index_type,), [value]
    if isinstance(index_type, types.BaseTuple):
        kinds, values = tuple(index_type), cgutils.unpack_tuple(builder, value, len(index_type))
    axis = 0
    for kind, each in zip(kinds, values, strict=True):
        if kind is types.ellipsis:
            new_axes = sum(isinstance(other, types.NoneType) for other in kinds)
            axis += array_type.ndim - (len(kinds) - 1 - new_axes)
            continue
        if isinstance(kind, types.NoneType):
            continue
        if isinstance(kind, types.Integer):
            wide = context.cast(builder, each, kind, types.intp)
            check_index(context, builder, wide, sizes[axis], axis, name, wraps=kind.signed)
        axis += 1


def _named(function_ir: Any, variable: Any) -> str:
    """How the source names what a variable of Numba's has, as far as one can say."""
    if variable.name.startswith("$"):
        # What is on Python's stack as a conditional expression begins has another name behind it.
        variable = guard(get_definition, function_ir, variable, lhs_only=True) or variable
    if not variable.name.startswith("$"):
        # Where a loop is unrolled Numba tells its variables apart, behind a dot.
        return str(variable.unversioned_name).partition(".")[0]
    made = guard(get_definition, function_ir, variable)
    if isinstance(made, (ir.Global, ir.FreeVar)):
        return str(made.name)
    if isinstance(made, ir.Arg):
        return str(made.name)
    if isinstance(made, ir.Expr):
        if made.op == "getattr":
            return f"{_named(function_ir, made.value)}.{made.attr}"
        if made.op in _GETITEMS:
            inside = repr(made.index) if isinstance(getattr(made, "index", None), str) else "..."
            return f"{_named(function_ir, made.value)}[{inside}]"
        if made.op == "cast":
            return _named(function_ir, made.value)
        if made.op == "call":
            return f"{_named(function_ir, made.func)}(...)"
    return "?"
