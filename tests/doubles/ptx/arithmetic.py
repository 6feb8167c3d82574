"""Arithmetic of integers and floats. Source: NVIDIA, PTX ISA, 9.7.1 and 9.7.3 to 9.7.5."""

from doubles.ptx.code import LLVM_FLOATS, Code
from doubles.ptx.elementwise import by_elements, elementwise, operation
from doubles.ptx.integers import minus, multiply_add, plus, product, quotient
from doubles.ptx.layout import ARITHMETIC, FORMATS, ROUNDINGS
from doubles.ptx.syntax import Instruction, Type

NANS = {"f32": 0x7FFFFFFF, "f64": 0x7FF8 << 48, "f16": 0x7FFF, "bf16": 0x7FFF}
_INTRINSIC = {32: "f32", 64: "f64"}


# ---- what floats of all instructions have in common ----------------------------------------------


def rounding(item: Instruction) -> int:
    """The number of the rounding mode that the name has; to nearest, if none."""
    return next((ROUNDINGS[part] for part in item.parts[1:] if part in ROUNDINGS), 0)


def flushed(code: Code, item: Instruction, kind: Type, value: str) -> str:
    """The bits of a float32, zero with its sign if it is subnormal and the name has `ftz`."""
    return without_subnormals(code, value) if kind.name == "f32" and item.has("ftz") else value


def without_subnormals(code: Code, value: str) -> str:
    """The bits of a float32, zero with its sign if it is subnormal."""
    exponent = code.new(f"and i32 {value}, {0x7F800000}")
    small = code.new(f"icmp eq i32 {exponent}, 0")
    sign = code.new(f"and i32 {value}, {1 << 31}")
    return code.new(f"select i1 {small}, i32 {sign}, i32 {value}")


def canonical(code: Code, kind: Type, value: str) -> str:
    """The bits of a float32 with NVIDIA's one NaN for any other."""
    if kind.name != "f32":
        return value
    as_float = code.as_float(value, kind)
    no_number = code.new(f"fcmp uno float {as_float}, 0.0")
    return code.new(f"select i1 {no_number}, i32 {NANS['f32']}, i32 {value}")


def saturated(code: Code, item: Instruction, kind: Type, value: str) -> str:
    """The bits of a float brought to [0, 1] if the name has `sat`; NaN becomes 0."""
    if not item.has("sat"):
        return value
    bits = kind.bits
    one = {"f32": 0x3F800000, "f64": 0x3FF << 52, "f16": 0x3C00, "bf16": 0x3F80}[kind.name]
    infinity = {"f32": 0x7F800000, "f64": 0x7FF << 52, "f16": 0x7C00, "bf16": 0x7F80}[kind.name]
    # As integers, positive floats are in order; negative ones and NaNs become 0.
    negative = code.new(f"icmp slt i{bits} {value}, 0")
    large = code.new(f"icmp ugt i{bits} {value}, {one}")
    no_number = code.new(f"icmp ugt i{bits} {value}, {infinity}")
    result = code.new(f"select i1 {large}, i{bits} {one}, i{bits} {value}")
    zero = code.new(f"or i1 {negative}, {no_number}")
    return code.new(f"select i1 {zero}, i{bits} 0, i{bits} {result}")


def _finished(code: Code, item: Instruction, kind: Type, result: str) -> str:
    result = canonical(code, kind, flushed(code, item, kind, result))
    if item.has("relu"):
        bits = kind.bits
        infinity = {"f16": 0x7C00, "bf16": 0x7F80}[kind.name]
        size = code.new(f"and i{bits} {result}, {(1 << (bits - 1)) - 1}")
        no_number = code.new(f"icmp ugt i{bits} {size}, {infinity}")
        negative = code.new(f"icmp slt i{bits} {result}, 0")
        below = code.new(f"and i1 {negative}, {code.new(f'xor i1 {no_number}, true')}")
        result = code.new(f"select i1 {below}, i{bits} 0, i{bits} {result}")
    return saturated(code, item, kind, result)


def float_operation(
    code: Code, item: Instruction, kind: Type, word: str, values: tuple[str, ...]
) -> str:
    """The bits of a rounded sum, difference, product, quotient, root or fused product and sum."""
    mode = rounding(item)
    values = tuple(flushed(code, item, kind, value) for value in values)
    if kind.kind in FORMATS:
        padded = [f"i16 zeroext {value}" for value in (*values, "0", "0")[:3]]
        given = [f"i32 {FORMATS[kind.kind]}", f"i32 {ARITHMETIC[word]}", f"i32 {mode}"]
        return _finished(
            code, item, kind, code.call("ptx_arithmetic", "zeroext i16", *given, *padded)
        )
    name = LLVM_FLOATS[kind.bits]
    floats = [code.as_float(value, kind) for value in values]
    if mode:
        given = [f"i32 {ARITHMETIC[word]}", f"i32 {mode}"]
        padded = [f"{name} {value}" for value in (*floats, "0.0", "0.0")[:3]]
        result = code.call(f"ptx_f{kind.bits}", name, *given, *padded)
    elif word in ("fma", "sqrt"):
        typed = [f"{name} {value}" for value in floats]
        result = code.intrinsic(f"llvm.{word}.{_INTRINSIC[kind.bits]}", name, *typed)
    else:
        # Without a rounding mode in the name, a product and a sum may become one operation.
        free = "" if item.has("rn") or word == "div" else "contract "
        result = code.new(f"f{word} {free}{name} {floats[0]}, {floats[1]}")
    return _finished(code, item, kind, code.as_bits(result, kind))


# ---- instructions --------------------------------------------------------------------------------


def _mixed(code: Code, item: Instruction) -> None:
    """A sum, difference or fused product and sum whose last operand and result are float32, all
    else of a smaller type; source: 9.7.5."""
    into, narrow = item.types
    target, *rest, last = item.operands
    values = [_widened(code, narrow, code.get(operand, narrow.bits)) for operand in rest]
    values.append(code.get(last, into.bits))
    code.put(target, into.bits, float_operation(code, item, into, item.parts[0], tuple(values)))


def _widened(code: Code, of: Type, value: str) -> str:
    """The bits of a float of 16 bits as a float32."""
    number = f"i32 {FORMATS[of.kind]}"
    wide = code.call("ptx_widened", "double", number, f"i16 zeroext {value}")
    return code.as_bits(code.new(f"fptrunc double {wide} to float"), Type("f32"))


@operation("add", "sub", "div")
def add_or_mixed(code: Code, item: Instruction) -> None:
    if len(item.types) == 2:
        _mixed(code, item)
        return
    kind = item.types[-1]
    target, *rest = item.operands
    values = [code.get(operand, kind.bits) for operand in rest]
    result = by_elements(code, item, kind, values, add)
    code.put(target, kind.bits, result, signed=kind.kind == "s")


def add(code: Code, item: Instruction, kind: Type, a: str, b: str) -> str:
    word = item.parts[0]
    if word == "div" and kind.name == "f32" and item.has("approx", "full"):
        return _approximated(code, item, kind, f"ptx_div_{item.parts[1]}", a, b)
    if kind.is_float:
        return float_operation(code, item, kind, word, (a, b))
    if word == "div":
        return quotient(code, kind, a, b, rest=False)
    if item.has("sat"):
        integer = f"i{kind.bits}"
        name = f"llvm.{kind.kind}{word}.sat.{integer}"
        return code.intrinsic(name, integer, f"{integer} {a}", f"{integer} {b}")
    if word == "add":
        return plus(code, item, kind, a, b, carries=False)
    return minus(code, item, kind, a, b, borrows=False)


@operation("mul")
def multiply(code: Code, item: Instruction) -> None:
    kind = item.types[-1]
    target, a, b = item.operands
    values = [code.get(a, kind.bits), code.get(b, kind.bits)]
    if kind.is_float:
        result = by_elements(code, item, kind, values, add)
        code.put(target, kind.bits, result)
        return
    bits = kind.bits * (2 if item.has("wide") else 1)
    code.put(target, bits, product(code, item, kind, *values), signed=kind.kind == "s")


@operation("fma", "mad")
def fused(code: Code, item: Instruction) -> None:
    kind = item.types[-1]
    if not kind.is_float:
        multiply_add(code, item, kind)
        return
    if len(item.types) == 2:
        _mixed(code, item)
        return
    target, *rest = item.operands
    values = [code.get(operand, kind.bits) for operand in rest]

    def one(code: Code, item: Instruction, kind: Type, *values: str) -> str:
        return float_operation(code, item, kind, "fma", values)

    code.put(target, kind.bits, by_elements(code, item, kind, values, one))


@elementwise("abs", "neg")
def sign(code: Code, item: Instruction, kind: Type, a: str) -> str:
    bits = kind.bits
    if kind.is_float:
        a = flushed(code, item, kind, a)
        if item.parts[0] == "abs":
            return code.new(f"and i{bits} {a}, {(1 << (bits - 1)) - 1}")
        return code.new(f"xor i{bits} {a}, {1 << (bits - 1)}")
    negative = code.new(f"sub i{bits} 0, {a}")
    if item.parts[0] == "neg":
        return negative
    below = code.new(f"icmp slt i{bits} {a}, 0")
    return code.new(f"select i1 {below}, i{bits} {negative}, i{bits} {a}")


@elementwise("min", "max")
def least(code: Code, item: Instruction, kind: Type, a: str, b: str, *more: str) -> str:
    word = item.parts[0]
    if not kind.is_float:
        letter = "s" if kind.kind == "s" else "u"
        integer = f"i{kind.bits}"
        name = f"llvm.{letter}{word}.{integer}"
        return code.intrinsic(name, integer, f"{integer} {a}", f"{integer} {b}")
    result = _least_float(code, item, kind, a, b)
    for other in more:
        result = _least_float(code, item, kind, result, other)
    return result


def _least_float(code: Code, item: Instruction, kind: Type, a: str, b: str) -> str:
    """By the order of the bits, in which -0 is below +0. One NaN gives the other operand, or NaN
    if the name has `NaN`; two give the one NaN."""
    bits, integer = kind.bits, f"i{kind.bits}"
    a, b = (flushed(code, item, kind, value) for value in (a, b))
    parity = ""
    if item.has("xorsign"):
        parity = code.new(f"and {integer} {code.new(f'xor {integer} {a}, {b}')}, {1 << (bits - 1)}")
    if item.has("abs"):
        a, b = (code.new(f"and {integer} {value}, {(1 << (bits - 1)) - 1}") for value in (a, b))
    no_number = [_is_nan(code, kind, value) for value in (a, b)]
    ordered = []
    for value in (a, b):
        negative = code.new(f"ashr {integer} {value}, {bits - 1}")
        turned = code.new(f"and {integer} {negative}, {(1 << (bits - 1)) - 1}")
        ordered.append(code.new(f"xor {integer} {value}, {turned}"))
    test = "slt" if item.parts[0] == "min" else "sgt"
    first = code.new(f"icmp {test} {integer} {ordered[0]}, {ordered[1]}")
    result = code.new(f"select i1 {first}, {integer} {a}, {integer} {b}")
    if parity:
        result = code.new(f"or {integer} {result}, {parity}")
    nan = NANS[kind.name]
    if item.has("NaN"):
        any_nan = code.new(f"or i1 {no_number[0]}, {no_number[1]}")
        return code.new(f"select i1 {any_nan}, {integer} {nan}, {integer} {result}")
    result = code.new(f"select i1 {no_number[0]}, {integer} {b}, {integer} {result}")
    result = code.new(f"select i1 {no_number[1]}, {integer} {a}, {integer} {result}")
    both = code.new(f"and i1 {no_number[0]}, {no_number[1]}")
    return code.new(f"select i1 {both}, {integer} {nan}, {integer} {result}")


def _is_nan(code: Code, kind: Type, value: str) -> str:
    infinity = {"f32": 0x7F800000, "f64": 0x7FF << 52, "f16": 0x7C00, "bf16": 0x7F80}[kind.name]
    size = code.new(f"and i{kind.bits} {value}, {(1 << (kind.bits - 1)) - 1}")
    return code.new(f"icmp ugt i{kind.bits} {size}, {infinity}")


@elementwise("copysign")
def copy_sign(code: Code, item: Instruction, kind: Type, a: str, b: str) -> str:
    """The sign is that of the first operand."""
    integer, top = f"i{kind.bits}", 1 << (kind.bits - 1)
    of_a = code.new(f"and {integer} {a}, {top}")
    of_b = code.new(f"and {integer} {b}, {top - 1}")
    return code.new(f"or {integer} {of_a}, {of_b}")


@elementwise("sqrt")
def root(code: Code, item: Instruction, kind: Type, a: str) -> str:
    if kind.name == "f32" and item.has("approx"):
        return _approximated(code, item, kind, "ptx_sqrt", a)
    return float_operation(code, item, kind, "sqrt", (a,))


@elementwise("rcp")
def reciprocal(code: Code, item: Instruction, kind: Type, a: str) -> str:
    if kind.name == "f64" and item.has("approx"):
        given = f"double {code.as_float(a, kind)}"
        return code.as_bits(code.call("ptx_gross_rcp", "double", given), kind)
    if item.has("approx"):
        return _approximated(code, item, kind, "ptx_rcp", a)
    one = {"f32": 0x3F800000, "f64": 0x3FF << 52}[kind.name]
    return float_operation(code, item, kind, "div", (str(one), a))


_APPROXIMATIONS = ("rsqrt", "sin", "cos", "lg2", "ex2", "tanh")


@elementwise(*_APPROXIMATIONS)
def approximation(code: Code, item: Instruction, kind: Type, a: str) -> str:
    word = item.parts[0]
    if kind.name == "f64":
        if word != "rsqrt":
            raise code.error("there is no such instruction")
        given = f"double {code.as_float(a, kind)}"
        name = "ptx_gross_rsqrt" if item.has("ftz") else "ptx_rsqrt_f64"
        return code.as_bits(code.call(name, "double", given), kind)
    if kind.kind in FORMATS:
        number = FORMATS[kind.kind]
        wide = code.call("ptx_widened", "double", f"i32 {number}", f"i16 zeroext {a}")
        narrow = code.new(f"fptrunc double {wide} to float")
        result = code.call(f"ptx_{word}", "float", f"float {narrow}")
        wide = code.new(f"fpext float {result} to double")
        given = [f"i32 {number}", "i32 0", f"double {wide}"]
        return code.call("ptx_rounded", "zeroext i16", *given)
    return _approximated(code, item, kind, f"ptx_{word}", a)


def _approximated(code: Code, item: Instruction, kind: Type, name: str, *values: str) -> str:
    """The bits of what a function in C makes of some float32."""
    floats = [code.as_float(flushed(code, item, kind, value), kind) for value in values]
    result = code.call(name, "float", *(f"float {value}" for value in floats))
    return _finished(code, item, kind, code.as_bits(result, kind))


@operation("testp")
def test_kind(code: Code, item: Instruction) -> None:
    kind = item.types[-1]
    bits, integer = kind.bits, f"i{kind.bits}"
    fraction = {32: 23, 64: 52}[bits]
    target, a = item.operands
    size = code.new(f"and {integer} {code.get(a, bits)}, {(1 << (bits - 1)) - 1}")
    infinity = (1 << (bits - 1)) - (1 << fraction)
    least_normal = 1 << fraction
    tests = {
        "finite": f"icmp ult {integer} {size}, {infinity}",
        "infinite": f"icmp eq {integer} {size}, {infinity}",
        "number": f"icmp ule {integer} {size}, {infinity}",
        "notanumber": f"icmp ugt {integer} {size}, {infinity}",
    }
    word = item.parts[1]
    if word in tests:
        code.put(target, 1, code.new(tests[word]))
        return
    small = code.new(f"icmp ult {integer} {size}, {least_normal}")
    if word == "normal":
        low = code.new(f"xor i1 {small}, true")
        high = code.new(tests["finite"])
        code.put(target, 1, code.new(f"and i1 {low}, {high}"))
    elif word == "subnormal":
        some = code.new(f"icmp ne {integer} {size}, 0")
        code.put(target, 1, code.new(f"and i1 {small}, {some}"))
    else:
        raise code.error(f"{word} is not known here")
