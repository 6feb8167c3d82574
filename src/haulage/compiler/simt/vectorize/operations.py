"""Which instructions have a form on vectors, and their parts."""

import re
from dataclasses import dataclass

from haulage.compiler.mathematics.definitions import is_mathematics
from haulage.compiler.simt.ir.model import Instruction
from haulage.compiler.simt.ir.types import BINARY, CASTS, COMPARISONS, FAST_MATH, UNARY

_FORMS = BINARY | UNARY | CASTS - {"addrspacecast", "ptrtoaddr"} | {"select", "getelementptr"}

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
# fmt: on
_SCALAR = re.compile(r"i(?:1|8|16|32|64)|half|float|double|ptr")
_INTRINSIC = re.compile(r"llvm\.([a-z.]+)\.(?:[if]\d+)$")

BYTES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "half": 2, "float": 4, "double": 8}
BYTES["ptr"] = 8


@dataclass(frozen=True)
class Operation:
    """`words` is the opcode with its flags; `operands` are (type, text); `type` what it makes, or
    what a store stores; `element` what an address counts in; `align` the bytes an access says."""

    words: str
    type: str
    operands: tuple[tuple[str, str], ...]
    element: str = ""
    align: int = 1


def is_scalar(kind: str) -> bool:
    """Whether a vector can have elements of this type."""
    return _SCALAR.fullmatch(kind) is not None


def elementwise(callee: str | None) -> int | None:
    """How many operands stay scalar if a call is made on vectors, or None if it can not be."""
    if is_mathematics(callee):
        return 0
    found = _INTRINSIC.fullmatch(callee or "")
    return _ELEMENTWISE.get(found[1]) if found else None


def parse(item: Instruction) -> Operation | None:
    """The parts of an instruction, or None if it is none that has a form for vectors."""
    opcode = item.opcode
    kind, words = item.type, (opcode, *item.flags)
    if opcode in COMPARISONS:
        words = (*words, item.predicate)
    elif opcode in ("load", "store") and not item.stays:
        kind, words = item.accessed_type, (opcode,)
    elif opcode == "call" and elementwise(item.callee) is not None:
        words = (opcode, *(flag for flag in item.flags if flag in FAST_MATH))
    elif opcode not in _FORMS:
        return None
    pairs = tuple((operand.type, operand.text) for operand in item.operands)
    if not all(map(is_scalar, (kind, *(each for each, _ in pairs)))):
        return None
    return Operation(" ".join(words), kind, pairs, item.source_type, item.align or 1)
