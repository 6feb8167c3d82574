"""Pieces of LLVM IR that the NVIDIA target's hooks are written with."""

from typing import Any

# Gives the address of an array of constants; see `compiler/gpu/nvidia/constants.py`.
CONSTANT = "haulage_constant"


def assembly_value(builder: Any, text: str, kind: Any) -> Any:
    """The value of one instruction of PTX without operands; it is the same wherever it is read."""
    from llvmlite import ir

    code = ir.InlineAsm(ir.FunctionType(kind, []), text, "=r", side_effect=False)
    return builder.call(code, [])
