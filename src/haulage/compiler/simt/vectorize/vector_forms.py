"""Which instructions have a form on vectors (as `isTriviallyVectorizable` of LLVM tells of
intrinsics); all others are scalarised."""

from haulage.compiler.mathematics.definitions import DIVISIONS, is_mathematics
from haulage.compiler.simt.ir.model import Instruction
from haulage.compiler.simt.ir.types import BINARY, CASTS, COMPARISONS, UNARY, size_of

_FORMS = (BINARY | UNARY | COMPARISONS | CASTS) - {"addrspacecast", "ptrtoaddr"} | {
    "select",
    "getelementptr",
}
# Intrinsics that do to a vector what they do to each of its elements; with how many of the operands
# are no vectors then.
# fmt: off
_ELEMENTWISE = {
    **dict.fromkeys((
        "sqrt", "fabs", "floor", "ceil", "trunc", "rint", "nearbyint", "round", "roundeven", "fma",
        "fmuladd", "copysign", "minnum", "maxnum", "minimum", "maximum", "smax", "smin", "umax",
        "umin", "ctpop", "bswap", "bitreverse", "fshl", "fshr", "sadd.sat", "uadd.sat", "ssub.sat",
        "usub.sat", "canonicalize",
    ), 0),
    **dict.fromkeys(("abs", "ctlz", "cttz"), 1),
}
_ELEMENTS = ("i1", "i8", "i16", "i32", "i64", "half", "float", "double", "ptr")
# fmt: on

# The types that a vector may have elements of, and their bytes in memory.
BYTES = {kind: size_of(kind) or 0 for kind in _ELEMENTS}


def elementwise(callee: str | None) -> int | None:
    """How many operands stay scalar if a call is made on vectors, or None if it can not be."""
    if callee is None:
        return None
    if is_mathematics(callee):
        return 0
    name, _, suffix = callee.rpartition(".")
    if not name.startswith("llvm.") or suffix[:1] not in ("i", "f") or not suffix[1:].isdigit():
        return None
    return _ELEMENTWISE.get(name.removeprefix("llvm."))


def has_vector_form(item: Instruction) -> bool:
    """Whether an instruction, other than a phi, has a form on vectors."""
    if item.opcode in ("load", "store"):
        if item.stays:
            return False
    elif item.opcode == "call":
        if elementwise(item.callee) is None:
            return False
    elif item.opcode not in _FORMS:
        return False
    types = {operand.type for operand in item.operands}
    return types <= BYTES.keys() and (item.opcode == "store" or item.type in BYTES)


def is_scalarized(item: Instruction) -> bool:
    """Whether an instruction whose lanes differ is done for one lane after the other."""
    return item.opcode == "frem" or is_long_division(item) or not has_vector_form(item)


def is_long_division(item: Instruction) -> bool:
    """Whether it is a division that a vector takes one element after the other for."""
    if item.opcode not in DIVISIONS:
        return False
    divisor = item.operands[1]
    number = divisor.number
    if number is None or number in (0, -1):
        return True
    return divisor.type == "i64" and number & (number - 1) != 0
