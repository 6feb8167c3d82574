"""Arithmetic of float64, and why it is that: for kernels whose data are float32."""

import struct
from collections.abc import Iterator, Mapping

from haulage.compiler.checks.lines import Location, location_of
from haulage.compiler.simt.ir.model import Function, Instruction, Operand
from haulage.forks import cached_property

_OPERATIONS = frozenset(("fadd", "fsub", "fmul", "fdiv", "frem", "fneg", "fcmp"))
_OF_INTEGERS = ("sitofp", "uitofp")
# What a thread's arguments are called.
_ARGUMENT = "%arg."

# The file and the line of a place.
Line = tuple[str, int]


class Doubles:
    """The lines of a function that calculate in float64 by what stands in them: a literal, an
    integer, or an argument. Lines that only go on with what others have made are none.

    `combined` is the function as LLVM leaves it, with its locations: lines that have no such
    arithmetic there are none either.
    """

    def __init__(
        self,
        function: Function,
        locations: Mapping[str, Location],
        combined: Function,
        combined_locations: Mapping[str, Location],
    ) -> None:
        self._function, self._locations = function, locations
        self._left = {
            _line_of(item, combined_locations)
            for item in combined.instructions()
            if _is_double(item)
        }
        self._items = function.items()

    def of(self, label: str) -> dict[Line, tuple[int, str]]:
        """For each such line of a block: how many operations, and why they are float64."""
        return {
            line: (count, "; ".join(self._reasons[line]))
            for line, count in self._operations.get(label, {}).items()
            if line in self._reasons
        }

    @cached_property
    def _operations(self) -> dict[str, dict[Line, int]]:
        found: dict[str, dict[Line, int]] = {}
        for label, block in self._function.blocks.items():
            for item in block.body:
                line = _line_of(item, self._locations)
                if line in self._left and _is_double(item) and not self._tests_divisor(item):
                    of_block = found.setdefault(label, {})
                    of_block[line] = of_block.get(line, 0) + 1
        return found

    @cached_property
    def _reasons(self) -> dict[Line, list[str]]:
        found: dict[Line, dict[str, None]] = {}
        started: set[str] = set()
        for item in self._items.values():
            line = _line_of(item, self._locations)
            if line not in self._left or not _is_double(item) or self._tests_divisor(item):
                continue
            for reason in self._reasons_of(item):
                found.setdefault(line, {})[reason] = None
            # What a variable starts as is told of the first line that has it.
            for start in self._starts_of(item):
                if start not in started or start in found.get(line, {}):
                    found.setdefault(line, {})[start] = None
                started.add(start)
        return {line: [*reasons] for line, reasons in found.items()}

    @cached_property
    def _divisors(self) -> set[str]:
        return {item.operands[1].text for item in self._items.values() if item.opcode == "fdiv"}

    def _tests_divisor(self, item: Instruction) -> bool:
        """Whether it is Numba's own test of what is divided by."""
        return item.opcode == "fcmp" and item.operands[0].text in self._divisors

    def _reasons_of(self, item: Instruction) -> Iterator[str]:
        made = [self._items.get(operand.text) for operand in item.operands]
        integers = [each is not None and each.opcode in _OF_INTEGERS for each in made]
        if item.opcode == "fdiv" and all(integers):
            yield "/ of two integers is float64: write float32(...) around both of them"
            return
        for operand, source, is_integer in zip(item.operands, made, integers, strict=True):
            if operand.type != "double":
                continue
            if is_integer:
                assert source is not None
                yield _of_integer(source.operands[0])
            elif operand.text.startswith(_ARGUMENT):
                name = operand.text.removeprefix(_ARGUMENT).partition(".")[0]
                yield (
                    f"the argument {name} is float64, as Python's floats are: "
                    f"pass np.float32(...), or write float32({name})"
                )
            else:
                value = _literal(operand)
                if value is not None:
                    yield f"{value!r} is float64: write float32({value!r})"

    def _starts_of(self, item: Instruction) -> Iterator[str]:
        for operand in item.operands:
            source = self._items.get(operand.text)
            if operand.type == "double" and source is not None and source.opcode == "phi":
                for value in sorted(self._starts(source)):
                    yield (
                        f"a variable starts as {value!r}, which is float64: "
                        f"start it as float32({value!r})"
                    )

    def _starts(self, phi: Instruction) -> set[float]:
        """The literals that a variable may be."""
        found, seen, waiting = set(), set(), [phi]
        while waiting:
            item = waiting.pop()
            if item.result in seen:
                continue
            seen.add(item.result)
            for operand in item.operands:
                value, source = _literal(operand), self._items.get(operand.text)
                if value is not None:
                    found.add(value)
                elif source is not None and source.opcode == "phi":
                    waiting.append(source)
        return found


def _is_double(item: Instruction) -> bool:
    """Whether it is arithmetic of float64, or a function of that."""
    if item.opcode == "call":
        # No function of LLVM's that is for the compiler alone.
        name = item.callee or ""
        return (item.type == "double" or any(each.type == "double" for each in item.operands)) and (
            not name.startswith(("llvm.dbg", "llvm.lifetime", "llvm.assume"))
        )
    return item.opcode in _OPERATIONS and item.operands[0].type == "double"


def _of_integer(operand: Operand) -> str:
    number = operand.number
    if number is None:
        return "an integer and a float32 give float64: write float32(...) around the integer"
    return f"{number} is an int64, which with a float32 gives float64: write float32({number})"


def _literal(operand: Operand) -> float | None:
    """The number that a constant is; None: it is none."""
    text = operand.text
    if operand.type != "double" or text[:1] == "%":
        return None
    if text.startswith("0x"):
        found: float = struct.unpack(">d", bytes.fromhex(text[2:].rjust(16, "0")))[0]
        return found
    try:
        return float(text)
    except ValueError:
        return None


def _line_of(item: Instruction, locations: Mapping[str, Location]) -> Line:
    at = location_of(item, locations)
    return at.file, at.line
