"""Writes LLVM functions of numbers as expressions: `x * x + 1` adds two instructions to a text.

No operation carries a fast-math flag, so each is rounded as written: on a host with fused products
and sums and on one without, whether or not the loop around it is widened. Only `fma` differs: it is
rounded once where the processor has it, else twice.
"""

import itertools
import struct
from collections.abc import Sequence
from typing import Union

Number = Union["Value", float, int]

# The int type with the bits of a float type.
_BITS = {"double": "i64", "float": "i32"}
_OF_BITS = {"i64": "double", "i32": "float"}
SUFFIXES = {"double": "f64", "float": "f32", "i64": "i64", "i32": "i32"}


class Value:
    """A value of the function that is being written, or a constant, with its LLVM type; in a
    function of vectors the type of its elements."""

    def __init__(self, writer: "Writer", kind: str, text: str) -> None:
        self.writer, self.kind, self.text = writer, kind, text

    def _with(self, other: Number, of_ints: str, of_floats: str, turned: bool = False) -> "Value":
        given = self.writer.value(self.kind, other)
        first, second = (given, self) if turned else (self, given)
        operation = of_floats if self.kind in _BITS else of_ints
        whole = self.writer.type(self.kind)
        return self.writer.emit(self.kind, f"{operation} {whole} {first.text}, {second.text}")

    def __add__(self, other: Number) -> "Value":
        return self._with(other, "add", "fadd")

    __radd__ = __add__

    def __sub__(self, other: Number) -> "Value":
        return self._with(other, "sub", "fsub")

    def __rsub__(self, other: Number) -> "Value":
        return self._with(other, "sub", "fsub", turned=True)

    def __mul__(self, other: Number) -> "Value":
        return self._with(other, "mul", "fmul")

    __rmul__ = __mul__

    def __truediv__(self, other: Number) -> "Value":
        """Of ints: the quotient of unsigned ones."""
        return self._with(other, "udiv", "fdiv")

    def __rtruediv__(self, other: Number) -> "Value":
        return self._with(other, "udiv", "fdiv", turned=True)

    def __and__(self, other: Number) -> "Value":
        return self._with(other, "and", "")

    def __or__(self, other: Number) -> "Value":
        return self._with(other, "or", "")

    def __xor__(self, other: Number) -> "Value":
        return self._with(other, "xor", "")

    def __lshift__(self, other: Number) -> "Value":
        return self._with(other, "shl", "")

    def __rshift__(self, other: Number) -> "Value":
        """Zeros come in from the left."""
        return self._with(other, "lshr", "")

    def __neg__(self) -> "Value":
        return self.writer.emit(self.kind, f"fneg {self.writer.type(self.kind)} {self.text}")

    def _compared(self, other: Number, of_ints: str, of_floats: str) -> "Value":
        given = self.writer.value(self.kind, other)
        word = f"fcmp {of_floats}" if self.kind in _BITS else f"icmp {of_ints}"
        whole = self.writer.type(self.kind)
        return self.writer.emit("i1", f"{word} {whole} {self.text}, {given.text}")

    # Comparisons with a NaN are false, but for `is_not` and `not_at_least`.

    def __lt__(self, other: Number) -> "Value":
        return self._compared(other, "slt", "olt")

    def __gt__(self, other: Number) -> "Value":
        return self._compared(other, "sgt", "ogt")

    def is_(self, other: Number) -> "Value":
        return self._compared(other, "eq", "oeq")

    def is_not(self, other: Number) -> "Value":
        return self._compared(other, "ne", "une")

    def not_at_least(self, other: Number) -> "Value":
        return self._compared(other, "slt", "ult")

    def at_least_unsigned(self, other: Number) -> "Value":
        return self._compared(other, "uge", "")

    def choose(self, then: Number, otherwise: Number) -> "Value":
        """`then` where this flag is set."""
        known = then if isinstance(then, Value) else otherwise
        assert isinstance(known, Value)
        kind = known.kind
        first, second = self.writer.value(kind, then), self.writer.value(kind, otherwise)
        flag, whole = self.writer.type("i1"), self.writer.type(kind)
        return self.writer.emit(
            kind, f"select {flag} {self.text}, {whole} {first.text}, {whole} {second.text}"
        )

    def bits(self) -> "Value":
        """The bits of a float as an int."""
        return self._cast("bitcast", _BITS[self.kind])

    def as_float(self) -> "Value":
        """The float with these bits."""
        return self._cast("bitcast", _OF_BITS[self.kind])

    def to(self, kind: str) -> "Value":
        """As a wider or a narrower float or int; ints without their sign."""
        operations = {
            ("float", "double"): "fpext",
            ("double", "float"): "fptrunc",
            ("i64", "i32"): "trunc",
            ("i32", "i64"): "zext",
        }
        return self._cast(operations[self.kind, kind], kind)

    def signed_to(self, kind: str) -> "Value":
        """The float nearest to a signed int."""
        return self._cast("sitofp", kind)

    def cut_to(self, kind: str) -> "Value":
        """The whole part of a float as a signed int; any int where that has none."""
        made = self._cast("fptosi", kind)
        return self.writer.emit(kind, f"freeze {self.writer.type(kind)} {made.text}")

    def _cast(self, operation: str, kind: str) -> "Value":
        source, made = self.writer.type(self.kind), self.writer.type(kind)
        return self.writer.emit(kind, f"{operation} {source} {self.text} to {made}")


class Writer:
    """One function's instructions, in order. `fused` if the processor has fused products;
    `lanes` is how many numbers the function takes at once, None for a function of scalars."""

    def __init__(self, fused: bool, lanes: int | None = None) -> None:
        self.fused = fused
        self.lanes = lanes
        self.lines: list[str] = []
        self.needs: set[str] = set()  # declarations
        self._numbers = itertools.count()

    def type(self, kind: str) -> str:
        """The LLVM type of a value whose elements are of the type `kind`."""
        return kind if self.lanes is None else f"<{self.lanes} x {kind}>"

    def emit(self, kind: str, text: str) -> Value:
        name = f"%v{next(self._numbers)}"
        self.lines.append(f"  {name} = {text}")
        return Value(self, kind, name)

    def value(self, kind: str, given: Number) -> Value:
        """A value as it is, a number as a constant of the type."""
        if isinstance(given, Value):
            assert given.kind == kind, (given.kind, kind)
            return given
        if kind not in _BITS:
            return self._constant(kind, str(int(given)))
        if kind == "float":
            given = struct.unpack("f", struct.pack("f", given))[0]
        (bits,) = struct.unpack("<Q", struct.pack("<d", given))
        return self._constant(kind, f"0x{bits:016X}")

    def _constant(self, kind: str, text: str) -> Value:
        return Value(self, kind, text if self.lanes is None else f"splat ({kind} {text})")

    def _intrinsic(self, name: str, *values: Value) -> Value:
        kind = values[0].kind
        whole = self.type(kind)
        full = f"llvm.{name}.{'' if self.lanes is None else f'v{self.lanes}'}{SUFFIXES[kind]}"
        self.needs.add(f"declare {whole} @{full}({', '.join(whole for _ in values)})")
        listed = ", ".join(f"{whole} {value.text}" for value in values)
        return self.emit(kind, f"call {whole} @{full}({listed})")

    def sqrt(self, x: Value) -> Value:
        return self._intrinsic("sqrt", x)

    def cut(self, x: Value) -> Value:
        """The whole part of a float."""
        return self._intrinsic("trunc", x)

    def magnitude(self, x: Value) -> Value:
        return self._intrinsic("fabs", x)

    def with_sign(self, size: Value, sign: Value) -> Value:
        return self._intrinsic("copysign", size, sign)

    def fma(self, x: Value, y: Number, z: Number) -> Value:
        """x * y + z, rounded once where the processor does that."""
        if not self.fused:
            return x * y + z
        return self._intrinsic("fma", x, self.value(x.kind, y), self.value(x.kind, z))

    def polynomial(self, coefficients: Sequence[float], x: Value) -> Value:
        """By Estrin's scheme, which leaves less to wait for than Horner's."""
        terms: list[Number] = list(coefficients)
        power = x
        while True:
            pairs = itertools.zip_longest(terms[::2], terms[1::2])
            terms = [low if high is None else self.fma(power, high, low) for low, high in pairs]
            if len(terms) == 1:
                assert isinstance(terms[0], Value)
                return terms[0]
            power = power * power

    # Sums and products with what their rounding leaves out: Dekker, Numerische Mathematik 18,
    # 1971; Knuth, The Art of Computer Programming 2, 4.2.2.

    def two_sum(self, x: Value, y: Value) -> tuple[Value, Value]:
        total = x + y
        part = total - x
        return total, (x - (total - part)) + (y - part)

    def ordered_sum(self, larger: Value, smaller: Value) -> tuple[Value, Value]:
        """`two_sum` of numbers of which the first has the greater exponent, or is zero."""
        total = larger + smaller
        return total, smaller - (total - larger)

    def two_product(self, x: Value, y: Value) -> tuple[Value, Value]:
        """Of doubles below 2**996, whose product is no subnormal number."""
        product = x * y
        if self.fused:
            return product, self.fma(x, y, -product)
        high_x, low_x = self._halves(x)
        high_y, low_y = self._halves(y)
        rest = high_x * high_y - product + high_x * low_y + low_x * high_y
        return product, rest + low_x * low_y

    def _halves(self, x: Value) -> tuple[Value, Value]:
        scaled = x * 134217729.0
        high = scaled - (scaled - x)
        return high, x - high
