"""Makes instructions, one function for each form that passes write."""

from collections.abc import Iterable, Sequence

from haulage.compiler.simt.ir.model import Instruction, Operand
from haulage.compiler.simt.ir.types import element_type, like


def binary(result: str, opcode: str, kind: str, left: str, right: str, *flags: str) -> Instruction:
    """An arithmetic operation on two values of one type."""
    operands = Operand(kind, left), Operand(kind, right)
    return Instruction(opcode, kind, result, operands, flags=flags)


def compare(result: str, predicate: str, kind: str, left: str, right: str) -> Instruction:
    """A comparison of two integers or addresses, or, with a predicate of those, of two floats."""
    opcode = "fcmp" if predicate[0] == "o" or predicate in ("uno", "une") else "icmp"
    operands = Operand(kind, left), Operand(kind, right)
    return Instruction(opcode, like(kind, "i1"), result, operands, predicate=predicate)


def select(result: str, condition: str, kind: str, one: str, other: str) -> Instruction:
    """The first value where an i1 holds, else the other."""
    operands = Operand("i1", condition), Operand(kind, one), Operand(kind, other)
    return Instruction("select", kind, result, operands)


def cast(result: str, opcode: str, kind: str, value: str, made: str) -> Instruction:
    """A value of the type `kind` as one of the type `made`."""
    return Instruction(opcode, made, result, (Operand(kind, value),))


def phi(result: str, kind: str, incoming: Iterable[tuple[str, str]]) -> Instruction:
    """A phi of (value, label) pairs."""
    pairs = tuple(incoming)
    values = tuple(Operand(kind, value) for value, _ in pairs)
    return Instruction("phi", kind, result, values, sources=tuple(label for _, label in pairs))


def load(result: str, kind: str, address: str, align: int = 0) -> Instruction:
    """A plain load."""
    return Instruction("load", kind, result, (Operand("ptr", address),), align=align)


def store(kind: str, value: str, address: str, align: int = 0) -> Instruction:
    """A plain store."""
    operands = Operand(kind, value), Operand("ptr", address)
    return Instruction("store", "void", operands=operands, align=align)


def atomic(
    result: str, operation: str, kind: str, address: str, value: str, ordering: str
) -> Instruction:
    """An `atomicrmw`, which gives what was there before."""
    operands = Operand("ptr", address), Operand(kind, value)
    return Instruction("atomicrmw", kind, result, operands, predicate=operation, ordering=ordering)


def element(
    result: str, kind: str, base: str, index: str, *flags: str, by: str = "i64"
) -> Instruction:
    """The address of an element, counted from `base` in units of the type `kind` by an index of
    the type `by`."""
    operands = Operand("ptr", base), Operand(by, index)
    return Instruction("getelementptr", "ptr", result, operands, flags=flags, source_type=kind)


def insert_value(
    result: str, aggregate: tuple[str, str], value: tuple[str, str], index: int
) -> Instruction:
    """A (type, structure) with a (type, value) in one of its places."""
    operands = Operand(*aggregate), Operand(*value)
    return Instruction("insertvalue", aggregate[0], result, operands, indices=(index,))


def extract_value(result: str, aggregate: tuple[str, str], index: int) -> Instruction:
    """A place of a (type, structure)."""
    kind = element_type(aggregate[0], (index,))
    return Instruction("extractvalue", kind, result, (Operand(*aggregate),), indices=(index,))


def call(
    result: str | None,
    kind: str,
    callee: str,
    arguments: Sequence[tuple[str, str]],
    metadata: tuple[tuple[str, str], ...] = (),
) -> Instruction:
    """A call of the function `callee` with (type, value) pairs."""
    operands = tuple(Operand(*argument) for argument in arguments)
    return Instruction(
        "call",
        kind,
        result,
        operands,
        source_type=kind,
        callee=callee,
        called=f"@{callee}",
        metadata=metadata,
    )


def jump(label: str) -> Instruction:
    """A branch without a condition."""
    return Instruction("br", "void", targets=(label,))


def branch(
    condition: str, label: str, other: str, metadata: tuple[tuple[str, str], ...] = ()
) -> Instruction:
    """A branch to `label` where an i1 holds, else to `other`."""
    operands = (Operand("i1", condition),)
    return Instruction("br", "void", None, operands, targets=(label, other), metadata=metadata)
