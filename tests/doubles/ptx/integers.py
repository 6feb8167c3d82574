"""Instructions on integers and bits. Source: NVIDIA, PTX ISA, 9.7.1, 9.7.2, 9.7.7 and 9.7.8."""

from doubles.ptx.code import Code
from doubles.ptx.elementwise import elementwise, operation
from doubles.ptx.layout import PERMUTATIONS
from doubles.ptx.syntax import Instruction, Integer, Pair, Type

_CARRY = "%carry"


def plus(code: Code, item: Instruction, kind: Type, a: str, b: str, *, carries: bool) -> str:
    """A sum, with the carry flag if `carries`; sets the flag if the name has `cc`."""
    integer = f"i{kind.bits}"
    total = code.new(f"add {integer} {a}, {b}")
    out = code.new(f"icmp ult {integer} {total}, {a}")
    if carries:
        flag = code.new(f"load i1, ptr {_CARRY}")
        one = code.new(f"zext i1 {flag} to {integer}")
        with_flag = code.new(f"add {integer} {total}, {one}")
        again = code.new(f"icmp ult {integer} {with_flag}, {total}")
        out = code.new(f"or i1 {out}, {again}")
        total = with_flag
    if item.has("cc"):
        code.do(f"store i1 {out}, ptr {_CARRY}")
    return total


def minus(code: Code, item: Instruction, kind: Type, a: str, b: str, *, borrows: bool) -> str:
    """A difference; the carry flag is the borrow."""
    integer = f"i{kind.bits}"
    rest = code.new(f"sub {integer} {a}, {b}")
    out = code.new(f"icmp ult {integer} {a}, {b}")
    if borrows:
        flag = code.new(f"load i1, ptr {_CARRY}")
        one = code.new(f"zext i1 {flag} to {integer}")
        again = code.new(f"icmp ult {integer} {rest}, {one}")
        rest = code.new(f"sub {integer} {rest}, {one}")
        out = code.new(f"or i1 {out}, {again}")
    if item.has("cc"):
        code.do(f"store i1 {out}, ptr {_CARRY}")
    return rest


@elementwise("addc", "subc")
def with_carry(code: Code, item: Instruction, kind: Type, a: str, b: str) -> str:
    if item.parts[0] == "addc":
        return plus(code, item, kind, a, b, carries=True)
    return minus(code, item, kind, a, b, borrows=True)


def _extended(code: Code, kind: Type, *values: str) -> list[str]:
    """Values with twice as many bits."""
    word = "sext" if kind.kind == "s" else "zext"
    return [code.new(f"{word} i{kind.bits} {value} to i{2 * kind.bits}") for value in values]


def product(code: Code, item: Instruction, kind: Type, a: str, b: str) -> str:
    """The part of a product that the name says: the lower or the upper half, or all of it."""
    bits = kind.bits
    if item.has("lo"):
        return code.new(f"mul i{bits} {a}, {b}")
    left, right = _extended(code, kind, a, b)
    whole = code.new(f"mul i{2 * bits} {left}, {right}")
    if item.has("wide"):
        return whole
    upper = code.new(f"lshr i{2 * bits} {whole}, {bits}")
    return code.new(f"trunc i{2 * bits} {upper} to i{bits}")


def multiply_add(code: Code, item: Instruction, kind: Type) -> None:
    """mad and madc."""
    target, a, b, c = item.operands
    bits = kind.bits * (2 if item.has("wide") else 1)
    both = product(code, item, kind, code.get(a, kind.bits), code.get(b, kind.bits))
    wide = Type(f"{kind.kind}{bits}")
    other = code.get(c, bits)
    if item.has("sat"):
        total = code.intrinsic("llvm.sadd.sat.i32", "i32", f"i32 {both}", f"i32 {other}")
    else:
        total = plus(code, item, wide, both, other, carries=item.parts[0] == "madc")
    code.put(target, bits, total, signed=kind.kind == "s")


@operation("madc")
def madc(code: Code, item: Instruction) -> None:
    multiply_add(code, item, item.types[0])


@operation("mul24", "mad24")
def of_24_bits(code: Code, item: Instruction) -> None:
    (kind,) = item.types
    word = "sext" if kind.kind == "s" else "zext"
    wide = []
    for operand in item.operands[1:3]:
        narrow = code.new(f"trunc i32 {code.get(operand, 32)} to i24")
        wide.append(code.new(f"{word} i24 {narrow} to i64"))
    result = code.new(f"mul i64 {wide[0]}, {wide[1]}")
    if item.has("hi"):
        result = code.new(f"lshr i64 {result}, 16")
    result = code.new(f"trunc i64 {result} to i32")
    if item.parts[0] == "mad24":
        result = code.new(f"add i32 {result}, {code.get(item.operands[3], 32)}")
    code.put(item.operands[0], 32, result)


def quotient(code: Code, kind: Type, a: str, b: str, *, rest: bool) -> str:
    """A quotient or remainder, for which hardware never stops: by zero it is all ones, or what was
    divided; that of the least number by -1 wraps around."""
    integer, sign = f"i{kind.bits}", "s" if kind.kind == "s" else "u"
    by_zero = code.new(f"icmp eq {integer} {b}, 0")
    bad = by_zero
    if sign == "s":
        least = code.new(f"icmp eq {integer} {a}, {-(1 << (kind.bits - 1))}")
        minus_one = code.new(f"icmp eq {integer} {b}, -1")
        bad = code.new(f"or i1 {by_zero}, {code.new(f'and i1 {least}, {minus_one}')}")
    divisor = code.new(f"select i1 {bad}, {integer} 1, {integer} {b}")
    word = f"{sign}{'rem' if rest else 'div'}"
    result = code.new(f"{word} {integer} {a}, {divisor}")
    otherwise = a if rest else "-1"
    return code.new(f"select i1 {by_zero}, {integer} {otherwise}, {integer} {result}")


@elementwise("rem")
def remainder(code: Code, item: Instruction, kind: Type, a: str, b: str) -> str:
    return quotient(code, kind, a, b, rest=True)


@operation("sad")
def sad(code: Code, item: Instruction) -> None:
    (kind,) = item.types
    target, *rest = item.operands
    a, b, c = (code.get(operand, kind.bits) for operand in rest)
    integer, sign = f"i{kind.bits}", "s" if kind.kind == "s" else "u"
    less = code.new(f"icmp {sign}lt {integer} {a}, {b}")
    up = code.new(f"sub {integer} {b}, {a}")
    down = code.new(f"sub {integer} {a}, {b}")
    apart = code.new(f"select i1 {less}, {integer} {up}, {integer} {down}")
    code.put(target, kind.bits, code.new(f"add {integer} {c}, {apart}"), signed=sign == "s")


@operation("dp4a", "dp2a")
def dot_product(code: Code, item: Instruction) -> None:
    target, *rest = item.operands
    signs = sum(1 << n for n, kind in enumerate(item.types) if kind.kind == "s")
    values = [f"i32 {code.get(operand, 32)}" for operand in rest]
    given = [f"i32 {signs}"]
    if item.parts[0] == "dp2a":
        given.append(f"i32 {int(item.has('hi'))}")
    code.put(target, 32, code.call(f"ptx_{item.parts[0]}", "i32", *given, *values))


# ---- bits ----------------------------------------------------------------------------------------


@elementwise("and", "or", "xor")
def logic(code: Code, item: Instruction, kind: Type, a: str, b: str) -> str:
    return code.new(f"{item.parts[0]} i{kind.bits} {a}, {b}")


@elementwise("not")
def complement(code: Code, item: Instruction, kind: Type, a: str) -> str:
    return code.new(f"xor i{kind.bits} {a}, -1")


@elementwise("cnot")
def is_zero(code: Code, item: Instruction, kind: Type, a: str) -> str:
    found = code.new(f"icmp eq i{kind.bits} {a}, 0")
    return code.new(f"zext i1 {found} to i{kind.bits}")


@operation("shl", "shr")
def shift(code: Code, item: Instruction) -> None:
    """The amount has 32 bits, whatever is shifted; what is too much counts as all."""
    (kind,) = item.types
    target, a, by = item.operands
    bits, integer = kind.bits, f"i{kind.bits}"
    value, amount = code.get(a, bits), code.get(by, 32)
    inside = code.new(f"icmp ult i32 {amount}, {bits}")
    if bits != 32:
        word = "zext" if bits > 32 else "trunc"
        amount = code.new(f"{word} i32 {amount} to {integer}")
    arithmetic = item.parts[0] == "shr" and kind.kind == "s"
    if arithmetic:
        amount = code.new(f"select i1 {inside}, {integer} {amount}, {integer} {bits - 1}")
        code.put(target, bits, code.new(f"ashr {integer} {value}, {amount}"), signed=True)
        return
    amount = code.new(f"select i1 {inside}, {integer} {amount}, {integer} 0")
    word = "shl" if item.parts[0] == "shl" else "lshr"
    moved = code.new(f"{word} {integer} {value}, {amount}")
    code.put(target, bits, code.new(f"select i1 {inside}, {integer} {moved}, {integer} 0"))


@operation("shf")
def funnel_shift(code: Code, item: Instruction) -> None:
    target, low, high, by = item.operands
    first = code.new(f"zext i32 {code.get(low, 32)} to i64")
    second = code.new(f"zext i32 {code.get(high, 32)} to i64")
    both = code.new(f"or i64 {first}, {code.new(f'shl i64 {second}, 32')}")
    amount = code.get(by, 32)
    if item.has("wrap"):
        amount = code.new(f"and i32 {amount}, 31")
    elif item.has("clamp"):
        amount = code.intrinsic("llvm.umin.i32", "i32", f"i32 {amount}", "i32 32")
    else:
        raise code.error("neither wrap nor clamp")
    amount = code.new(f"zext i32 {amount} to i64")
    if item.has("l"):
        moved = code.new(f"shl i64 {both}, {amount}")
        moved = code.new(f"lshr i64 {moved}, 32")
    else:
        moved = code.new(f"lshr i64 {both}, {amount}")
    code.put(target, 32, code.new(f"trunc i64 {moved} to i32"))


@operation("prmt")
def permute(code: Code, item: Instruction) -> None:
    target, *rest = item.operands
    mode = item.parts[2] if len(item.parts) > 2 else ""
    values = [f"i32 {code.get(operand, 32)}" for operand in rest]
    code.put(target, 32, code.call("ptx_prmt", "i32", f"i32 {PERMUTATIONS[mode]}", *values))


def _as_64(code: Code, value: str, bits: int) -> str:
    return value if bits == 64 else code.new(f"zext i{bits} {value} to i64")


def _of_64(code: Code, value: str, bits: int) -> str:
    return value if bits == 64 else code.new(f"trunc i64 {value} to i{bits}")


@operation("bfe")
def extract(code: Code, item: Instruction) -> None:
    (kind,) = item.types
    target, a, start, length = item.operands
    given = [
        f"i32 {kind.bits}",
        f"i32 {int(kind.kind == 's')}",
        f"i64 {_as_64(code, code.get(a, kind.bits), kind.bits)}",
        f"i32 {code.get(start, 32)}",
        f"i32 {code.get(length, 32)}",
    ]
    result = _of_64(code, code.call("ptx_bfe", "i64", *given), kind.bits)
    code.put(target, kind.bits, result)


@operation("bfi")
def insert(code: Code, item: Instruction) -> None:
    (kind,) = item.types
    target, a, b, start, length = item.operands
    given = [
        f"i32 {kind.bits}",
        f"i64 {_as_64(code, code.get(a, kind.bits), kind.bits)}",
        f"i64 {_as_64(code, code.get(b, kind.bits), kind.bits)}",
        f"i32 {code.get(start, 32)}",
        f"i32 {code.get(length, 32)}",
    ]
    code.put(target, kind.bits, _of_64(code, code.call("ptx_bfi", "i64", *given), kind.bits))


@elementwise("brev")
def reverse(code: Code, item: Instruction, kind: Type, a: str) -> str:
    integer = f"i{kind.bits}"
    return code.intrinsic(f"llvm.bitreverse.{integer}", integer, f"{integer} {a}")


@operation("popc", "clz")
def count(code: Code, item: Instruction) -> None:
    """The result has 32 bits, whatever is counted."""
    (kind,) = item.types
    target, a = item.operands
    integer = f"i{kind.bits}"
    value = code.get(a, kind.bits)
    if item.parts[0] == "popc":
        found = code.intrinsic(f"llvm.ctpop.{integer}", integer, f"{integer} {value}")
    else:
        found = code.intrinsic(f"llvm.ctlz.{integer}", integer, f"{integer} {value}", "i1 false")
    code.put(target, 32, found if kind.bits == 32 else code.new(f"trunc {integer} {found} to i32"))


@operation("bfind")
def find_first(code: Code, item: Instruction) -> None:
    """The place of the highest bit that is not the sign's; all ones if there is none."""
    (kind,) = item.types
    target, a = item.operands
    integer, bits = f"i{kind.bits}", kind.bits
    value = code.get(a, bits)
    if kind.kind == "s":
        sign = code.new(f"ashr {integer} {value}, {bits - 1}")
        value = code.new(f"xor {integer} {value}, {sign}")
    zeros = code.intrinsic(f"llvm.ctlz.{integer}", integer, f"{integer} {value}", "i1 false")
    if bits == 64:
        zeros = code.new(f"trunc i64 {zeros} to i32")
    place = zeros if item.has("shiftamt") else code.new(f"sub i32 {bits - 1}, {zeros}")
    none = code.new(f"icmp eq {integer} {value}, 0")
    code.put(target, 32, code.new(f"select i1 {none}, i32 -1, i32 {place}"))


@operation("lop3")
def any_logic(code: Code, item: Instruction) -> None:
    """The table has the result for each of the eight combinations of three bits."""
    if isinstance(item.operands[0], Pair) or not isinstance(item.operands[4], Integer):
        raise code.error("this form is not known here")
    target, *rest = item.operands[:4]
    table = item.operands[4].value
    values = [code.get(operand, 32) for operand in rest]
    opposites = [code.new(f"xor i32 {value}, -1") for value in values]
    result = "0"
    for number in range(8):
        if not table >> number & 1:
            continue
        chosen = [(values if number >> (2 - place) & 1 else opposites)[place] for place in range(3)]
        both = code.new(f"and i32 {chosen[0]}, {chosen[1]}")
        all_three = code.new(f"and i32 {both}, {chosen[2]}")
        result = code.new(f"or i32 {result}, {all_three}")
    code.put(target, 32, result)


@operation("szext")
def extend_from(code: Code, item: Instruction) -> None:
    """Extends the lower bits, as many as the second operand says."""
    (kind,) = item.types
    target, a, width = item.operands
    bits = code.get(width, 32)
    if item.has("wrap"):
        bits = code.new(f"and i32 {bits}, 31")
    bits = code.intrinsic("llvm.umin.i32", "i32", f"i32 {bits}", "i32 32")
    wide = code.new(f"zext i32 {code.get(a, 32)} to i64")
    by = code.new(f"zext i32 {code.new(f'sub i32 64, {bits}')} to i64")
    # For no bits at all the amount is 64.
    none = code.new(f"icmp eq i32 {bits}, 0")
    by = code.new(f"select i1 {none}, i64 0, i64 {by}")
    up = code.new(f"shl i64 {wide}, {by}")
    word = "ashr" if kind.kind == "s" else "lshr"
    down = code.new(f"{word} i64 {up}, {by}")
    result = code.new(f"trunc i64 {down} to i32")
    code.put(target, 32, code.new(f"select i1 {none}, i32 0, i32 {result}"))


@operation("bmsk")
def bit_mask(code: Code, item: Instruction) -> None:
    """As many ones as the second operand says, from the first one's place on."""
    target, start, width = (item.operands[0], *(code.get(each, 32) for each in item.operands[1:]))
    if item.has("wrap"):
        start = code.new(f"and i32 {start}, 31")
        width = code.new(f"and i32 {width}, 31")
    else:
        start = code.intrinsic("llvm.umin.i32", "i32", f"i32 {start}", "i32 32")
        width = code.intrinsic("llvm.umin.i32", "i32", f"i32 {width}", "i32 32")
    wide_start = code.new(f"zext i32 {start} to i64")
    ones = code.new(f"shl i64 1, {code.new(f'zext i32 {width} to i64')}")
    ones = code.new(f"sub i64 {ones}, 1")
    moved = code.new(f"shl i64 {ones}, {wide_start}")
    code.put(target, 32, code.new(f"trunc i64 {moved} to i32"))
