"""LLVM's types, opcodes and flags, in text as LLVM prints it."""

import re
from functools import cache

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
# fmt: on
_OPENING, _CLOSING = "([{<", ")]}>"
_SEPARATOR = re.compile(r"[][(){}<>,]")
_VECTOR = re.compile(r"<(?P<count>[^<>]* x )(?P<element>[^<>]+)>")
_SIZES = {"float": 4, "double": 8, "half": 2, "bfloat": 2, "ptr": 8}


def split_list(text: str) -> list[str]:
    """The parts of a list between commas, but for those within brackets."""
    parts: list[str] = []
    depth = start = 0
    for found in _SEPARATOR.finditer(text):
        character = found[0]
        if character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
        elif depth == 0:
            parts.append(text[start : found.start()].strip())
            start = found.end()
    last = text[start:].strip()
    return [*parts, last] if last else parts


def matching(text: str, opening: int) -> int:
    """Where the bracket closes that is opened at a place of `text`."""
    depth = 0
    for found in _SEPARATOR.finditer(text, opening):
        character = found[0]
        if character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth -= 1
            if depth == 0:
                return found.start()
    raise AssertionError(f"no end in {text!r}")


def first_type(text: str) -> str:
    """The type that `text` begins with."""
    if text[0] in _OPENING:
        return text[: matching(text, 0) + 1]
    kind = text.split(" ", 1)[0].rstrip(",")
    if text.startswith("ptr addrspace("):
        return text[: text.index(")") + 1]
    return kind


def last_type(text: str) -> str:
    """The type that `text` ends with."""
    if text[-1] not in _CLOSING:
        return text.rsplit(" ", 1)[-1]
    depth = 0
    for index in range(len(text) - 1, -1, -1):
        if text[index] in _CLOSING:
            depth += 1
        elif text[index] in _OPENING:
            depth -= 1
            if depth == 0:
                # Of a function with more arguments than it names, the type before its parameters.
                return last_type(text[:index].rstrip()) if text[-1] == ")" else text[index:]
    raise AssertionError(f"no type in {text!r}")


def like(kind: str, element: str) -> str:
    """The type `element`, or a vector of as many as the type `kind` has."""
    vector = _VECTOR.fullmatch(kind)
    return f"<{vector['count']}{element}>" if vector else element


def element_type(aggregate: str, indices: tuple[int, ...]) -> str:
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


def size_of(kind: str) -> int | None:
    """Bytes of a scalar type, or of an array of one; None for others."""
    if kind in _SIZES:
        return _SIZES[kind]
    bits = bits_of(kind)
    if bits is not None:
        return max(1, bits // 8)
    if kind[0] != "[":
        return None
    count, _, element = kind[1:-1].partition(" x ")
    size = size_of(element)
    return None if size is None else int(count) * size
