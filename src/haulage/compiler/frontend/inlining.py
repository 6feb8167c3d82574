"""Calls that are inlined before types are inferred, with Python's binding of arguments.

Numba puts the arguments of a function that is defined inside another in by their order, and knows
no keywords and few defaults there; where it inlines other functions it binds as elsewhere.
"""

import inspect
import types as python_types
from typing import Any

from numba.core import ir, postproc, untyped_passes
from numba.core.bytecode import ByteCode, FunctionIdentity
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.cpu import ParallelOptions
from numba.core.dispatcher import Dispatcher
from numba.core.errors import TypingError, UnsupportedError
from numba.core.inline_closurecall import (
    InlineClosureCallPass,
    InlineWorker,
    callee_ir_validator,
)
from numba.core.ir_utils import (
    find_const,
    fixup_var_define_in_scope,
    get_definition,
    guard,
    require,
)

from haulage.compiler.frontend.binding import LEFT_OUT, bind
from haulage.compiler.frontend.bytecode import interpreted


@register_pass(mutates_CFG=True, analysis_only=False)
class InlineInnerFunctions(FunctionPass):
    """Inlines calls of functions that are defined inside the one that calls them."""

    _name = "haulage_inline_inner_functions"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        _Inliner(state.func_ir).run()
        postproc.PostProcessor(state.func_ir).run()
        fixup_var_define_in_scope(state.func_ir.blocks)
        return True


class _Inliner(InlineClosureCallPass):
    """Numba's search for such calls; it calls `_inline_closure` for each."""

    def __init__(self, function_ir: Any) -> None:
        super().__init__(function_ir, ParallelOptions(False))

    def _inline_closure(self, work_list: Any, block: Any, place: int, made: Any) -> bool:
        require(isinstance(made, ir.Expr) and made.op == "make_function")
        # A comprehension of Python 3.11 has a parameter whose name is none.
        if not all(map(str.isidentifier, made.code.co_varnames)):
            inlined: bool = super()._inline_closure(work_list, block, place, made)
            return inlined
        statement = block.body[place]
        function = _function(self.func_ir, made)
        _bind(self.func_ir, block, statement, function)
        inner = _inner_ir(function, guard(get_definition, self.func_ir, made.closure))
        *_, blocks = InlineWorker().inline_ir(
            self.func_ir, block, block.body.index(statement), inner, made.code.co_freevars
        )
        work_list.extend(blocks)
        return True


def _function(function_ir: Any, made: Any) -> Any:
    """An inner function as Python's, with what stands for its defaults and closure variables."""
    defaults = made.defaults or ()
    if isinstance(defaults, ir.Var):
        given = get_definition(function_ir, defaults)
        is_tuple = isinstance(given, ir.Expr) and given.op == "build_tuple"
        defaults = given.items if is_tuple else [ir.Const(value, made.loc) for value in given.value]
    return python_types.FunctionType(
        made.code,
        function_ir.func_id.func.__globals__,
        argdefs=tuple(defaults),
        closure=tuple(python_types.CellType(None) for _ in made.code.co_freevars),
    )


def _bind(function_ir: Any, block: Any, statement: Any, function: Any) -> None:
    """Give a call an argument for each parameter, in their order."""
    call, name = statement.value, function.__qualname__
    args = list(call.args)
    if call.vararg is not None:
        items = guard(get_definition, function_ir, call.vararg)
        if not isinstance(items, ir.Expr) or items.op != "build_tuple":
            raise UnsupportedError(
                f"{name}(): a kernel cannot call a function that is defined inside it with "
                "*arguments; write them out, or define it outside of the kernel",
                loc=call.loc,
            )
        args += items.items
    signature = inspect.signature(function)
    bound = _bound(call, name, signature, args)

    def variable(value: Any) -> Any:
        if isinstance(value, ir.Var):
            return value
        made = block.scope.redefine("$argument", loc=call.loc)
        block.body.insert(block.body.index(statement), ir.Assign(value, made, call.loc))
        function_ir._definitions[made.name].append(value)
        return made

    call.args, call.kws, call.vararg = [], (), None
    for parameter, value in zip(signature.parameters.values(), bound, strict=True):
        if value is LEFT_OUT:
            value = parameter.default
        elif parameter.kind is parameter.VAR_POSITIONAL:
            value = ir.Expr.build_tuple(list(value), call.loc)
        call.args.append(variable(value))


def _bound(call: Any, name: str, signature: inspect.Signature, args: Any) -> Any:
    try:
        return bind(name, signature, args, dict(call.kws))
    except TypingError as error:
        raise TypingError(str(error), loc=call.loc) from None


def _inner_ir(function: Any, closure: Any) -> Any:
    """The IR of an inner function with the caller's variables for those of its closure."""
    identity = FunctionIdentity.from_function(function)
    inner = interpreted(identity, ByteCode(func_id=identity))
    postproc.PostProcessor(inner).run()
    callee_ir_validator(inner)
    _Inliner(inner).run()
    for block in inner.blocks.values():
        # A variable has one name in the caller, and each later value another one in here.
        for name in function.__code__.co_freevars:
            if block.scope.redefined.get(name):
                raise UnsupportedError(
                    f"{function.__qualname__}(): a function that is defined inside a kernel can "
                    f"assign to the nonlocal variable {name!r} once only",
                    loc=inner.loc,
                )
        for assignment in block.find_insts(ir.Assign):
            if isinstance(assignment.value, ir.FreeVar):
                assignment.value = closure.items[assignment.value.index]
    # Numba's inliner binds the arguments to this function's parameters, which now it has none of.
    names = ", ".join(f"p{number}" for number in range(identity.arg_count))
    identity.func = eval(f"lambda {names}: None")
    return inner


@register_pass(mutates_CFG=True, analysis_only=False)
class InlineInlinables(untyped_passes.InlineInlinables):
    """Numba's pass for functions made by `jit(inline=...)`.

    It leaves alone what Numba's inliner cannot bind; that is a call like any other then.
    """

    _name = "haulage_inline_inlinables"

    def _do_work(
        self, state: Any, work_list: Any, block: Any, i: int, expr: Any, inline_worker: Any
    ) -> bool:
        function = guard(find_const, state.func_ir, expr.func)
        if isinstance(function, Dispatcher):
            signature = inspect.signature(function.py_func)
            others = [
                each
                for each in signature.parameters.values()
                if each.kind > each.POSITIONAL_OR_KEYWORD
            ]
            if others or expr.vararg:
                return False
            _bound(expr, function.py_func.__qualname__, signature, expr.args)
            # Functions that are defined in this one are inlined as everywhere.
            inline_worker._compiler_pipeline = state.pipeline.untyped
        inlined: bool = super()._do_work(state, work_list, block, i, expr, inline_worker)
        return inlined
