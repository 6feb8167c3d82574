"""Comparisons and choices. Source: NVIDIA, PTX ISA, 9.7.6."""

from doubles.ptx.arithmetic import flushed
from doubles.ptx.code import LLVM_FLOATS, Code
from doubles.ptx.elementwise import operation, part
from doubles.ptx.layout import FORMATS
from doubles.ptx.syntax import Instruction, Operand, Pair, PTXError, Type

_ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")
# Without a sign.
_SAME_OR_ABOVE = {"lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}
# PTX's name -> LLVM's. A comparison with NaN is false, `ne` included, unless its name has a `u`.
_OF_FLOATS = {
    **{name: f"o{name}" for name in _ORDERED},
    **{f"{name}u": f"u{name}" for name in _ORDERED},
    "num": "ord",
    "nan": "uno",
}


def compared(code: Code, item: Instruction, kind: Type, a: str, b: str) -> str:
    """What the comparison of the name says of two values."""
    word = item.parts[1]
    if kind.is_float:
        if word not in _OF_FLOATS:
            raise code.error(f"{word} of floats is not known here")
        test, values = _OF_FLOATS[word], []
        for value in (a, b):
            if kind.kind in FORMATS:
                given = [f"i32 {FORMATS[kind.kind]}", f"i16 zeroext {value}"]
                values.append(code.call("ptx_widened", "double", *given))
            else:
                values.append(code.as_float(flushed(code, item, kind, value), kind))
        name = "double" if kind.kind in FORMATS else LLVM_FLOATS[kind.bits]
        return code.new(f"fcmp {test} {name} {values[0]}, {values[1]}")
    if word in _SAME_OR_ABOVE:
        test = _SAME_OR_ABOVE[word]
    elif word in ("eq", "ne"):
        test = word
    elif word in _ORDERED:
        if kind.kind == "b":
            raise code.error("bits have no order")
        test = f"{'s' if kind.kind == 's' else 'u'}{word}"
    else:
        raise code.error(f"{word} of integers is not known here")
    return code.new(f"icmp {test} i{kind.bits} {a}, {b}")


def _with_third(code: Code, item: Instruction, result: str, third: Operand | None) -> str:
    """The result combined with a predicate, if the name says so."""
    word = next((each for each in ("and", "or", "xor") if item.has(each)), None)
    if word is None:
        return result
    if third is None:
        raise code.error("a predicate is missing")
    return code.new(f"{word} i1 {result}, {code.get(third, 1)}")


@operation("setp")
def set_predicate(code: Code, item: Instruction) -> None:
    kind = item.types[-1]
    target, a, b, *third = item.operands
    left, right = code.get(a, kind.bits), code.get(b, kind.bits)
    other = third[0] if third else None
    if kind.is_packed:
        if not isinstance(target, Pair):
            raise code.error("one predicate for two comparisons")
        element = kind.element
        for number, each in enumerate((target.first, target.second)):
            values = [part(code, value, kind.bits, element.bits, number) for value in (left, right)]
            result = compared(code, item, element, *values)
            code.put(each, 1, _with_third(code, item, result, other))
        return
    result = compared(code, item, kind, left, right)
    if not isinstance(target, Pair):
        code.put(target, 1, _with_third(code, item, result, other))
        return
    opposite = code.new(f"xor i1 {result}, true")
    first = _with_third(code, item, result, other)
    second = _with_third(code, item, opposite, other)
    code.put(target.first, 1, first)
    code.put(target.second, 1, second)


@operation("set")
def set_value(code: Code, item: Instruction) -> None:
    """All ones, or the float 1, if the comparison holds."""
    into, kind = item.types
    target, a, b, *third = item.operands
    result = compared(code, item, kind, code.get(a, kind.bits), code.get(b, kind.bits))
    result = _with_third(code, item, result, third[0] if third else None)
    if kind.is_packed:
        raise code.error("packed comparisons are not known here")
    true = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}.get(into.name, -1)
    value = code.new(f"select i1 {result}, i{into.bits} {true}, i{into.bits} 0")
    code.put(target, into.bits, value, signed=into.kind == "s")


@operation("selp")
def select(code: Code, item: Instruction) -> None:
    (kind,) = item.types
    target, a, b, which = item.operands
    integer = f"i{kind.bits}"
    yes, no = code.get(a, kind.bits), code.get(b, kind.bits)
    value = code.new(f"select i1 {code.get(which, 1)}, {integer} {yes}, {integer} {no}")
    code.put(target, kind.bits, value, signed=kind.kind == "s")


@operation("slct")
def select_by_sign(code: Code, item: Instruction) -> None:
    """The first where the third is not below zero; -0 is not, NaN is."""
    kind, by = item.types
    target, a, b, which = item.operands
    value = flushed(code, item, by, code.get(which, 32))
    if by.is_float:
        condition = code.new(f"fcmp oge float {code.as_float(value, by)}, 0.0")
    elif by.name == "s32":
        condition = code.new(f"icmp sge i32 {value}, 0")
    else:
        raise PTXError(f"slct by {by.name}")
    integer = f"i{kind.bits}"
    yes, no = code.get(a, kind.bits), code.get(b, kind.bits)
    chosen = code.new(f"select i1 {condition}, {integer} {yes}, {integer} {no}")
    code.put(target, kind.bits, chosen, signed=kind.kind == "s")
