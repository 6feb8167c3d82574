"""Integers of widths that SPIR-V has not, such as the 65 bits in which LLVM works out a sum that a
loop would make, in terms of those that it has.

Up to 64 bits such an int is one of the next width, with zeros above its own bits; a wider one is
two of 64 bits, the lower first. LLVM's code generator for SPIR-V takes the narrower ones as if they
had as many bits as the next width, which gives other results.
"""

import re

from haulage.compiler.simt.ir import reader, writer
from haulage.compiler.simt.ir.model import Instruction, Operand
from haulage.errors import CompileError

_MULTIPLIED = "_Z6mul_himm"
_DECLARED = f"declare i64 @{_MULTIPLIED}(i64, i64) nounwind willreturn memory(none)"
_KNOWN = (1, 8, 16, 32, 64)
_HALF, _WIDEST = 64, 128
_ODD = re.compile(r"(?<![%\w.@\"-])i(?!(?:1|8|16|32|64)\b)\d+\b")
_SIGNED = frozenset(("sgt", "sge", "slt", "sle", "sdiv", "srem", "ashr"))
_PLAIN = frozenset(("add", "sub", "mul", "and", "or", "xor", "udiv", "urem", "sdiv", "srem"))
_SHIFTS = frozenset(("shl", "lshr", "ashr"))


def with_known_widths(text: str, name: str) -> str:
    """A module's text in which the function `name`, all whose values have names, has ints of 8, 16,
    32 and 64 bits only.

    Raises:
        CompileError: there is an operation on others that nothing is known of.
    """
    lines = reader.definition(text, name)
    body = "\n".join(lines)
    if not any(_ODD.search(line) for line in lines[1:]):
        return text
    function = reader.read(text, name)
    widths = _Widths(name)
    for block in function.blocks.values():
        for item in block.instructions():
            if item.result is not None and (bits := _odd(item.type)):
                widths.name(item.result, bits)
    for block in function.blocks.values():
        phis = [each for item in block.phis for each in widths.changed(item)]
        made = [each for item in block.body for each in widths.changed(item)]
        block.phis, block.body = phis, made
    text = text.replace(body, "\n".join([lines[0], writer.listing(function), "}"]))
    is_known = _MULTIPLIED in text and f" @{_MULTIPLIED}(i64, i64)" not in text
    return f"{text}\n{_DECLARED}\n" if is_known else text


def _odd(kind: str) -> int:
    """The bits of an int type that SPIR-V has not; else 0."""
    if kind[0] != "i" or not kind[1:].isdigit():
        return 0
    bits = int(kind[1:])
    return 0 if bits in _KNOWN else bits


def _width(bits: int) -> int:
    """Of the ints that one of so many bits is made of."""
    return next((each for each in _KNOWN[1:] if each >= bits), _HALF)


class _Widths:
    """Rewrites instructions of a kernel, one by one."""

    def __init__(self, kernel: str) -> None:
        self._kernel = kernel
        self._parts: dict[str, tuple[str, ...]] = {}
        self._lines: list[str] = []
        self._count = 0

    def name(self, result: str, bits: int) -> None:
        """Note that `result`, of so many bits, is to have parts."""
        if bits > _WIDEST:
            raise self._refusal(f"an integer of {bits} bits")
        stem = result[1:].strip('"')
        parts = ("part",) if bits <= _HALF else ("low", "high")
        self._parts[result] = tuple(f'%"{stem}.{part}"' for part in parts)

    def changed(self, item: Instruction) -> list[Instruction]:
        """What comes in the place of an instruction."""
        bits = _odd(item.type) or next((b for each in item.operands if (b := _odd(each.type))), 0)
        if not bits:
            return [item]
        self._lines = []
        if item.opcode == "phi":
            self._phi(item, bits)
        elif item.opcode in ("trunc", "zext", "sext"):
            self._cast(item)
        elif bits <= _HALF:
            self._single(item, bits)
        else:
            self._pair(item, bits)
        return [reader.read_instruction(line) for line in self._lines]

    def _refusal(self, what: str) -> CompileError:
        return CompileError(
            f"kernel {self._kernel}: {what} is needed, and SPIR-V has none of more than 64 bits"
        )

    def _emit(self, how: str, result: str = "") -> str:
        if not result:
            result = f'%"haulage.width.{self._count}"'
            self._count += 1
        self._lines.append(f"{result} = {how}")
        return result

    def _of(self, operand: Operand) -> tuple[str, ...]:
        """The parts of an operand; of one that SPIR-V has, itself."""
        if operand.text in self._parts:
            return self._parts[operand.text]
        bits = _odd(operand.type)
        if not bits:
            return (operand.text,)
        if operand.text in ("undef", "poison"):
            return (operand.text,) * (1 if bits <= _HALF else 2)
        number = operand.number
        assert number is not None, operand
        number &= (1 << bits) - 1
        if bits <= _HALF:
            return (_constant(number, _width(bits)),)
        return _constant(number % (1 << _HALF), _HALF), _constant(number >> _HALF, _HALF)

    def _phi(self, item: Instruction, bits: int) -> None:
        incoming = [self._of(each) for each in item.operands]
        for place, name in enumerate(self._parts[str(item.result)]):
            listed = ", ".join(
                f"[ {parts[place]}, {label} ]"
                for parts, label in zip(incoming, item.sources, strict=True)
            )
            self._emit(f"phi i{_width(bits)} {listed}", name)

    def _masked(self, value: str, bits: int, result: str = "", width: int = 0) -> str:
        """One of a width with zeros above so many bits."""
        width = width or _width(bits)
        if bits == width:
            return self._emit(f"or i{width} {value}, 0", result)
        return self._emit(f"and i{width} {value}, {(1 << bits) - 1}", result)

    def _signed(self, value: str, bits: int, width: int = 0) -> str:
        """One of a width with the sign of a value of so many bits above these."""
        width = width or _width(bits)
        if bits == width:
            return value
        up = self._emit(f"shl i{width} {value}, {width - bits}")
        return self._emit(f"ashr i{width} {up}, {width - bits}")

    def _cast(self, item: Instruction) -> None:
        source, result = item.operands[0], str(item.result)
        given, wanted = int(source.type[1:]), int(item.type[1:])
        parts = self._of(source)
        names = self._parts.get(result, (result,))
        low = parts[0]
        if item.opcode == "sext":
            if len(parts) == 1:
                low = self._resized(self._signed_known(low, given), given, wanted, "sext")
                high = self._emit(f"ashr i{_HALF} {low}, 63") if len(names) > 1 else ""
            else:
                high = self._signed(parts[1], given - _HALF, _HALF)
        else:
            low = self._resized(low, given, wanted, "zext")
            high = parts[1] if len(parts) > 1 else "0"
        if len(names) == 1:
            self._masked_or_known(low, wanted, names[0])
            return
        self._emit(f"or i{_HALF} {low}, 0", names[0])
        self._masked(high, wanted - _HALF, names[1], _HALF)

    def _signed_known(self, value: str, bits: int) -> str:
        return value if bits in _KNOWN else self._signed(value, bits)

    def _masked_or_known(self, value: str, bits: int, result: str) -> None:
        if bits in _KNOWN:
            zero = "false" if bits == 1 else "0"
            self._emit(f"or i{bits} {value}, {zero}", result)
        else:
            self._masked(value, bits, result)

    def _resized(self, value: str, given: int, wanted: int, how: str) -> str:
        """A value in the width of the lower part of an int of `wanted` bits."""
        before = given if given in _KNOWN else _width(given)
        after = wanted if wanted in _KNOWN else _width(wanted)
        if before == after:
            return value
        return self._emit(f"{how if before < after else 'trunc'} i{before} {value} to i{after}")

    def _single(self, item: Instruction, bits: int) -> None:
        opcode, width, result = item.opcode, _width(bits), str(item.result)
        operands = [self._of(each)[0] for each in item.operands]
        word = item.predicate if opcode == "icmp" else opcode
        if word in _SIGNED:
            count = 1 if opcode == "ashr" else len(operands)
            operands[:count] = [self._signed(each, bits) for each in operands[:count]]
        if opcode in _PLAIN or opcode in _SHIFTS:
            value = self._emit(f"{opcode} i{width} {operands[0]}, {operands[1]}")
            self._masked(value, bits, self._parts[result][0])
        elif opcode == "icmp":
            self._emit(f"icmp {item.predicate} i{width} {operands[0]}, {operands[1]}", result)
        elif opcode == "select":
            condition, one, other = operands
            listed = f"i1 {condition}, i{width} {one}, i{width} {other}"
            self._emit(f"select {listed}", self._parts[result][0])
        elif opcode == "freeze":
            self._emit(f"freeze i{width} {operands[0]}", self._parts[result][0])
        elif opcode in ("uitofp", "sitofp"):
            value = self._signed(operands[0], bits) if opcode == "sitofp" else operands[0]
            self._emit(f"{opcode} i{width} {value} to {item.type}", result)
        else:
            raise self._refusal(f"{opcode} of an integer of {bits} bits")

    def _pair(self, item: Instruction, bits: int) -> None:
        opcode, result = item.opcode, str(item.result)
        values = [self._of(each) for each in item.operands]
        if opcode in ("and", "or", "xor"):
            for place, name in enumerate(self._parts[result]):
                self._emit(f"{opcode} i64 {values[0][place]}, {values[1][place]}", name)
            return
        if opcode == "select":
            for place, name in enumerate(self._parts[result]):
                one, other = values[1][place], values[2][place]
                self._emit(f"select i1 {values[0][0]}, i64 {one}, i64 {other}", name)
            return
        if opcode == "freeze":
            for place, name in enumerate(self._parts[result]):
                self._emit(f"freeze i64 {values[0][place]}", name)
            return
        if opcode == "icmp" and item.predicate in ("eq", "ne"):
            differ = [self._emit(f"xor i64 {a}, {b}") for a, b in zip(*values, strict=True)]
            both = self._emit(f"or i64 {differ[0]}, {differ[1]}")
            self._emit(f"icmp {item.predicate} i64 {both}, 0", result)
            return
        if opcode in ("add", "sub", "mul"):
            low, high = getattr(self, f"_{opcode}")(*values)
        elif opcode in ("shl", "lshr") and (by := item.operands[1].number) is not None:
            low, high = self._shifted(opcode, values[0], by)
        else:
            raise self._refusal(f"{opcode} of an integer of {bits} bits")
        names = self._parts[result]
        self._emit(f"or i64 {low}, 0", names[0])
        self._masked(high, bits - _HALF, names[1], _HALF)

    def _add(self, x: tuple[str, str], y: tuple[str, str]) -> tuple[str, str]:
        low = self._emit(f"add i64 {x[0]}, {y[0]}")
        carry = self._emit(f"icmp ult i64 {low}, {x[0]}")
        wide = self._emit(f"zext i1 {carry} to i64")
        high = self._emit(f"add i64 {x[1]}, {y[1]}")
        return low, self._emit(f"add i64 {high}, {wide}")

    def _sub(self, x: tuple[str, str], y: tuple[str, str]) -> tuple[str, str]:
        low = self._emit(f"sub i64 {x[0]}, {y[0]}")
        borrow = self._emit(f"icmp ult i64 {x[0]}, {y[0]}")
        wide = self._emit(f"zext i1 {borrow} to i64")
        high = self._emit(f"sub i64 {x[1]}, {y[1]}")
        return low, self._emit(f"sub i64 {high}, {wide}")

    def _mul(self, x: tuple[str, str], y: tuple[str, str]) -> tuple[str, str]:
        low = self._emit(f"mul i64 {x[0]}, {y[0]}")
        high = self._emit(f"call i64 @{_MULTIPLIED}(i64 {x[0]}, i64 {y[0]})")
        for one, other in ((x[0], y[1]), (x[1], y[0])):
            more = self._emit(f"mul i64 {one}, {other}")
            high = self._emit(f"add i64 {high}, {more}")
        return low, high

    def _shifted(self, opcode: str, x: tuple[str, ...], by: int) -> tuple[str, str]:
        """Shifted to the left, or to the right with zeros from above."""
        near, far = x if opcode == "lshr" else (x[1], x[0])
        back = "shl" if opcode == "lshr" else "lshr"
        if by >= _HALF:
            moved = self._emit(f"{opcode} i64 {far}, {by - _HALF}")
            return (moved, "0") if opcode == "lshr" else ("0", moved)
        if by == 0:
            return x[0], x[1]
        kept = self._emit(f"{opcode} i64 {near}, {by}")
        come = self._emit(f"{back} i64 {far}, {_HALF - by}")
        first = self._emit(f"or i64 {kept}, {come}")
        last = self._emit(f"{opcode} i64 {far}, {by}")
        return (first, last) if opcode == "lshr" else (last, first)


def _constant(number: int, width: int) -> str:
    """A number of so many bits as LLVM writes it."""
    return str(number - (1 << width) if number >> (width - 1) else number)
