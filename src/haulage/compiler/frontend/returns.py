"""Type inference, and which arrays a function may return.

Numba lets functions without reference counts return only arrays that they were given. Here a
function may also return views of these, shared arrays, constants and arrays over a pointer's
memory; an array of the thread's own (`local.array`) is gone with its function, alone or inside a
tuple.
"""

from typing import Any

from numba.core import errors, ir, types
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NopythonTypeInference, type_inference_stage

from haulage.compiler.frontend.operations import note_typing
from haulage.compiler.frontend.refusals import is_library
from haulage.lang.memory import const, shared

NEW_ARRAY = "the array that this function returns ends with it"

_LASTING = (shared.array, const.array_like)


@register_pass(mutates_CFG=True, analysis_only=False)
class TypeInference(NopythonTypeInference):
    """Infers types; refuses to return arrays that are gone when the function is."""

    _name = "haulage_type_inference"

    def run_pass(self, state: Any) -> bool:
        try:
            inferred = type_inference_stage(
                state.typingctx,
                state.targetctx,
                state.func_ir,
                state.args,
                state.return_type,
                state.locals,
                raise_errors=True,
            )
        except Exception as error:
            if not is_library(state.func_ir):
                note_typing(error, state.func_id.func)
            raise
        state.typemap, state.return_type, state.calltypes, state.typing_errors = inferred
        if isinstance(state.return_type, (types.Function, types.Phantom)):
            raise errors.NumbaTypeError(
                f"a kernel's function cannot return a function; got {state.return_type}"
            )
        if _has_array(state.return_type):
            _check(state)
        return True


def _check(state: Any) -> None:
    lasting = _Lasting(state.func_ir, state.typemap)
    for block in state.func_ir.blocks.values():
        for statement in block.find_insts(ir.Return):
            if not lasting.variable(statement.value):
                raise errors.NumbaTypeError(
                    f"{NEW_ARRAY}; let its caller give it an array to write to", loc=statement.loc
                )


def _has_array(kind: Any) -> bool:
    if isinstance(kind, types.BaseTuple):
        return any(map(_has_array, kind))
    return isinstance(kind, types.Array)


def _has_memory(kind: Any) -> bool:
    return _has_array(kind) or isinstance(kind, (types.CPointer, types.RawPointer))


class _Lasting:
    """Which variables of a function hold arrays that outlive it."""

    def __init__(self, function_ir: Any, kinds: Any) -> None:
        self._definitions = function_ir._definitions
        self._kinds = kinds
        self._seen: set[str] = set()

    def variable(self, variable: Any) -> bool:
        if variable.name in self._seen:
            # A loop brings nothing that does not come from elsewhere.
            return True
        self._seen.add(variable.name)
        if not _has_array(self._kinds[variable.name]):
            return True
        definitions = self._definitions[variable.name]
        return bool(definitions) and all(map(self._value, definitions))

    def _value(self, value: Any) -> bool:
        if isinstance(value, ir.Var):
            return self.variable(value)
        if isinstance(value, (ir.Arg, ir.Global, ir.FreeVar, ir.Const)):
            return True
        if not isinstance(value, ir.Expr):
            return False
        if value.op == "call":
            return self._call(value)
        if value.op == "phi":
            return all(
                self.variable(each) for each in value.incoming_values if each is not ir.UNDEFINED
            )
        if value.op == "build_tuple":
            return all(map(self.variable, value.items))
        if value.op in ("cast", "getitem", "static_getitem", "getattr", "exhaust_iter"):
            return self.variable(value.value)
        return False

    def _call(self, call: Any) -> bool:
        kind = self._kinds[call.func.name]
        if isinstance(kind, types.Function) and kind.typing_key in _LASTING:
            return True
        if isinstance(kind, types.BoundFunction):
            owner = self._definitions[call.func.name]
            return all(isinstance(each, ir.Expr) and self.variable(each.value) for each in owner)
        # As the array that `carray` makes of a pointer's memory.
        sources = [each for each in call.list_vars()[1:] if _has_memory(self._kinds[each.name])]
        return bool(sources) and all(map(self.variable, sources))
