"""From PTX to a module of LLVM IR for this processor.

Each entry `k` of the text becomes two functions that the CPU device can run as it runs its own
code: `ptx.run.k` for blocks one by one, `ptx.together.k` for blocks that wait for one another.
`ptx.address.v` gives the address of the variable `v`.
"""

from dataclasses import dataclass

from doubles.ptx import arithmetic, comparisons, conversions, integers, meetings, memory
from doubles.ptx.code import LOCAL_BIAS, Code
from doubles.ptx.control import label_of, write
from doubles.ptx.layout import DECLARATIONS
from doubles.ptx.parser import parse
from doubles.ptx.syntax import (
    Float,
    Function,
    Instruction,
    Integer,
    Label,
    Module,
    PTXError,
    Symbol,
    Variable,
)

# What fills the table of instructions.
_ = (arithmetic, comparisons, conversions, integers, meetings, memory)

RUN, TOGETHER, ADDRESS = "ptx.run.", "ptx.together.", "ptx.address."

# Functions that every driver links.
SYSTEM = ("malloc", "free", "vprintf", "__assertfail")
_LEAST_STACK = 48 << 10
# What a thread can have.
_MOST_LOCAL = 512 << 10
# What a block can have that a launch does not ask for.
_MOST_SHARED = 48 << 10
# So many bytes of a thread's own memory are made to look like what nobody has written to.
_FILLED = 4096
_FILL = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"
# What registers have that nobody has written to: as an address, no multiple of anything.
_UNWRITTEN = int("DEADBEE5" * 4, 16)


@dataclass(frozen=True)
class Entry:
    """What is known of an entry: bytes of its parameters, and how many threads its blocks may and
    have to have (None: any number); at which byte each parameter is, and its own bytes."""

    name: str
    parameter_bytes: int
    most_threads: int | None
    block: tuple[int, ...] | None
    parameters: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Translated:
    """The IR, its entries by name, the variables whose addresses it gives, with their bytes, and
    bytes of static shared memory."""

    llvm: str
    entries: dict[str, Entry]
    variables: dict[str, int]
    shared_bytes: int


def translate(text: str) -> Translated:
    """Translate the text of a module.

    Raises:
        PTXError: with the line of what is not known or not allowed.
    """
    return _Translation(parse(text)).done()


def _aligned(offset: int, align: int) -> int:
    return -(-offset // align) * align


class _Translation:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.declarations: set[str] = set()
        self.system: set[str] = set()
        self.has_loads_of_what_stays = any(
            isinstance(item, Instruction) and item.parts[0] == "ld" and item.has("nc")
            for function in module.functions.values()
            for item in function.body or ()
        )
        self._shared: dict[str, int] = {}
        end = 0
        shared = [each for each in module.variables.values() if each.space == "shared"]
        for variable in shared:
            if not variable.extern:
                end = _aligned(end, variable.align)
                self._shared[variable.name] = end
                end += variable.nbytes
        self._shared_bytes = end
        if end > _MOST_SHARED:
            raise PTXError(f"{end} bytes of shared memory; {_MOST_SHARED} is all of a module's own")
        dynamic = [each for each in shared if each.extern]
        if dynamic:
            self._shared_bytes = _aligned(end, max(16, *(each.align for each in dynamic)))
            self._shared.update({each.name: self._shared_bytes for each in dynamic})

    # ---- names, for `Code` -----------------------------------------------------------------------

    def address(self, symbol: Symbol) -> str | None:
        """The address of a variable or function, as a constant."""
        if symbol.name in self._shared:
            return str(self._shared[symbol.name] + symbol.offset)
        name = f'@"ptx.var.{symbol.name}"'
        if symbol.name not in self.module.variables:
            function = self.function(symbol.name)
            if function is None:
                return None
            name = function
        place = f"getelementptr (i8, ptr {name}, i64 {symbol.offset})" if symbol.offset else name
        return f"ptrtoint (ptr {place} to i64)"

    def function(self, name: str) -> str | None:
        """LLVM's name of a function."""
        function = self.module.functions.get(name)
        if function is None:
            return None
        if function.body is None:
            if name not in SYSTEM:
                raise PTXError(f"{name} is declared and nowhere defined")
            self.system.add(name)
        return f'@"ptx.fn.{name}"'

    # ---- the module ------------------------------------------------------------------------------

    def done(self) -> Translated:
        module = self.module
        parts = []
        locals_bytes = 0
        entries = {}
        for function in module.functions.values():
            if function.body is None:
                continue
            parts.append(self._function(function))
            own = sum(each.nbytes for each in function.locals.values())
            if own > _MOST_LOCAL:
                raise PTXError(
                    f"{function.name} has {own} bytes of local memory; {_MOST_LOCAL} is all"
                )
            locals_bytes += own
            if function.is_entry:
                entries[function.name] = _entry(function)
        stack = _LEAST_STACK + 4 * locals_bytes
        parts += [self._runs(name, stack) for name in entries]
        variables = {}
        for variable in module.variables.values():
            if variable.space in ("global", "const"):
                parts.append(self._variable(variable))
                variables[variable.name] = variable.nbytes
                parts.append(
                    f'define ptr @"{ADDRESS}{variable.name}"() {{\n'
                    f'  ret ptr @"ptx.var.{variable.name}"\n}}'
                )
        count = {name: _arguments(module.functions[name]) for name in sorted(self.system)}
        parts += [
            f'declare void @"ptx.fn.{name}"({", ".join(["ptr"] * n)})' for name, n in count.items()
        ]
        self.declarations.add(DECLARATIONS["ptx_run"])
        text = "\n\n".join([*sorted(self.declarations), *parts]) + "\n"
        return Translated(text, entries, variables, self._shared_bytes)

    def _variable(self, variable: Variable) -> str:
        name = f'@"ptx.var.{variable.name}"'
        if variable.extern:
            raise PTXError(f"the variable {variable.name} is declared and nowhere defined")
        align = max(variable.align, 8)
        if variable.values is None:
            return f"{name} = global [{variable.nbytes} x i8] zeroinitializer, align {align}"
        bits = variable.type.bits
        items = [_constant(self, variable, bits, value) for value in variable.values]
        left = variable.nbytes - len(items) * bits // 8
        items += [f"[{left} x i8] zeroinitializer"] if left > 0 else []
        types = [item.split(" ", 1)[0] if item[0] == "i" else f"[{left} x i8]" for item in items]
        return (
            f"{name} = global <{{ {', '.join(types)} }}> <{{ {', '.join(items)} }}>, align {align}"
        )

    def _runs(self, name: str, stack: int) -> str:
        functions = []
        for prefix, together in ((RUN, 0), (TOGETHER, 1)):
            given = f'ptr @"ptx.fn.{name}", i32 {self._shared_bytes}, i64 {stack}, ptr %launch'
            functions.append(
                f'define i64 @"{prefix}{name}"(ptr %launch, i64 %first, i64 %last) {{\n'
                f"  %fault = call i64 @ptx_run({given}, i64 %first, i64 %last, i32 {together})\n"
                "  ret i64 %fault\n}"
            )
        return "\n\n".join(functions)

    # ---- functions -------------------------------------------------------------------------------

    def _function(self, function: Function) -> str:
        code = Code(function, self)
        parameters = ["ptr %thread"]
        if function.is_entry:
            base = code.new(f"inttoptr i64 {code.field('params')} to ptr")
            for variable, offset in _packed(function.parameters):
                code.multiples[variable.name] = offset & -offset or 256
                code.pointers[variable.name] = code.new(
                    f"getelementptr inbounds i8, ptr {base}, i64 {offset}"
                )
        else:
            for number, variable in enumerate((*function.returns, *function.parameters)):
                code.multiples[variable.name] = variable.align
                code.pointers[variable.name] = f"%given{number}"
                parameters.append(f"ptr %given{number}")
        for variable in function.locals.values():
            room = code.new(f"alloca [{variable.nbytes} x i8], align {max(variable.align, 8)}")
            if variable.space == "param":
                code.multiples[variable.name] = variable.align
                code.pointers[variable.name] = room
            else:
                address = code.new(f"ptrtoint ptr {room} to i64")
                code.places[variable.name] = code.new(f"add i64 {address}, {LOCAL_BIAS}")
                count = min(variable.nbytes, _FILLED)
                self.declarations.add(_FILL)
                code.do(
                    f"call void @llvm.memset.p0.i64(ptr {room}, i8 {0xA5}, i64 {count}, i1 false)"
                )
        assert function.body is not None
        for item in function.body:
            if isinstance(item, Label):
                code.go(label_of(item.name))
                code.label(label_of(item.name))
            else:
                write(code, item)
        registers = []
        for name, kind in function.registers.items():
            registers.append(f'  %"{name}" = alloca i{kind.bits}')
            # Nobody has written to it yet.
            unwritten = _UNWRITTEN & (1 << kind.bits) - 1
            code.rooms.append(f'  store i{kind.bits} {unwritten}, ptr %"{name}"')
        return "\n".join(
            [
                f'define internal void @"ptx.fn.{function.name}"({", ".join(parameters)}) '
                "nounwind {",
                *registers,
                *code.rooms,
                "  %carry = alloca i1",
                *code.lines,
                "  ret void",
                "}",
            ]
        )


def _constant(translation: _Translation, variable: Variable, bits: int, value: object) -> str:
    if isinstance(value, Integer):
        return f"i{bits} {value.value & (1 << bits) - 1}"
    if isinstance(value, Float):
        if value.width != bits:
            raise PTXError(f"{variable.name}: a constant of {value.width} bits for one of {bits}")
        return f"i{bits} {value.bits}"
    if isinstance(value, Symbol) and bits == 64:
        address = translation.address(value)
        if address is not None:
            return f"i64 {address}"
    raise PTXError(f"{variable.name}: {value} cannot be what it begins with")


def _packed(parameters: tuple[Variable, ...]) -> list[tuple[Variable, int]]:
    """Where a C structure has parameters."""
    found, end = [], 0
    for variable in parameters:
        end = _aligned(end, variable.align)
        found.append((variable, end))
        end += variable.nbytes
    return found


def _entry(function: Function) -> Entry:
    packed = _packed(function.parameters)
    end = packed[-1][1] + packed[-1][0].nbytes if packed else 0
    most = function.limits.get("maxntid")
    product = None
    if most is not None:
        product = 1
        for size in most:
            product *= size
    places = tuple((offset, variable.nbytes) for variable, offset in packed)
    return Entry(function.name, end, product, function.limits.get("reqntid"), places)


def _arguments(function: Function) -> int:
    return 1 + len(function.returns) + len(function.parameters)
