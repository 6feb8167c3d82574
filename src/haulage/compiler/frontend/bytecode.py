"""From bytecode to Numba's IR, with values that are assigned and used, as in `(n := f(x)) > 2`."""

from typing import Any

import numba
from numba.core import ir
from numba.core.bytecode import _FIXED_OFFSET
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.interpreter import Interpreter
from numba.core.ir_utils import find_const, guard

from haulage.compiler.frontend import counting
from haulage.compiler.frontend.ends import number_ends

# A kernel's function has this attribute, one that is called from kernels has not.
KERNEL = "__haulage_kernel__"


_path_of = ir.Loc._get_path


def _path_without_folder(place: Any) -> Any:
    # Numba names files from the current folder, which may be gone.
    try:
        return _path_of(place)
    except FileNotFoundError:
        return place.filename


ir.Loc._get_path = _path_without_folder


class BytecodeInterpreter(Interpreter):
    """Numba's, which renames a value to the variable that it is assigned to, and loses it for
    every other use but an assignment's."""

    def op_RETURN_VALUE(self, inst: Any, **names: Any) -> None:
        super().op_RETURN_VALUE(inst, **names)
        self._note_return(inst)

    def op_RETURN_CONST(self, inst: Any, **names: Any) -> None:
        super().op_RETURN_CONST(inst, **names)
        self._note_return(inst)

    def _note_return(self, inst: Any) -> None:
        # Numba's bytecode begins with an instruction of its own.
        self.current_block.body[-1].haulage_offset = inst.offset - _FIXED_OFFSET

    def _remove_unused_temporaries(self) -> None:
        made = {each.target.name: each for each in _assignments(self.current_block)}
        values = {name: each.value for name, each in made.items()}
        temporaries = {name: each.target for name, each in made.items() if each.target.is_temp}
        super()._remove_unused_temporaries()
        kept = {each.target.name for each in _assignments(self.current_block)}
        used = {
            variable.name
            for statement in self.current_block.body
            for variable in statement.list_vars()
        }
        # What goes to following blocks may be a copy, in whose place Numba takes the original.
        originals = self.assigner.dest_to_src
        used |= {
            originals[name].name if name in originals else name
            for name in self.dfainfo.outgoing_phis.values()
        }
        for name in sorted((temporaries.keys() - kept) & used):
            self._keep(temporaries[name], values[name])

    def _keep(self, temporary: Any, value: Any) -> None:
        body = self.current_block.body
        place, made = next(
            (number, each)
            for number, each in enumerate(body)
            if isinstance(each, ir.Assign) and each.value is value
        )
        body.insert(place + 1, ir.Assign(made.target, temporary, made.loc))
        self.definitions[temporary.name] = [made.target]


def interpreted(identity: Any, bytecode: Any) -> Any:
    """Numba's IR of a function's bytecode; with the counts of coverage, if it is to be counted."""
    function_ir = BytecodeInterpreter(identity).interpret(bytecode)
    counting.count(function_ir, hasattr(identity.func, KERNEL))
    return function_ir


@register_pass(mutates_CFG=True, analysis_only=False)
class TranslateByteCode(FunctionPass):
    """Numba's pass of this name with our interpreter of bytecode."""

    _name = "haulage_translate_bytecode"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        function_ir = interpreted(state["func_id"], state["bc"])
        function = state["func_id"].func
        if hasattr(function, KERNEL):
            number_ends(function_ir, function.__code__)
        _name_literal_unroll(function_ir)
        state["func_ir"] = function_ir
        return True


def _name_literal_unroll(function_ir: Any) -> None:
    """Read `numba.literal_unroll` as a global, by which alone Numba's own passes know it."""
    for block in function_ir.blocks.values():
        for assignment in _assignments(block):
            value = assignment.value
            if not isinstance(value, ir.Expr) or value.op != "getattr":
                continue
            if (
                value.attr == "literal_unroll"
                and guard(find_const, function_ir, value.value) is numba
            ):
                assignment.value = ir.Global(value.attr, numba.literal_unroll, value.loc)
                function_ir._definitions[assignment.target.name] = [assignment.value]


def _assignments(block: Any) -> list[Any]:
    return [each for each in block.body if isinstance(each, ir.Assign)]
