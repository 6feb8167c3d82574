"""The table of instructions, and those that do the same with each element of packed values."""

from collections.abc import Callable

from doubles.ptx.code import Code
from doubles.ptx.syntax import Instruction, Type

Operation = Callable[[Code, Instruction], None]

# First part of an instruction's name -> what writes it.
OPERATIONS: dict[str, Operation] = {}


def operation(*names: str) -> Callable[[Operation], Operation]:
    """Put a function into the table."""

    def decorate(function: Operation) -> Operation:
        for name in names:
            OPERATIONS[name] = function
        return function

    return decorate


def elementwise(*names: str) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """Put a function of one element's values into the table: the first operand gets the result,
    all others have the instruction's last type."""

    def decorate(function: Callable[..., str]) -> Callable[..., str]:
        def write(code: Code, item: Instruction) -> None:
            kind = item.types[-1]
            target, *rest = item.operands
            values = [code.get(operand, kind.bits) for operand in rest]
            result = by_elements(code, item, kind, values, function)
            code.put(target, kind.bits, result, signed=kind.kind == "s")

        for name in names:
            OPERATIONS[name] = write
        return function

    return decorate


def by_elements(
    code: Code, item: Instruction, kind: Type, values: list[str], function: Callable[..., str]
) -> str:
    """What a function makes of values; of each element where they are packed."""
    if not kind.is_packed:
        return function(code, item, kind, *values)
    element = kind.element
    results = []
    for number in range(kind.bits // element.bits):
        parts = [part(code, value, kind.bits, element.bits, number) for value in values]
        results.append(function(code, item, element, *parts))
    return joined(code, results, element.bits)


def part(code: Code, value: str, width: int, bits: int, number: int) -> str:
    """One of the parts, of `bits` each, of a value of `width`."""
    if number:
        value = code.new(f"lshr i{width} {value}, {number * bits}")
    return code.new(f"trunc i{width} {value} to i{bits}")


def joined(code: Code, parts: list[str], bits: int) -> str:
    """The value of some parts, the lowest first."""
    width = bits * len(parts)
    total = ""
    for number, each in enumerate(parts):
        wide = code.new(f"zext i{bits} {each} to i{width}")
        if number:
            wide = code.new(f"shl i{width} {wide}, {number * bits}")
        total = code.new(f"or i{width} {total}, {wide}") if total else wide
    return total
