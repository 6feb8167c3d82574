"""Moves and conversions. Source: NVIDIA, PTX ISA, 9.7.9: mov, cvt, cvta, isspacep."""

from doubles.ptx.arithmetic import NANS, canonical, flushed, rounding, saturated
from doubles.ptx.code import LLVM_FLOATS, LOCAL_BIAS, Code
from doubles.ptx.elementwise import joined, operation, part
from doubles.ptx.layout import FORMATS
from doubles.ptx.memory import is_own, is_shared
from doubles.ptx.syntax import Instruction, Type, Vector

_TO_INTEGER = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


@operation("mov")
def move(code: Code, item: Instruction) -> None:
    (kind,) = item.types
    target, source = item.operands
    if isinstance(source, Vector):
        bits = kind.bits // len(source.parts)
        parts = [code.get(each, bits) for each in source.parts]
        code.put(target, kind.bits, joined(code, parts, bits))
    elif isinstance(target, Vector):
        bits = kind.bits // len(target.parts)
        value = code.get(source, kind.bits)
        for number, each in enumerate(target.parts):
            code.put(each, bits, part(code, value, kind.bits, bits, number))
    else:
        code.put(target, kind.bits, code.get(source, kind.bits))


@operation("cvt")
def convert(code: Code, item: Instruction) -> None:
    if item.parts[1] == "pack":
        raise code.error("this form is not known here")
    into, of = item.types
    target, *sources = item.operands
    if into.is_packed:
        # The first operand becomes the upper half.
        high, low = (code.get(source, of.bits) for source in sources)
        parts = [converted(code, item, into.element, of, value) for value in (low, high)]
        code.put(target, into.bits, joined(code, parts, into.element.bits))
        return
    value = converted(code, item, into, of, code.get(sources[0], of.bits))
    code.put(target, into.bits, value, signed=into.kind == "s")


def converted(code: Code, item: Instruction, into: Type, of: Type, value: str) -> str:
    """The bits of a value of one type as another."""
    if item.has("rs", "relu", "satfinite", "scaled"):
        raise code.error("this form is not known here")
    if not of.is_float:
        if into.is_float:
            return _integer_to_float(code, item, into, of, value)
        return _integer_to_integer(code, item, into, of, value)
    value = flushed(code, item, of, value)
    if not into.is_float:
        return _float_to_integer(code, item, into, of, value)
    return _float_to_float(code, item, into, of, value)


def _integer_to_integer(code: Code, item: Instruction, into: Type, of: Type, value: str) -> str:
    # One bit more than either has, so that no value changes on the way.
    wide = max(into.bits, of.bits) + 1
    word = "sext" if of.kind == "s" else "zext"
    value = code.new(f"{word} i{of.bits} {value} to i{wide}")
    if item.has("sat"):
        low, high = (
            (-(1 << (into.bits - 1)), (1 << (into.bits - 1)) - 1)
            if into.kind == "s"
            else (0, (1 << into.bits) - 1)
        )
        for test, limit in (("slt", low), ("sgt", high)):
            beyond = code.new(f"icmp {test} i{wide} {value}, {limit}")
            value = code.new(f"select i1 {beyond}, i{wide} {limit}, i{wide} {value}")
    return code.new(f"trunc i{wide} {value} to i{into.bits}")


def _integer_to_float(code: Code, item: Instruction, into: Type, of: Type, value: str) -> str:
    if of.bits < 64:
        word = "sext" if of.kind == "s" else "zext"
        value = code.new(f"{word} i{of.bits} {value} to i64")
    given = [f"i32 {rounding(item)}", f"i32 {int(of.kind == 's')}", f"i64 {value}"]
    if into.kind in FORMATS:
        number = f"i32 {FORMATS[into.kind]}"
        return code.call("ptx_integer_as_16", "zeroext i16", number, *given)
    name = LLVM_FLOATS[into.bits]
    if rounding(item):
        result = code.call(f"ptx_integer_as_f{into.bits}", name, *given)
    else:
        result = code.new(f"{'sitofp' if of.kind == 's' else 'uitofp'} i64 {value} to {name}")
    return saturated(code, item, into, code.as_bits(result, into))


def _wide(code: Code, of: Type, value: str) -> str:
    """A float of any type as LLVM's double."""
    if of.kind in FORMATS:
        number = f"i32 {FORMATS[of.kind]}"
        return code.call("ptx_widened", "double", number, f"i16 zeroext {value}")
    result = code.as_float(value, of)
    return result if of.bits == 64 else code.new(f"fpext float {result} to double")


def _float_to_integer(code: Code, item: Instruction, into: Type, of: Type, value: str) -> str:
    """Beyond its limits the result is the limit. NaN becomes 0, but where a type has 64 bits the
    highest bit alone."""
    word = next((each for part, each in _TO_INTEGER.items() if item.has(part)), None)
    if word is None:
        raise code.error("how to round is not said")
    wide = _wide(code, of, value)
    whole = code.intrinsic(f"llvm.{word}.f64", "double", f"double {wide}")
    integer, sign = f"i{into.bits}", "s" if into.kind == "s" else "u"
    name = f"llvm.fpto{sign}i.sat.{integer}.f64"
    result = code.intrinsic(name, integer, f"double {whole}")
    if 64 in (into.bits, of.bits):
        no_number = code.new(f"fcmp uno double {wide}, 0.0")
        top = 1 << (into.bits - 1)
        result = code.new(f"select i1 {no_number}, {integer} {top}, {integer} {result}")
    return result


def _float_to_float(code: Code, item: Instruction, into: Type, of: Type, value: str) -> str:
    word = next((each for part, each in _TO_INTEGER.items() if item.has(part)), None)
    if into == of and word is None:
        return saturated(code, item, into, flushed(code, item, into, value))
    wide = _wide(code, of, value)
    if word is not None:
        wide = code.intrinsic(f"llvm.{word}.f64", "double", f"double {wide}")
    if into.kind in FORMATS:
        given = [f"i32 {FORMATS[into.kind]}", f"i32 {rounding(item)}", f"double {wide}"]
        return saturated(code, item, into, code.call("ptx_rounded", "zeroext i16", *given))
    if into.bits == 64:
        result = code.as_bits(wide, into)
        no_number = code.new(f"fcmp uno double {wide}, 0.0")
        result = code.new(f"select i1 {no_number}, i64 {NANS['f64']}, i64 {result}")
        return saturated(code, item, into, result)
    given = [f"i32 {rounding(item)}", f"double {wide}"]
    if rounding(item):
        narrow = code.call("ptx_narrowed", "float", *given)
    else:
        narrow = code.new(f"fptrunc double {wide} to float")
    result = canonical(code, into, flushed(code, item, into, code.as_bits(narrow, into)))
    return saturated(code, item, into, result)


# ---- addresses -----------------------------------------------------------------------------------


@operation("cvta")
def convert_address(code: Code, item: Instruction) -> None:
    """Between an address of a space and one of all memory."""
    target, source = item.operands
    bits = item.types[-1].bits
    value = code.get(source, bits)
    space = next((each for each in item.parts[1:] if each not in ("to", "u64", "u32")), "")
    if bits != 64:
        raise code.error("addresses of 32 bits are not known here")
    sign = -1 if item.has("to") else 1
    space = space.partition("::")[0]
    if space == "shared":
        base = code.field("shared")
        value = code.new(f"{'sub' if sign < 0 else 'add'} i64 {value}, {base}")
    elif space == "local":
        value = code.new(f"sub i64 {value}, {sign * LOCAL_BIAS}")
    elif space not in ("global", "const", "param"):
        raise code.error("this space is not known here")
    code.put(target, 64, value)


@operation("isspacep")
def is_in_space(code: Code, item: Instruction) -> None:
    target, source = item.operands
    value = code.get(source, 64)
    space = item.parts[1].partition("::")[0]
    in_shared, in_local = is_shared(code, value), is_own(code, value)
    if space == "shared":
        result = in_shared
    elif space == "local":
        result = in_local
    elif space == "global":
        either = code.new(f"or i1 {in_shared}, {in_local}")
        result = code.new(f"xor i1 {either}, true")
    else:
        raise code.error("this space is not known here")
    code.put(target, 1, result)
