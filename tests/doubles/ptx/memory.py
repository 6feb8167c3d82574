"""Loads, stores and atomic operations. Source: NVIDIA, PTX ISA, 8 and 9.7.9, 9.7.13.

Each access is checked to be at a multiple of its size, as hardware does, one of shared memory to be
inside of it, and one of global memory not to be of a block's or a thread's own. What is loaded as
memory that stays as it is may not have been written by the same launch.
"""

from collections.abc import Callable

from doubles.ptx.arithmetic import canonical, float_operation, without_subnormals
from doubles.ptx.code import LLVM_FLOATS, LOCAL_BIAS, Code
from doubles.ptx.elementwise import by_elements, operation
from doubles.ptx.layout import SPACES
from doubles.ptx.syntax import Address, Instruction, Operand, Symbol, Type, Vector

_SPACES = ("global", "shared", "local", "const", "param")
# Order of PTX -> (LLVM's, LLVM's for an exchange that fails).
_ORDERS = {
    "relaxed": ("monotonic", "monotonic"),
    "acquire": ("acquire", "acquire"),
    "release": ("release", "monotonic"),
    "acq_rel": ("acq_rel", "acquire"),
}
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
# Where nothing is.
_FIRST_PAGE = 4096


def _space(item: Instruction) -> str:
    for part in item.parts[1:]:
        name = part.partition("::")[0]
        if name in _SPACES:
            return name
    return "generic"


def pointer(code: Code, item: Instruction, operand: Operand, nbytes: int) -> str:
    """LLVM's pointer to what brackets name, checked for an access of so many bytes."""
    if not isinstance(operand, Address):
        raise code.error(f"{operand} is no address")
    space = _space(item)
    base = operand.base
    if space == "param" and isinstance(base, Symbol):
        if base.name not in code.pointers:
            raise code.error(f"there is no parameter {base.name}")
        if operand.offset % nbytes or code.multiples[base.name] % nbytes:
            raise code.error(f"{nbytes} bytes at an address that need be no multiple")
        at = code.pointers[base.name]
        return code.new(f"getelementptr inbounds i8, ptr {at}, i64 {operand.offset}")
    width = code.width(base) or 64
    address = code.get(base, width)
    if width == 32:
        address = code.new(f"zext i32 {address} to i64")
    if operand.offset:
        address = code.new(f"add i64 {address}, {operand.offset}")
    conditions = []
    if nbytes > 1:
        rest = code.new(f"and i64 {address}, {nbytes - 1}")
        conditions.append(code.new(f"icmp ne i64 {rest}, 0"))
    if space == "shared":
        room = code.new(f"zext i32 {code.field('total_smem_size')} to i64")
        left = code.new(f"sub i64 {room}, {address}")
        conditions.append(code.new(f"icmp uge i64 {address}, {room}"))
        conditions.append(code.new(f"icmp ult i64 {left}, {nbytes}"))
    elif space == "global":
        conditions += [is_shared(code, address), is_own(code, address)]
        conditions.append(code.new(f"icmp ult i64 {address}, {_FIRST_PAGE}"))
    elif space == "generic" and item.parts[0] in ("atom", "red"):
        conditions.append(is_own(code, address))
    if conditions:
        _refuse_if(code, conditions, space, address, nbytes)
    if space == "shared":
        address = code.new(f"add i64 {code.field('shared')}, {address}")
    elif space == "local":
        address = code.new(f"sub i64 {address}, {LOCAL_BIAS}")
    return code.new(f"inttoptr i64 {address} to ptr")


def is_shared(code: Code, address: str) -> str:
    """Whether an address of all memory is one of the block's shared memory."""
    count = code.new(f"zext i32 {code.field('total_smem_size')} to i64")
    offset = code.new(f"sub i64 {address}, {code.field('shared')}")
    return code.new(f"icmp ult i64 {offset}, {count}")


def is_own(code: Code, address: str) -> str:
    """Whether an address of all memory is one of the thread's own."""
    low, high = code.field("stack_low"), code.field("stack_high")
    offset, count = code.new(f"sub i64 {address}, {low}"), code.new(f"sub i64 {high}, {low}")
    return code.new(f"icmp ult i64 {offset}, {count}")


def _refuse_if(code: Code, conditions: list[str], space: str, address: str, nbytes: int) -> None:
    condition = conditions[0]
    for other in conditions[1:]:
        condition = code.new(f"or i1 {condition}, {other}")
    bad, good = code.fresh("bad"), code.fresh("good")
    code.branch(condition, bad, good)
    code.label(bad)
    number = SPACES.get(space, 0)
    given = [f"i32 {code.line}", f"i32 {number}", f"i64 {address}", f"i32 {nbytes}"]
    code.call("ptx_bad_access", "void", "ptr %thread", *given)
    code.do("unreachable")
    code.label(good)


def _parts(code: Code, item: Instruction, operand: Operand) -> tuple[Operand, ...]:
    count = next((number for part, number in _VECTORS.items() if item.has(part)), 1)
    parts = operand.parts if isinstance(operand, Vector) else (operand,)
    if len(parts) != count:
        raise code.error(f"{len(parts)} values where {count} are due")
    return parts


def _is_watched(item: Instruction) -> bool:
    """Whether others may change, or wait for, what is accessed."""
    return item.has("volatile", "relaxed", "acquire", "release", "mmio")


@operation("ld", "ldu")
def load(code: Code, item: Instruction) -> None:
    kind = item.types[-1]
    target, source = item.operands[:2]
    parts = _parts(code, item, target)
    nbytes = kind.bits // 8
    at = pointer(code, item, source, nbytes * len(parts))
    order = "acquire" if item.has("acquire") else "monotonic"
    if _is_watched(item):
        code.call("ptx_patience", "void", "ptr %thread")
    if item.has("nc"):
        given = [f"ptr {at}", f"i32 {nbytes * len(parts)}", f"i32 {code.line}"]
        code.call("ptx_stays", "void", "ptr %thread", *given)
    for number, each in enumerate(parts):
        place = at
        if number:
            place = code.new(f"getelementptr inbounds i8, ptr {at}, i64 {number * nbytes}")
        if _is_watched(item):
            value = code.new(f"load atomic i{kind.bits}, ptr {place} {order}, align {nbytes}")
        else:
            value = code.new(f"load i{kind.bits}, ptr {place}, align {nbytes}")
        code.put(each, kind.bits, value, signed=kind.kind == "s")


@operation("st")
def store(code: Code, item: Instruction) -> None:
    kind = item.types[-1]
    target, source = item.operands[:2]
    parts = _parts(code, item, source)
    nbytes = kind.bits // 8
    at = pointer(code, item, target, nbytes * len(parts))
    order = "release" if item.has("release") else "monotonic"
    for number, each in enumerate(parts):
        value = code.get(each, kind.bits)
        place = at
        if number:
            place = code.new(f"getelementptr inbounds i8, ptr {at}, i64 {number * nbytes}")
        if code.names.has_loads_of_what_stays:
            # What a store leaves as it was is no matter to a load.
            before = code.new(f"load i{kind.bits}, ptr {place}, align {nbytes}")
            changes = code.new(f"icmp ne i{kind.bits} {before}, {value}")
            changed = code.new(f"select i1 {changes}, i32 {nbytes}, i32 0")
            _note_write(code, item, place, changed)
        if _is_watched(item):
            code.do(f"store atomic i{kind.bits} {value}, ptr {place} {order}, align {nbytes}")
        else:
            code.do(f"store i{kind.bits} {value}, ptr {place}, align {nbytes}")


def _note_write(code: Code, item: Instruction, at: str, nbytes: str) -> None:
    """Keep in mind what a launch writes, if it loads something that has to stay as it is."""
    if code.names.has_loads_of_what_stays and _space(item) in ("global", "generic"):
        code.call("ptx_wrote", "void", "ptr %thread", f"ptr {at}", f"i32 {nbytes}")


@operation("prefetch", "prefetchu", "applypriority", "discard")
def hint(code: Code, item: Instruction) -> None:
    """Nothing is seen of it."""


# ---- atomic operations ---------------------------------------------------------------------------

_ATOMICS = ("and", "or", "xor", "cas", "exch", "add", "inc", "dec", "min", "max")
_LLVM_ATOMICS = {
    "and": "and",
    "or": "or",
    "xor": "xor",
    "exch": "xchg",
    "add": "add",
    "inc": "uinc_wrap",
    "dec": "udec_wrap",
}


@operation("atom", "red")
def atomic(code: Code, item: Instruction) -> None:
    """`inc` goes back to 0 behind its operand, `dec` to its operand behind 0."""
    kind = item.types[-1]
    target: Operand | None = None
    operands = list(item.operands)
    if item.parts[0] == "atom":
        target = operands.pop(0)
    if any(item.has(part) for part in _VECTORS):
        raise code.error("vectors are not known here")
    word = next((part for part in item.parts[1:] if part in _ATOMICS), "")
    at = pointer(code, item, operands[0], kind.bits // 8)
    _note_write(code, item, at, f"{kind.bits // 8}")
    values = [code.get(operand, kind.bits) for operand in operands[1:]]
    order, failing = next(
        (each for part, each in _ORDERS.items() if item.has(part)), ("monotonic", "monotonic")
    )
    if target is not None:
        code.call("ptx_patience", "void", "ptr %thread")
    integer = f"i{kind.bits}"
    if word == "cas":
        pair = code.new(
            f"cmpxchg ptr {at}, {integer} {values[0]}, {integer} {values[1]} {order} {failing}"
        )
        old = code.new(f"extractvalue {{ {integer}, i1 }} {pair}, 0")
    elif word == "add" and kind.kind in "hg":

        def total(old: str) -> str:
            def one(code: Code, item: Instruction, kind: Type, *values: str) -> str:
                return float_operation(code, item, kind, "add", values)

            return by_elements(code, item, kind, [old, values[0]], one)

        old = _again_and_again(code, at, kind.bits, total)
    elif kind.is_float and word != "add":
        raise code.error("there is no such instruction")
    elif kind.name == "f32" and _space(item) != "shared":
        old = _again_and_again(code, at, kind.bits, lambda old: _sum(code, at, old, values[0]))
    elif kind.is_float:
        name = LLVM_FLOATS[kind.bits]
        value = code.as_float(values[0], kind)
        old = code.as_bits(code.new(f"atomicrmw fadd ptr {at}, {name} {value} {order}"), kind)
    elif word in ("min", "max"):
        letter = "" if kind.kind == "s" else "u"
        old = code.new(f"atomicrmw {letter}{word} ptr {at}, {integer} {values[0]} {order}")
    elif word in _LLVM_ATOMICS:
        name = _LLVM_ATOMICS[word]
        old = code.new(f"atomicrmw {name} ptr {at}, {integer} {values[0]} {order}")
    else:
        raise code.error("there is no such instruction")
    if target is not None:
        code.put(target, kind.bits, old, signed=kind.kind == "s")


def _sum(code: Code, at: str, a: str, b: str) -> str:
    """The bits of a sum of two float32, as memory at a place makes it: subnormal numbers are zeros
    unless it is shared memory."""
    kind = Type("f32")
    address = code.new(f"ptrtoint ptr {at} to i64")
    keeps = is_shared(code, address)

    def as_memory_has(value: str) -> str:
        return code.new(f"select i1 {keeps}, i32 {value}, i32 {without_subnormals(code, value)}")

    left, right = (code.as_float(as_memory_has(value), kind) for value in (a, b))
    total = code.as_bits(code.new(f"fadd float {left}, {right}"), kind)
    return as_memory_has(canonical(code, kind, total))


def _again_and_again(code: Code, at: str, bits: int, changed: Callable[[str], str]) -> str:
    """Exchange what is in memory for what a function makes of it; what it was before."""
    integer = f"i{bits}"
    begin, turn, behind = (code.fresh(stem) for stem in ("begin", "turn", "behind"))
    code.go(begin)
    code.label(begin)
    first = code.new(f"load atomic {integer}, ptr {at} monotonic, align {bits // 8}")
    room = code.room(bits)
    code.do(f"store {integer} {first}, ptr {room}")
    code.go(turn)
    code.label(turn)
    old = code.new(f"load {integer}, ptr {room}")
    new = changed(old)
    pair = code.new(f"cmpxchg ptr {at}, {integer} {old}, {integer} {new} acq_rel acquire")
    now = code.new(f"extractvalue {{ {integer}, i1 }} {pair}, 0")
    code.do(f"store {integer} {now}, ptr {room}")
    code.branch(code.new(f"extractvalue {{ {integer}, i1 }} {pair}, 1"), behind, turn)
    code.label(behind)
    return old


@operation("membar", "fence")
def fence(code: Code, item: Instruction) -> None:
    code.do("fence seq_cst")
