"""Loads and stores with hints for the caches: one instruction of PTX each.

LLVM has no words for the hints, so this is assembly, on generic addresses; where an address turns
out to be one of the device's memory `compiler/gpu/nvidia/hints.py` says so. Source: PTX ISA, cache
operators.
"""

from typing import Any

# Word of the kernel language: its operator.
OPERATORS = {
    **{"ldca": "ca", "ldcg": "cg", "ldcs": "cs", "ldlu": "lu", "ldcv": "cv"},
    **{"stcg": "cg", "stcs": "cs", "stwb": "wb", "stwt": "wt"},
}
# Bits of a value: the letter of its registers in assembly. What has 8 is held in 16.
_LETTERS = {8: "h", 16: "h", 32: "r", 64: "l"}


def load(builder: Any, hint: str, pointer: Any, kind: Any, nbytes: int) -> Any:
    """Load an int or a float of an LLVM type and `nbytes`, of which `pointer` is a multiple."""
    from llvmlite import ir

    register = ir.IntType(max(8 * nbytes, 16))
    text = f"ld.{OPERATORS[hint]}.b{8 * nbytes} $0, [$1];"
    letters = f"={_LETTERS[8 * nbytes]},l"
    function = ir.FunctionType(register, [pointer.type])
    if hint == "ldcv":
        # It is made each time, in order.
        code = ir.InlineAsm(function, text, f"{letters},~{{memory}}", side_effect=True)
        value = builder.call(code, [pointer])
    else:
        code = ir.InlineAsm(function, text, letters, side_effect=False)
        value = builder.call(code, [pointer], attrs=("readonly", "nounwind"))
    if nbytes == 1:
        value = builder.trunc(value, ir.IntType(8))
    return builder.bitcast(value, kind)


def store(builder: Any, hint: str, value: Any, pointer: Any, nbytes: int) -> None:
    """Store an int or a float of `nbytes`, of which `pointer` is a multiple."""
    from llvmlite import ir

    register = ir.IntType(max(8 * nbytes, 16))
    value = builder.bitcast(value, ir.IntType(8 * nbytes))
    if nbytes == 1:
        value = builder.zext(value, register)
    text = f"st.{OPERATORS[hint]}.b{8 * nbytes} [$0], $1;"
    function = ir.FunctionType(ir.VoidType(), [pointer.type, register])
    letters = f"l,{_LETTERS[8 * nbytes]},~{{memory}}"
    builder.call(ir.InlineAsm(function, text, letters, side_effect=True), [pointer, value])
