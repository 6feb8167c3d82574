"""Writes functions on vectors: a lane for each thread, and masks instead of branches.

Which instructions have a form on vectors LLVM's `isTriviallyVectorizable` tells of intrinsics; all
others are scalarised.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from haulage.compiler.mathematics.definitions import DIVISIONS, is_mathematics
from haulage.compiler.simt.ir.builder import Builder, Typed
from haulage.compiler.simt.ir.model import Instruction, Operand
from haulage.compiler.simt.ir.types import (
    BINARY,
    CASTS,
    COMPARISONS,
    UNARY,
    bits_of,
    element_type,
    size_of,
)

EVERY_LANE = "splat (i1 true)"
NO_LANE = ZERO = "zeroinitializer"

_FORMS = (BINARY | UNARY | COMPARISONS | CASTS) - {"addrspacecast", "ptrtoaddr"} | {
    "select",
    "getelementptr",
}
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
_ELEMENTS = ("i1", "i8", "i16", "i32", "i64", "half", "float", "double", "ptr")
# fmt: on

# The types that a vector may have elements of, and their bytes in memory.
BYTES = {kind: size_of(kind) or 0 for kind in _ELEMENTS}

_Made = TypeVar("_Made")


class VectorBuilder(Builder):
    """A function on vectors of `width` lanes, open in its first block.

    `available` are values that may be used again until another block begins, by what they are.
    """

    def __init__(self, name: str, parameters: Iterable[Typed], result: str, width: int) -> None:
        super().__init__(name, parameters, result, stem="lanes")
        self.width = width
        self.mask_type = self.vector_type("i1")
        # The type of a mask as a number.
        self.bits_type = f"i{width}"
        self.available: dict[object, str] = {}
        self._slots = 0
        self.block("%lanes.start")

    def block(self, label: str) -> None:
        super().block(label)
        self.available = {}

    def once(self, key: object, make: Callable[[], str]) -> str:
        """The available value of a key, or what `make` makes."""
        if key not in self.available:
            self.available[key] = make()
        return self.available[key]

    def choose(
        self, condition: str, one: Callable[[], _Made], other: Callable[[], _Made]
    ) -> list[tuple[_Made, str]]:
        """As `either`; what is available here is so in both, and nothing else behind them."""
        available = self.available

        def with_available(write: Callable[[], _Made]) -> _Made:
            self.available = dict(available)
            return write()

        labels = self.fresh("then"), self.fresh("else"), self.fresh("met")
        made = self.either(
            condition, labels, lambda: with_available(one), lambda: with_available(other)
        )
        self.available = available
        return made

    def slot(self, kind: str) -> str:
        """Memory on the stack for one value, which LLVM's `mem2reg` makes a register."""
        item = Instruction("alloca", "ptr", self.fresh("slot"), source_type=kind)
        assert item.result is not None
        self.function.blocks[self.function.entry].body.insert(self._slots, item)
        self._slots += 1
        return item.result

    # ---- vectors ----------------------------------------------------------------------------

    def vector_type(self, kind: str) -> str:
        return f"<{self.width} x {kind}>"

    def broadcast(self, kind: str, value: str) -> str:
        """A vector that has a scalar, or a constant, in each lane."""
        if value[0] == "%":
            return self.once((kind, value), lambda: self.splat(self.width, kind, value))
        if value in ("null", "zeroinitializer", "poison", "undef"):
            return ZERO if value == "null" else value
        return f"splat ({kind} {value})"

    def linear(self, kind: str, first: str, stride: int) -> str:
        """A vector that has the scalar `first` in its first lane and goes up by `stride`."""
        if not stride:
            return self.broadcast(kind, first)
        return self.once((kind, first, stride), lambda: self._linear(kind, first, stride))

    def _linear(self, kind: str, first: str, stride: int) -> str:
        if kind != "ptr":
            start, offsets = self.broadcast(kind, first), self._multiples(kind, stride)
            return self.binary("add", self.vector_type(kind), start, offsets)
        offsets = self._multiples("i64", stride)
        operands = Operand("ptr", first), Operand(self.vector_type("i64"), offsets)
        kind, name = self.vector_type("ptr"), self.fresh()
        return self.add(Instruction("getelementptr", kind, name, operands, source_type="i8"))

    def _multiples(self, kind: str, stride: int) -> str:
        """The constant vector of each lane's number times `stride`."""
        bits = bits_of(kind)
        assert bits is not None
        numbers = (_signed(lane * stride, bits) for lane in range(self.width))
        return f"<{', '.join(f'{kind} {number}' for number in numbers)}>"

    def insert_lane(self, kind: str, vector: str, value: str, lane: Typed) -> str:
        """A vector with another value in one lane."""
        return self.insert_element(self.vector_type(kind), vector, (kind, value), lane)

    def extract_lane(self, kind: str, vector: str, lane: Typed) -> str:
        """The value of one lane."""
        return self.extract_element(self.vector_type(kind), vector, lane)

    def extract_last(self, kind: str, vector: str, mask: str) -> str:
        """The value of the last active lane."""
        whole = self.bits_type
        arguments = (whole, self.bits(mask)), ("i1", "true")
        above = self.call(whole, f"llvm.ctlz.{whole}", arguments)
        lane = self.binary("sub", whole, str(self.width - 1), above)
        return self.extract_lane(kind, vector, (whole, lane))

    # ---- masks ------------------------------------------------------------------------------

    def lanes_between(self, first: str, end: str) -> str:
        """The mask of the lanes from one, an i32, up to another: a comparison of bytes."""
        kind = "i8" if self.width < 256 else "i16"
        vector, numbers = self.vector_type(kind), self._multiples(kind, 1)
        low = self.broadcast(kind, self.cast("trunc", "i32", first, kind))
        high = self.broadcast(kind, self.cast("trunc", "i32", end, kind))
        above = self.compare("uge", vector, numbers, low)
        return self.logical_and(above, self.compare("ult", vector, numbers, high))

    def bits(self, mask: str) -> str:
        """A mask as a number, the first lane its lowest bit."""
        return self.cast("bitcast", self.mask_type, mask, self.bits_type)

    def any_lane(self, mask: str) -> str:
        """Whether any lane of a mask is on."""
        return self.once(
            ("any", mask), lambda: self.compare("ne", self.bits_type, self.bits(mask), "0")
        )

    def logical_and(self, mask: str, condition: str) -> str:
        """The lanes of `mask` in which `condition` holds; it may be poison in others."""
        return self.blend(mask, "i1", condition, NO_LANE)

    def blend(self, mask: str, kind: str, one: str, other: str) -> str:
        """`one` in the lanes of a mask, `other` in the others."""
        vector = self.vector_type(kind)
        operands = Operand(self.mask_type, mask), Operand(vector, one), Operand(vector, other)
        return self.add(Instruction("select", vector, self.fresh(), operands))

    # ---- memory -----------------------------------------------------------------------------

    def masked_load(self, kind: str, address: str, mask: str, align: int | None = None) -> str:
        """Consecutive elements from `address` on, for the lanes of a mask."""
        return self._read("load", kind, ("ptr", address), mask, align or BYTES[kind])

    def gather(self, kind: str, addresses: str, mask: str, align: int) -> str:
        """The elements at the addresses of the lanes of a mask."""
        return self._read("gather", kind, (self.vector_type("ptr"), addresses), mask, align)

    def masked_store(
        self, kind: str, value: str, address: str, mask: str, align: int | None = None
    ) -> None:
        """Store the lanes of a mask as consecutive elements from `address` on.

        If all are on the store has no mask: with one it takes far longer on some processors.
        """
        align = align or BYTES[kind]
        vector = self._stored(kind, value)
        if mask == EVERY_LANE:
            self.store(*vector, address, align)
            return
        full = self.compare("eq", self.bits_type, self.bits(mask), "-1")
        self.choose(
            full,
            lambda: self.store(*vector, address, align),
            lambda: self._write("store", vector, ("ptr", address), mask, align),
        )

    def scatter(self, kind: str, value: str, addresses: str, mask: str, align: int) -> None:
        """Store the lanes of a mask at their addresses, the first lane first."""
        address = self.vector_type("ptr"), addresses
        self._write("scatter", self._stored(kind, value), address, mask, align)

    def _read(self, name: str, kind: str, address: Typed, mask: str, align: int) -> str:
        vector = self.vector_type(_in_memory(kind))
        callee = f"llvm.masked.{name}.{self.mangled(vector)}.{self.mangled(address[0])}"
        arguments = address, ("i32", str(align)), (self.mask_type, mask), (vector, "poison")
        value = self.call(vector, callee, arguments)
        return self.cast("trunc", vector, value, self.mask_type) if kind == "i1" else value

    def _stored(self, kind: str, value: str) -> Typed:
        """A vector as it is stored."""
        vector = self.vector_type(_in_memory(kind))
        return vector, self.cast("zext", self.mask_type, value, vector) if kind == "i1" else value

    def _write(self, name: str, value: Typed, address: Typed, mask: str, align: int) -> None:
        callee = f"llvm.masked.{name}.{self.mangled(value[0])}.{self.mangled(address[0])}"
        self.call("void", callee, (value, address, ("i32", str(align)), (self.mask_type, mask)))

    def mangled(self, kind: str) -> str:
        """What names of intrinsics call a type."""
        is_vector = kind[0] == "<"
        element = element_type(kind, (0,)) if is_vector else kind
        name = {"float": "f32", "double": "f64", "half": "f16", "ptr": "p0"}.get(element, element)
        return f"v{self.width}{name}" if is_vector else name


def _signed(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) and bits > 1 else number


def _in_memory(kind: str) -> str:
    # A vector of bits would be stored with eight to a byte.
    return "i8" if kind == "i1" else kind


def elementwise(callee: str | None) -> int | None:
    """How many operands stay scalar if a call is made on vectors, or None if it can not be."""
    if callee is None:
        return None
    if is_mathematics(callee):
        return 0
    name, _, suffix = callee.rpartition(".")
    if not name.startswith("llvm.") or suffix[:1] not in ("i", "f") or not suffix[1:].isdigit():
        return None
    return _ELEMENTWISE.get(name.removeprefix("llvm."))


def has_vector_form(item: Instruction) -> bool:
    """Whether an instruction, other than a phi, has a form on vectors."""
    if item.opcode in ("load", "store"):
        if item.stays:
            return False
    elif item.opcode == "call":
        if elementwise(item.callee) is None:
            return False
    elif item.opcode not in _FORMS:
        return False
    types = {operand.type for operand in item.operands}
    return types <= BYTES.keys() and (item.opcode == "store" or item.type in BYTES)


def is_scalarized(item: Instruction) -> bool:
    """Whether an instruction whose lanes differ is done for one lane after the other, as a long
    division is: written out for each lane it would be many times the code, and no faster."""
    if item.opcode == "frem" or not has_vector_form(item):
        return True
    divisor = item.operands[1] if item.opcode in DIVISIONS else None
    if divisor is None:
        return False
    number = divisor.number
    return number in (None, 0, -1) or (divisor.type == "i64" and number & (number - 1) != 0)
