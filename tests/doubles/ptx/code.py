"""LLVM IR of one PTX function on its way: lines, registers, and how operands are read and written.

A PTX register is a variable on the stack, which LLVM makes a value of. All values are integers of
the bits that an instruction takes; instructions on floats convert them for themselves.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from doubles.ptx.layout import DECLARATIONS, FIELDS
from doubles.ptx.syntax import (
    Float,
    Function,
    Instruction,
    Integer,
    Operand,
    PTXError,
    Register,
    Sink,
    Special,
    Symbol,
    Type,
)

# What the addresses of a thread's own memory are more than those of the processor, so that one that
# `cvta` was forgotten for reaches nothing.
LOCAL_BIAS = 1 << 60

LLVM_FLOATS = {32: "float", 64: "double"}


class Names(Protocol):
    """The module around a function."""

    declarations: set[str]
    # Whether something is loaded as memory that stays as it is during a launch.
    has_loads_of_what_stays: bool

    def address(self, symbol: Symbol) -> str | None:
        """The 64-bit value of the address of the module's variable or function in its own space;
        None if it has none of that name."""

    def function(self, name: str) -> str | None:
        """LLVM's name of the module's function."""


class Code:
    """The text of a function as it is written."""

    def __init__(self, function: Function, names: Names) -> None:
        self.function = function
        self.names = names
        self.lines: list[str] = []
        # What the function's first block makes room for.
        self.rooms: list[str] = []
        # Variable of the function, by name -> 64-bit value of its address in its own space.
        self.places: dict[str, str] = {}
        # Parameter, or variable in that space -> LLVM's pointer to it.
        self.pointers: dict[str, str] = {}
        # The same -> what its address is a multiple of.
        self.multiples: dict[str, int] = {}
        self.instruction: Instruction | None = None
        self._count = 0

    # ---- text ------------------------------------------------------------------------------------

    def do(self, line: str) -> None:
        """Add a line."""
        self.lines.append("  " + line)

    def new(self, text: str) -> str:
        """A new value, given by the text of an instruction."""
        self._count += 1
        name = f"%v{self._count}"
        self.lines.append(f"  {name} = {text}")
        return name

    def room(self, bits: int) -> str:
        """A pointer to a variable of its own for each instruction."""
        self._count += 1
        name = f"%room{self._count}"
        self.rooms.append(f"  {name} = alloca i{bits}")
        return name

    def fresh(self, stem: str) -> str:
        """A label that is not in use."""
        self._count += 1
        return f"{stem}.{self._count}"

    def label(self, name: str) -> None:
        """Begin the block of that name."""
        self.lines.append(f'"{name}":')

    def go(self, label: str) -> None:
        """End a block with a jump."""
        self.do(f'br label %"{label}"')

    def branch(self, condition: str, yes: str, no: str) -> None:
        """End a block with a choice."""
        self.do(f'br i1 {condition}, label %"{yes}", label %"{no}"')

    @contextmanager
    def only_if(self, condition: str) -> Iterator[None]:
        """What is written meanwhile is run only if a condition holds."""
        inside, behind = self.fresh("then"), self.fresh("behind")
        self.branch(condition, inside, behind)
        self.label(inside)
        yield
        self.go(behind)
        self.label(behind)

    def call(self, name: str, kind: str, *arguments: str) -> str:
        """A call of a function in C; `arguments` with their types. The result, if there is one."""
        assert name in DECLARATIONS, name
        self.names.declarations.add(DECLARATIONS[name])
        text = f"call {kind} @{name}({', '.join(arguments)})"
        if kind == "void":
            self.do(text)
            return ""
        return self.new(text)

    def intrinsic(self, name: str, kind: str, *arguments: str) -> str:
        """A call of an intrinsic of LLVM's whose arguments have these types and values."""
        types = ", ".join(argument.rsplit(" ", 1)[0] for argument in arguments)
        self.names.declarations.add(f"declare {kind} @{name}({types})")
        return self.new(f"call {kind} @{name}({', '.join(arguments)})")

    def field(self, name: str) -> str:
        """A field of the thread."""
        offset, kind = FIELDS[name]
        at = self.new(f"getelementptr inbounds i8, ptr %thread, i64 {offset}")
        return self.new(f"load {kind}, ptr {at}, align 4")

    def error(self, what: str) -> PTXError:
        """An error that names the instruction."""
        assert self.instruction is not None
        where = f"{self.function.name}, line {self.instruction.line}"
        return PTXError(f"{where}: {self.instruction.name}: {what}")

    @property
    def line(self) -> int:
        assert self.instruction is not None
        return self.instruction.line

    # ---- operands --------------------------------------------------------------------------------

    def width(self, operand: Operand) -> int | None:
        """Bits of a register; None for what has as many as are asked for."""
        if isinstance(operand, Register):
            return self.function.registers[operand.name].bits
        return None

    def get(self, operand: Operand, bits: int) -> str:
        """The lower bits of an operand: an integer value of that width."""
        if isinstance(operand, Register):
            return self._register(operand, bits)
        if isinstance(operand, Integer):
            value = operand.value & (1 << bits) - 1
            return str(value) if bits > 1 else str(bool(value)).lower()
        if isinstance(operand, Float):
            if operand.width != bits:
                raise self.error(f"a constant of {operand.width} bits, where {bits} are due")
            return str(operand.bits)
        if isinstance(operand, Special):
            return self._resized(*self._special(operand.name), bits)
        if isinstance(operand, Symbol):
            return self._resized(self.address(operand), 64, bits)
        raise self.error(f"{operand} is no operand here")

    def get_float(self, operand: Operand, kind: Type) -> str:
        """An operand as LLVM's float or double; a decimal constant is taken for either."""
        return self.as_float(self.get(operand, kind.bits), kind)

    def put(self, operand: Operand, bits: int, value: str, *, signed: bool = False) -> None:
        """Write to a register; a wider one is filled with zeros or the sign."""
        if isinstance(operand, Sink):
            return
        if not isinstance(operand, Register) or operand.negated:
            raise self.error(f"{operand} cannot be written to")
        width = self.function.registers[operand.name].bits
        if width < bits:
            raise self.error(f"{bits} bits do not fit {operand.name}, which has {width}")
        if width > bits:
            value = self.new(f"{'sext' if signed else 'zext'} i{bits} {value} to i{width}")
        self.do(f'store i{width} {value}, ptr %"{operand.name}"')

    def _register(self, operand: Register, bits: int) -> str:
        width = self.function.registers[operand.name].bits
        value = self.new(f'load i{width}, ptr %"{operand.name}"')
        if operand.negated:
            value = self.new(f"xor i1 {value}, true")
        if width < bits:
            raise self.error(f"{operand.name} has {width} bits, where {bits} are due")
        return value if width == bits else self.new(f"trunc i{width} {value} to i{bits}")

    def _resized(self, value: str, width: int, bits: int) -> str:
        if width == bits:
            return value
        return self.new(f"{'trunc' if width > bits else 'zext'} i{width} {value} to i{bits}")

    def address(self, symbol: Symbol) -> str:
        """The address of a variable or function in its own space."""
        place = self.places.get(symbol.name)
        if place is None and symbol.name in self.pointers:
            place = self.new(f"ptrtoint ptr {self.pointers[symbol.name]} to i64")
        if place is None:
            found = self.names.address(Symbol(symbol.name))
            if found is None:
                raise self.error(f"there is no {symbol.name}")
            place = found
        return self.new(f"add i64 {place}, {symbol.offset}") if symbol.offset else place

    def _special(self, name: str) -> tuple[str, int]:
        """(value, bits) of a special register."""
        short = name.lstrip("%")
        if short in FIELDS:
            return self.field(short), 32
        if short in ("WARP_SZ", "nsmid"):
            return ("32" if short == "WARP_SZ" else "1"), 32
        if short == "smid":
            return "0", 32
        if short == "gridid":
            return "1", 64
        if short.startswith("lanemask_"):
            return self._lanes(short[9:]), 32
        if short.startswith("clock"):
            ticks = self.intrinsic("llvm.readcyclecounter", "i64")
            return self._part(ticks, short[5:])
        if short.startswith("globaltimer"):
            nanoseconds = self.call("ptx_nanoseconds", "i64")
            return self._part(nanoseconds, short[11:] or "64")
        raise self.error(f"{name} is no register that is known here")

    def _part(self, value: str, which: str) -> tuple[str, int]:
        if which == "64":
            return value, 64
        if which == "_hi":
            value = self.new(f"lshr i64 {value}, 32")
        return self.new(f"trunc i64 {value} to i32"), 32

    def _lanes(self, which: str) -> str:
        lane = self.field("laneid")
        own = self.new(f"shl i32 1, {lane}")
        below = self.new(f"sub i32 {own}, 1")
        if which in ("eq", "lt"):
            return own if which == "eq" else below
        if which == "ge":
            return self.new(f"xor i32 {below}, -1")
        up_to = self.new(f"or i32 {below}, {own}")
        return up_to if which == "le" else self.new(f"xor i32 {up_to}, -1")

    # ---- floats ----------------------------------------------------------------------------------

    def as_float(self, value: str, kind: Type) -> str:
        """LLVM's float or double with these bits."""
        return self.new(f"bitcast i{kind.bits} {value} to {LLVM_FLOATS[kind.bits]}")

    def as_bits(self, value: str, kind: Type) -> str:
        """The bits of LLVM's float or double."""
        return self.new(f"bitcast {LLVM_FLOATS[kind.bits]} {value} to i{kind.bits}")
