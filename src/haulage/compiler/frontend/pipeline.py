"""Numba's compilation passes for kernels: from bytecode to LLVM IR, no machine code."""

import operator
from typing import Any

from numba.core import cgutils, compiler, types, typing, untyped_passes
from numba.core.callconv import PythonErrorModel
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import (
    AnalysisPass,
    LoweringPass,
    PassManager,
    register_pass,
)
from numba.core.lowering import Lower, _VarArgItem
from numba.core.typed_passes import (
    AnnotateTypes,
    IRLegalization,
    NativeLowering,
    NopythonTypeInference,
)
from numba.core.untyped_passes import DeadBranchPrune, IRProcessing

from haulage.compiler.checks.names import NAMES
from haulage.compiler.frontend import counting, indices
from haulage.compiler.frontend.binding import LEFT_OUT, bind
from haulage.compiler.frontend.bytecode import KERNEL, TranslateByteCode
from haulage.compiler.frontend.constants import FoldConstants
from haulage.compiler.frontend.inlining import InlineInlinables, InlineInnerFunctions
from haulage.compiler.frontend.operations import note_lowering
from haulage.compiler.frontend.overwriting import wholes
from haulage.compiler.frontend.powers import is_product, product
from haulage.compiler.frontend.refusals import RefuseAllocation, RefuseStatements
from haulage.compiler.frontend.returns import TypeInference


class _BoundLower(Lower):
    """Numba's lowering with Python's binding of arguments."""

    def fold_call_args(
        self, fnty: Any, signature: Any, pos_args: Any, vararg: Any, kw_args: Any
    ) -> Any:
        if signature.pysig is None:
            return super().fold_call_args(fnty, signature, pos_args, vararg, kw_args)
        if vararg:
            count = len(self.typeof(vararg.name))
            pos_args = [*pos_args, *(_VarArgItem(vararg, place) for place in range(count))]
        parameters = signature.pysig.parameters.values()
        bound = bind(str(fnty), signature.pysig, pos_args, dict(kw_args))
        return [
            self._argument(parameter, value, kind)
            for parameter, value, kind in zip(parameters, bound, signature.args, strict=True)
        ]

    def _argument(self, parameter: Any, value: Any, kind: Any) -> Any:
        if value is LEFT_OUT:
            default = parameter.default
            own = kind
            if not isinstance(kind, types.Omitted):
                own = types.unliteral(self.context.typing_context.resolve_value_type(default))
            constant = self.context.get_constant_generic(self.builder, own, default)
            return self.context.cast(self.builder, constant, own, kind)
        if parameter.kind is parameter.VAR_POSITIONAL:
            items = [self._cast_var(each, of) for each, of in zip(value, kind, strict=True)]
            return cgutils.make_anonymous_struct(self.builder, items)
        return self._cast_var(value, kind)


class _PlacedLower(_BoundLower):
    """Numba's lowering, noting on the builder what status codes need to know: the source line,
    whether a thread that fails is to tell where it stands, and which end of a kernel this is."""

    def _compute_def_location(self) -> Any:
        # Numba reads the source for it, and warns of lambdas and of functions without a file.
        code = self.func_ir.func_id.func.__code__
        first = code.co_firstlineno
        inside = [line for _, _, line in code.co_lines() if line is not None and line > first]
        return self.func_ir.loc.with_lineno(min(inside, default=first + 1) - 1)

    def lower_inst(self, inst: Any) -> None:
        if isinstance(inst, counting.Count):
            counting.lower(self.builder, inst)
            return
        self.builder.source_place = (self.loc.filename, self.loc.line)
        self.builder.tells_place = isinstance(self.context.error_model, PythonErrorModel)
        self.builder.end = getattr(inst, "haulage_end", 0)
        self.builder.array_made = 0
        if self.flags.watched:
            self.builder.array_made = NAMES.column(indices.made(self, inst))
            self.debuginfo.array = indices.accessed(self, inst)
        if self.context.checks_indices:
            self.builder.source_function = self.func_ir.func_id.func_name
            self.builder.source_array = indices.array_of_call(self, inst)
            indices.check(self, inst)
        try:
            super().lower_inst(inst)
        except Exception as error:
            note_lowering(error, self, inst)
            raise

    def lower_binop(self, resty: Any, expr: Any, op: Any) -> Any:
        exponent = self.typeof(expr.rhs.name)
        if op not in (operator.pow, operator.ipow) or not isinstance(
            exponent, types.IntegerLiteral
        ):
            return super().lower_binop(resty, expr, op)
        # Numba's way with constant exponents is never taken; each such power would be a loop.
        signature = self.fndesc.calltypes[expr]
        kind = self.typeof(expr.lhs.name)
        if not is_product(self.context, signature, exponent.literal_value):
            return super().lower_binop(resty, expr, op)
        value = self.context.cast(
            self.builder, self.loadvar(expr.lhs.name), kind, signature.return_type
        )
        power = product(self.builder, value, exponent.literal_value)
        return self.context.cast(self.builder, power, signature.return_type, resty)


# The metadata of a kernel's compile result has under this name what `overwriting.wholes` found.
WHOLES = "haulage_wholes"


@register_pass(mutates_CFG=False, analysis_only=True)
class _NoteWholes(AnalysisPass):
    """Notes which launches of a kernel write all of an array."""

    _name = "haulage_note_wholes"

    def __init__(self) -> None:
        AnalysisPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        if hasattr(state.func_id.func, KERNEL):
            state.metadata[WHOLES] = wholes(state.func_ir, state.typemap)
        return False


@register_pass(mutates_CFG=True, analysis_only=False)
class _BoundLowering(NativeLowering):
    _name = "haulage_bound_lowering"

    @property
    def lowering_class(self) -> Any:
        return _BoundLower


@register_pass(mutates_CFG=True, analysis_only=False)
class _PlacedLowering(NativeLowering):
    _name = "haulage_lowering"

    @property
    def lowering_class(self) -> Any:
        return _PlacedLower


@register_pass(mutates_CFG=True, analysis_only=False)
class _Result(LoweringPass):
    """Ends the pipeline with Numba's record of the compiled function."""

    _name = "haulage_result"

    def __init__(self) -> None:
        LoweringPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        lowered = state["cr"]
        state.cr = compiler.compile_result(
            typing_context=state.typingctx,
            target_context=state.targetctx,
            library=state.library,
            signature=typing.signature(state.return_type, *state.args),
            fndesc=lowered.fndesc,
            call_helper=lowered.call_helper,
            # Numba keys the functions that a context knows by this object.
            entry_point=object(),
            metadata=state.metadata,
            type_annotation=state.type_annotation,
        )
        return True


def _untyped(state: Any) -> Any:
    """Numba's untyped passes, with ours that bind arguments and refuse what no kernel can have."""
    ours = {
        untyped_passes.TranslateByteCode: TranslateByteCode,
        untyped_passes.InlineClosureLikes: InlineInnerFunctions,
        untyped_passes.InlineInlinables: InlineInlinables,
    }
    passes = PassManager("haulage")
    for step, said in DefaultPassBuilder.define_untyped_pipeline(state).passes:
        passes.add_pass(ours.get(step, step), said)
    for added, behind in (
        (RefuseStatements, IRProcessing),
        (RefuseAllocation, DeadBranchPrune),
    ):
        place = next(number for number, (step, _) in enumerate(passes.passes) if step is behind)
        passes.passes.insert(place + 1, (added, added.__name__))
    return passes


class SIMTPipeline(CompilerBase):
    """The untyped and typed passes of Numba's nopython mode, then lowering."""

    untyped = staticmethod(_untyped)

    def define_pipelines(self) -> list[Any]:
        passes = _untyped(self.state)
        passes.add_pass(FoldConstants, "work out arithmetic on constants")
        for step, said in DefaultPassBuilder.define_typed_pipeline(self.state).passes:
            passes.add_pass(TypeInference if step is NopythonTypeInference else step, said)
        for step in (IRLegalization, AnnotateTypes, _NoteWholes, _PlacedLowering, _Result):
            passes.add_pass(step, step.__name__)
        passes.finalize()
        return [passes]


class SubroutinePipeline(CompilerBase):
    """Numba's own passes for the functions that its lowering is written in, with our binding of
    arguments and our rule for the arrays that functions return."""

    def define_pipelines(self) -> list[Any]:
        ours = {NopythonTypeInference: TypeInference, NativeLowering: _BoundLowering}
        passes = PassManager("haulage")
        for step, said in DefaultPassBuilder.define_nopython_pipeline(self.state).passes:
            passes.add_pass(ours.get(step, step), said)
        passes.finalize()
        return [passes]
