"""What PTX text consists of, as the parser gives it: names are resolved, types are sizes."""

from dataclasses import dataclass, field

# Type -> (kind, bits of one element, elements). Kinds: b(its), u(nsigned), s(igned), f(loat), h (16
# bits as IEEE has it), g (bfloat16), p(redicate).
TYPES: dict[str, tuple[str, int, int]] = {
    **{f"{kind}{bits}": (kind, bits, 1) for kind in "bus" for bits in (8, 16, 32, 64)},
    "b128": ("b", 128, 1),
    "f16": ("h", 16, 1),
    "bf16": ("g", 16, 1),
    "f32": ("f", 32, 1),
    "f64": ("f", 64, 1),
    "u16x2": ("u", 16, 2),
    "s16x2": ("s", 16, 2),
    "f16x2": ("h", 16, 2),
    "bf16x2": ("g", 16, 2),
    "f32x2": ("f", 32, 2),
    "pred": ("p", 1, 1),
}


class PTXError(Exception):
    """The text is no PTX that is known here, or says what PTX does not allow."""


@dataclass(frozen=True)
class Type:
    """A type by its name in PTX."""

    name: str

    @property
    def kind(self) -> str:
        return TYPES[self.name][0]

    @property
    def bits(self) -> int:
        """Bits of a value."""
        _, bits, count = TYPES[self.name]
        return bits * count

    @property
    def element(self) -> "Type":
        """The type of one element of a packed value."""
        return Type(self.name.partition("x")[0])

    @property
    def is_packed(self) -> bool:
        return TYPES[self.name][2] > 1

    @property
    def is_float(self) -> bool:
        return self.kind in "fhg"


# ---- operands ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Register:
    """A register of the function, by a name that is unique in it; `negated` for a predicate's
    opposite."""

    name: str
    negated: bool = False


@dataclass(frozen=True)
class Special:
    """A register that is only read: `%tid.x`."""

    name: str


@dataclass(frozen=True)
class Integer:
    value: int


@dataclass(frozen=True)
class Float:
    """A floating-point constant by its bits; `width` is 32 or 64."""

    bits: int
    width: int


@dataclass(frozen=True)
class Symbol:
    """The address of a variable or a function, and bytes behind it."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Address:
    """What brackets hold."""

    base: "Operand"
    offset: int


@dataclass(frozen=True)
class Vector:
    parts: tuple["Operand", ...]


@dataclass(frozen=True)
class Pair:
    """Two results, `d|p`."""

    first: "Operand"
    second: "Operand"


@dataclass(frozen=True)
class List:
    """Operands in parentheses, of a call."""

    parts: tuple["Operand", ...]


@dataclass(frozen=True)
class Sink:
    """A result that nobody wants."""


Operand = Register | Special | Integer | Float | Symbol | Address | Vector | Pair | List | Sink


# ---- statements ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Instruction:
    """`parts` are those of the name between dots: `add`, `rn`, `f32`."""

    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Register | None
    line: int

    @property
    def name(self) -> str:
        return ".".join(self.parts)

    @property
    def types(self) -> tuple[Type, ...]:
        """The types that the name has, in order."""
        return tuple(Type(part) for part in self.parts[1:] if part in TYPES)

    def has(self, *parts: str) -> bool:
        """Whether the name has one of these parts."""
        return any(part in self.parts[1:] for part in parts)


@dataclass(frozen=True)
class Label:
    name: str


@dataclass(frozen=True)
class Variable:
    """A variable of a state space, or a parameter. `values` are integers, `Float`s or `Symbol`s,
    one for each element that has one; None: not initialised. `nbytes` is 0 for an array of unknown
    size. An `extern` one is defined elsewhere, or by the launch."""

    name: str
    space: str
    type: Type
    align: int
    nbytes: int
    values: tuple[Operand, ...] | None = None
    extern: bool = False


@dataclass
class Function:
    """An entry or a device function; `body` is None where it is only declared."""

    name: str
    is_entry: bool
    returns: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    registers: dict[str, Type] = field(default_factory=dict)
    locals: dict[str, Variable] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    limits: dict[str, tuple[int, ...]] = field(default_factory=dict)
    body: list[Instruction | Label] | None = None


@dataclass
class Module:
    """All of a text: variables of the module, those of functions that outlive a call among them,
    and functions."""

    target: str = ""
    version: str = ""
    variables: dict[str, Variable] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
