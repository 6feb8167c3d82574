"""The text of one instruction taken apart: its flags, its types, its operands."""

import re
from dataclasses import dataclass

from haulage.compiler.mathematics.definitions import is_mathematics
from haulage.compiler.simt.ir.model import Instruction

# fmt: off
BINARY = frozenset((
    "add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr", "and", "or", "xor",
    "fadd", "fsub", "fmul", "fdiv", "frem",
))
CASTS = frozenset((
    "trunc", "zext", "sext", "fptrunc", "fpext", "fptoui", "fptosi", "uitofp", "sitofp", "ptrtoint",
    "inttoptr", "bitcast",
))
# fmt: on
DIVISIONS = frozenset(("udiv", "sdiv", "urem", "srem"))

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
_FAST_MATH = frozenset(("nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc", "fast"))
_SCALAR = re.compile(r"i(?:1|8|16|32|64)|half|float|double|ptr")
_NOTES = re.compile(r", ![\w.]+ !\d+.*$")
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
    text = _NOTES.sub("", item.text)
    if item.result is not None:
        text = text.split(" = ", 1)[1]
    return _checked(_parsed(item, text))


def _parsed(item: Instruction, text: str) -> Operation | None:
    opcode = item.opcode
    if opcode in BINARY or opcode in ("icmp", "fcmp"):
        left, right = _split(text)
        words, kind, first = _words_type_value(left)
        return Operation(words, kind if opcode in BINARY else "i1", ((kind, first), (kind, right)))
    if opcode in CASTS:
        source, made = text.rsplit(" to ", 1)
        words, kind, value = _words_type_value(source)
        return Operation(words, made, ((kind, value),))
    if opcode in ("fneg", "freeze"):
        words, kind, value = _words_type_value(text)
        return Operation(words, kind, ((kind, value),))
    if opcode == "select":
        condition, *others = _split(text)
        words, _, value = _words_type_value(condition)
        chosen = [_typed(each) for each in others]
        return Operation(words, chosen[0][0], (("i1", value), *chosen))
    if opcode == "getelementptr":
        head, *rest = _split(text)
        words, element = head.rsplit(" ", 1)
        return Operation(words, "ptr", tuple(map(_typed, rest)), element)
    if opcode in ("load", "store") and not item.stays:
        return _access(text)
    if opcode == "call" and elementwise(item.callee) is not None:
        start, _, listed = text.partition(f" @{item.callee}(")
        arguments = _split(listed[: listed.rindex(")")])
        words = " ".join(["call", *(word for word in start.split(" ") if word in _FAST_MATH)])
        pairs = tuple((each.split(" ", 1)[0], each.rsplit(" ", 1)[1]) for each in arguments)
        return Operation(words, item.type, pairs)
    return None


def _access(text: str) -> Operation:
    parts = _split(text)
    align = int(parts.pop()[6:]) if parts[-1].startswith("align ") else 1
    first, second = parts
    if first.startswith("load "):
        return Operation("load", first.split(" ", 1)[1], (_typed(second),), align=align)
    value = _typed(first.split(" ", 1)[1])
    return Operation("store", value[0], (value, _typed(second)), align=align)


def _checked(operation: Operation | None) -> Operation | None:
    if operation is None:
        return None
    kinds = (operation.type, *(kind for kind, _ in operation.operands))
    return operation if all(map(is_scalar, kinds)) else None


def _typed(text: str) -> tuple[str, str]:
    kind, value = text.split(" ", 1)
    return kind, value


def _words_type_value(text: str) -> tuple[str, str, str]:
    """Of `fadd contract float %x`: the opcode with flags, the type, the value."""
    words = text.split(" ")
    places = [number for number, word in enumerate(words) if number and _SCALAR.fullmatch(word)]
    place = places[0] if places else 0
    return " ".join(words[:place]), words[place], " ".join(words[place + 1 :])


def _split(text: str) -> list[str]:
    """Split at commas that are in no brackets."""
    parts: list[str] = []
    depth, start = 0, 0
    for place, letter in enumerate(text):
        if letter in "([{<":
            depth += 1
        elif letter in ")]}>":
            depth -= 1
        elif letter == "," and not depth:
            parts.append(text[start:place].strip())
            start = place + 1
    return [*parts, text[start:].strip()]
