"""Refuses Python that no kernel can have, with a sentence and the line where it stands.

Numba itself meets most of it late, in the middle of its own library, and says so in those terms.
"""

import inspect
import operator
import os
import random
from types import BuiltinMethodType, MethodType, ModuleType
from typing import Any, NoReturn

import numba
import numpy as np
from numba.core import ir
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.errors import UnsupportedError
from numba.core.ir_utils import find_const, get_definition, guard
from numba.core.unsafe import eh

from haulage.lang.word import Namespace, Register3, Word

_LIBRARY = os.path.dirname(numba.__file__) + os.sep

_HEAP = {
    "build_list": "a list",
    "build_set": "a set",
    "build_map": "a dictionary",
}

_ALLOCATING = frozenset(
    (
        *("arange", "array", "asarray", "ascontiguousarray", "asfortranarray", "concatenate"),
        *("copy", "diag", "empty", "empty_like", "eye", "full", "full_like", "hstack", "identity"),
        *("linspace", "meshgrid", "ones", "ones_like", "repeat", "stack", "tile", "vstack"),
        *("zeros", "zeros_like"),
    )
)

# What Numba does by calls of Python's interpreter, without a word while it types and lowers.
_PRODUCTS = frozenset(("dot", "vdot"))
_PRODUCT_OPERATORS = (operator.matmul, operator.imatmul)

_TEXTS = frozenset((str, repr, format, ascii))

NO_FORMATTING = (
    "a kernel cannot make a text of a value (f-strings, str, %, format); print takes values one "
    'after another, as in print("x is", x), and what raise and assert say is constant'
)

_GENERATORS = (random, np.random)

NO_RANDOM = (
    "the generators of random and np.random are the host's, which kernels do not have; random "
    "numbers in a kernel come from cuda.random"
)

INSTEAD_OF_ALLOCATING = (
    "use cuda.local.array or cuda.shared.array, whose sizes are "
    "constants, or give the kernel an array to write to"
)


@register_pass(mutates_CFG=False, analysis_only=True)
class RefuseStatements(FunctionPass):
    """Refuses generators, coroutines, `try` and `with`; runs as soon as there is an IR."""

    _name = "haulage_refuse_statements"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        function_ir = state.func_ir
        if is_library(function_ir):
            return False
        if function_ir.is_generator:
            first = next(each for each in _statements(function_ir) if _yields(each))
            _refuse("yield: a kernel's functions cannot be generators; write a loop", first)
        if inspect.iscoroutinefunction(function_ir.func_id.func):
            _refuse("async: a kernel's functions cannot be coroutines", function_ir)
        # Since Python 3.12 a comprehension is compiled as if it stood in a `try`.
        comprehensions = {
            statement.loc.line
            for statement in _statements(function_ir)
            if getattr(getattr(statement, "value", None), "op", None) in _HEAP
        }
        _refuse_misused_words(function_ir)
        for statement in _statements(function_ir):
            if isinstance(statement, ir.EnterWith):
                _refuse("with means nothing in a kernel", statement)
            value = getattr(statement, "value", None)
            is_try = isinstance(value, ir.Global) and value.value is eh.mark_try_block
            if is_try and statement.loc.line not in comprehensions:
                _refuse(
                    "try and except mean nothing in a kernel; test what may go wrong", statement
                )
        return False


@register_pass(mutates_CFG=False, analysis_only=True)
class RefuseAllocation(FunctionPass):
    """Refuses what needs a heap or Python itself: lists, texts of values, new arrays and products.

    Runs when branches that are never taken are gone.
    """

    _name = "haulage_refuse_allocation"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        function_ir = state.func_ir
        if is_library(function_ir):
            return False
        for statement in _statements(function_ir):
            value = getattr(statement, "value", None)
            if isinstance(value, (ir.Global, ir.FreeVar)) and _is_generators(value.value):
                _refuse(NO_RANDOM, value)
            if not isinstance(value, ir.Expr):
                continue
            if value.op == "getattr" and _module(function_ir, value.value) in _GENERATORS:
                _refuse(NO_RANDOM, value)
            if value.op in _HEAP:
                _refuse(
                    f"a kernel cannot make {_HEAP[value.op]}, as it has no heap; use a tuple, or "
                    "an array made by cuda.local.array",
                    value,
                )
            if (
                value.op == "getattr"
                and value.attr in _ALLOCATING
                and guard(find_const, function_ir, value.value) is np
            ):
                _refuse(
                    f"np.{value.attr}: a kernel cannot allocate arrays; {INSTEAD_OF_ALLOCATING}",
                    value,
                )
            if _multiplies_arrays(function_ir, value):
                _refuse("a kernel cannot multiply matrices by @ or np.dot; write a loop", value)
            if _formats(function_ir, value):
                _refuse(NO_FORMATTING, value)
        return False


def _refuse_misused_words(function_ir: Any) -> None:
    """Refuse a word that is named and not called, which would do nothing, and a call of what is a
    number, as in `cuda.threadIdx.x()`."""
    used = {
        variable.name
        for statement in _statements(function_ir)
        if not isinstance(statement, ir.Del)
        for variable in _read_in(statement)
    }
    for statement in _statements(function_ir):
        value = getattr(statement, "value", None)
        if isinstance(value, ir.Expr) and value.op == "call":
            register = _register(function_ir, value.func)
            if register:
                _refuse(f"{register} is a number, and no function: leave () out", statement)
        elif (
            isinstance(statement, ir.Assign)
            and statement.target.is_temp
            and statement.target.name not in used
        ):
            word = _named(function_ir, statement.target)
            if isinstance(word, Word):
                name = word.__qualname__
                _refuse(f"{name} is named and not called: write {name}()", statement)


def _read_in(statement: Any) -> Any:
    if isinstance(statement, ir.Assign):
        value = statement.value
        if isinstance(value, ir.Var):
            return (value,)
        return value.list_vars() if hasattr(value, "list_vars") else ()
    return statement.list_vars()


def _named(function_ir: Any, variable: Any) -> Any:
    """The word, namespace or registers that a variable is, None if it is anything else."""
    found = guard(get_definition, function_ir, variable)
    value = None
    if isinstance(found, (ir.Global, ir.FreeVar)):
        value = found.value
    elif isinstance(found, ir.Expr) and found.op == "getattr":
        owner = guard(get_definition, function_ir, found.value)
        if isinstance(owner, ir.Global) and isinstance(owner.value, ModuleType):
            value = getattr(owner.value, found.attr, None)
        elif isinstance(named := _named(function_ir, found.value), Namespace):
            value = vars(named).get(found.attr)
    return value if isinstance(value, (Word, Namespace, Register3)) else None


def _register(function_ir: Any, variable: Any) -> str:
    """The name of the index register that a variable is, as "threadIdx.x"; "" if it is none."""
    found = guard(get_definition, function_ir, variable)
    if not isinstance(found, ir.Expr) or found.op != "getattr":
        return ""
    owner = _named(function_ir, found.value)
    return f"{owner.__name__}.{found.attr}" if isinstance(owner, Register3) else ""


def _module(function_ir: Any, variable: Any) -> ModuleType | None:
    """The module that a variable is, by its name or as the attribute of one."""
    found = guard(get_definition, function_ir, variable)
    value = None
    if isinstance(found, (ir.Global, ir.FreeVar)):
        value = found.value
    elif isinstance(found, ir.Expr) and found.op == "getattr":
        owner = _module(function_ir, found.value)
        value = None if owner is None else getattr(owner, found.attr, None)
    return value if isinstance(value, ModuleType) else None


def _is_generators(value: Any) -> bool:
    """Whether a value is a function of the module `random`, by a name of its own."""
    is_method = isinstance(value, (MethodType, BuiltinMethodType))
    return is_method and isinstance(value.__self__, random.Random)


def _yields(statement: Any) -> bool:
    return isinstance(getattr(statement, "value", None), ir.Yield)


def _multiplies_arrays(function_ir: Any, value: Any) -> bool:
    if value.op in ("binop", "inplace_binop"):
        return value.fn in _PRODUCT_OPERATORS
    return (
        value.op == "getattr"
        and value.attr in _PRODUCTS
        and guard(find_const, function_ir, value.value) is np
    )


def _formats(function_ir: Any, value: Any) -> bool:
    """Whether an expression makes a text of a value, as an f-string does by a call of `str`."""
    if value.op == "call":
        function = guard(get_definition, function_ir, value.func)
        return isinstance(function, ir.Global) and function.value in _TEXTS
    if value.op == "binop" and value.fn is operator.mod:
        return isinstance(guard(find_const, function_ir, value.lhs), str)
    if value.op == "getattr" and value.attr == "format":
        return isinstance(guard(find_const, function_ir, value.value), str)
    return False


def _statements(function_ir: Any) -> Any:
    for label in sorted(function_ir.blocks):
        yield from function_ir.blocks[label].body


def is_library(function_ir: Any) -> bool:
    """Whether a function is one of Numba's."""
    # What Numba is written in may have branches that are not for kernels.
    return str(function_ir.loc.filename).startswith(_LIBRARY)


def _refuse(reason: str, where: Any) -> NoReturn:
    raise UnsupportedError(reason, loc=where.loc)
