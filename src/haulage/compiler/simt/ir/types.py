"""LLVM's types, opcodes and flags, in text as LLVM prints it, and what stands where in an
instruction."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from haulage.compiler.simt.ir.model import Operand

# fmt: off
BINARY = frozenset((
    "add", "sub", "mul", "udiv", "sdiv", "urem", "srem", "shl", "lshr", "ashr", "and", "or", "xor",
    "fadd", "fsub", "fmul", "fdiv", "frem",
))
UNARY = frozenset(("fneg", "freeze"))
CASTS = frozenset((
    "trunc", "zext", "sext", "fptrunc", "fpext", "fptoui", "fptosi", "uitofp", "sitofp", "ptrtoint",
    "ptrtoaddr", "inttoptr", "bitcast", "addrspacecast",
))
COMPARISONS = frozenset(("icmp", "fcmp"))
TERMINATORS = frozenset(("br", "switch", "ret", "unreachable"))
# Flags by which an instruction promises something of its operands; else its result is poison.
PROMISES = frozenset(("nuw", "nsw", "exact", "disjoint", "nneg", "samesign", "inbounds", "nusw"))
FAST_MATH = frozenset(("fast", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc"))
# What may stand between an opcode and the first type.
FLAGS = PROMISES | FAST_MATH | {"atomic", "volatile", "weak"}
# What may stand before `call`.
TAIL_CALLS = frozenset(("tail", "musttail", "notail"))
# fmt: on
_OPENING, _CLOSING = "([{<", ")]}>"
_BRACKET = re.compile(r'[][(){}<>"]')
_MARK = re.compile(r'"[^"]*"|[][(){}<>,]')
_VECTOR = re.compile(r"<(?P<count>\d+ x )(?P<element>[^<>]+)>")
_RANGE = re.compile(r"\brange\(i(\d+) (-?\d+), (-?\d+)\)")
_SIZES = {"float": 4, "double": 8, "half": 2, "bfloat": 2, "ptr": 8}


def split_list(text: str) -> list[str]:
    """The parts of a list between commas, but for those within brackets and quotes."""
    text = text.strip()
    if not _BRACKET.search(text):
        return text.split(", ") if text else []
    parts: list[str] = []
    depth = start = 0
    for found in _MARK.finditer(text):
        mark = found[0]
        if mark in _OPENING:
            depth += 1
        elif mark in _CLOSING:
            depth -= 1
        elif depth == 0 and mark == ",":
            parts.append(text[start : found.start()].strip())
            start = found.end()
    return [*parts, text[start:].strip()]


def matching(text: str, opening: int) -> int:
    """Where the bracket closes that is opened at a place of `text`."""
    depth = 0
    for found in _MARK.finditer(text, opening):
        depth += (found[0] in _OPENING) - (found[0] in _CLOSING)
        if depth == 0:
            return found.start()
    raise AssertionError(f"no end in {text!r}")


def first_type(text: str) -> str:
    """The type that `text` begins with."""
    if text[0] in _OPENING:
        return text[: matching(text, 0) + 1]
    if text.startswith("ptr addrspace("):
        return text[: text.index(")") + 1]
    return text.partition(" ")[0].rstrip(",")


def like(kind: str, element: str) -> str:
    """The type `element`, or a vector of as many as the type `kind` has."""
    vector = _VECTOR.fullmatch(kind) if kind[0] == "<" else None
    return f"<{vector['count']}{element}>" if vector else element


def element_type(aggregate: str, indices: Sequence[int] = (0,)) -> str:
    """The type of an element of a structure, an array or a vector."""
    for index in indices:
        if aggregate[0] == "[" or _VECTOR.fullmatch(aggregate):
            aggregate = aggregate[1:-1].split(" x ", 1)[1]
        else:
            aggregate = split_list(aggregate.strip("<>")[1:-1])[index]
    return aggregate


@cache
def bits_of(kind: str) -> int | None:
    """The bits of an integer type; None for others."""
    return int(kind[1:]) if kind[0] == "i" and kind[1:].isdigit() else None


@cache
def size_of(kind: str) -> int | None:
    """Bytes of a scalar type, of an array of one, or of a structure of one; None for others."""
    if kind in _SIZES:
        return _SIZES[kind]
    bits = bits_of(kind)
    if bits is not None:
        return max(1, bits // 8)
    if kind[0] == "{":
        fields = split_list(kind[1:-1])
        each = size_of(fields[0]) if len(set(fields)) == 1 else None
        return None if each is None else len(fields) * each
    if kind[0] != "[":
        return None
    count, _, element = kind[1:-1].partition(" x ")
    size = size_of(element)
    return None if size is None else int(count) * size


def declared_range(attributes: str) -> tuple[int, int] | None:
    """The least and the greatest number that a parameter or a call's result is by its attributes;
    None if they don't say, or if it goes around from a great number to a small one."""
    found = _RANGE.search(attributes)
    if found is None:
        return None
    bits, first, end = map(int, found.groups())
    # Behind the greatest number comes the least one.
    end = -end if end == -(1 << (bits - 1)) else end
    return (first, end - 1) if first < end else None


class Form(NamedTuple):
    """How an instruction goes on behind its opcode and flags: with the field `first` of
    `Instruction`, if any, and a list of operands, constant indices or labels. `pair` are two
    operands of one type, which is written once. `kind` gives the type of the result by the
    operands and indices, where no field has it."""

    kind: Callable[[Sequence[Operand], Sequence[int]], str]
    first: str = ""
    pair: bool = False


def _of_element_address(operands: Sequence[Operand], indices: Sequence[int]) -> str:
    vectors = (operand.type for operand in operands if operand.type[0] == "<")
    return like(next(vectors, "i64"), "ptr")


_NOTHING = Form(lambda operands, indices: "void")
_LIKE_FIRST = Form(lambda operands, indices: operands[0].type)
FORMS = {
    **dict.fromkeys(BINARY, _LIKE_FIRST._replace(pair=True)),
    **dict.fromkeys((*UNARY, "insertvalue", "insertelement"), _LIKE_FIRST),
    **dict.fromkeys(CASTS, _LIKE_FIRST),
    **dict.fromkeys(
        COMPARISONS, Form(lambda operands, _: like(operands[0].type, "i1"), "predicate", True)
    ),
    **dict.fromkeys((*TERMINATORS, "store", "fence"), _NOTHING),
    **dict.fromkeys(("phi", "load"), _LIKE_FIRST._replace(first="type")),
    "alloca": Form(lambda operands, _: "ptr", "source_type"),
    "getelementptr": Form(_of_element_address, "source_type"),
    "select": Form(lambda operands, _: operands[1].type),
    "atomicrmw": Form(lambda operands, _: operands[1].type, "predicate"),
    "cmpxchg": Form(lambda operands, _: f"{{ {operands[1].type}, i1 }}"),
    "extractvalue": Form(lambda operands, indices: element_type(operands[0].type, indices)),
    "extractelement": Form(lambda operands, _: element_type(operands[0].type)),
    "shufflevector": Form(
        lambda operands, _: like(operands[2].type, element_type(operands[0].type))
    ),
    "call": _NOTHING,
}
