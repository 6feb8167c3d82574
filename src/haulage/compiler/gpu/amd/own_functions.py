"""Functions of mathematics for AMD's GPUs where the device library is not there: those of which the
CPU device asks the C library, and those that are exact.

sin, cos and tan of large numbers are those of what is left by pi/2, for which as many bits of 2/pi
are multiplied as decide it (Payne and Hanek, SIGNUM Newsletter 18, 1983). remainder goes as in
FreeBSD's msun (e_remainder.c), with the exact remainder that LLVM has.
"""

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, localcontext

from haulage.compiler.mathematics import trigonometry
from haulage.compiler.mathematics.ir import SUFFIXES, Value, Writer

PREFIX = "haulage.own."

_TABLE = "haulage.two.over.pi"
# Bits of 2/pi behind the point, with a word of zeros in front of them.
_WORDS = 20
# Where the bits begin that a double of an exponent (as its bits have it) needs.
_FIRST_EXPONENT = 1013
_HALF_PI, _HALF_PI_LOW = 1.5707963267948966, 6.123233995736766e-17
# The least significant bits of 64 that a double has no room for.
_LEFT = 11
_LARGE = {"double": 2.0**1000, "float": 2.0**100}


def _two_over_pi() -> int:
    """Its first bits, as an int of `_WORDS` words."""
    bits = 64 * (_WORDS - 1)
    with localcontext() as context:
        context.prec = bits // 3 + 20
        # Machin's formula: pi/4 = 4 atan(1/5) - atan(1/239).
        pi = 4 * (4 * _arc(5) - _arc(239))
        return int(2 / pi * Decimal(2) ** bits)


def _arc(n: int) -> Decimal:
    """atan(1/n)."""
    term = total = Decimal(1) / n
    step = 1
    while total + term != total or step == 1:
        term = -term / (n * n)
        step += 2
        total += term / step
    return total


def _table() -> str:
    whole = _two_over_pi()
    words = [whole >> 64 * (_WORDS - 1 - n) & (1 << 64) - 1 for n in range(_WORDS)]
    listed = ", ".join(f"i64 {word}" for word in words)
    kind = f"[{_WORDS} x i64]"
    return f"@{_TABLE} = internal unnamed_addr addrspace(4) constant {kind} [{listed}], align 8"


def _word(w: Writer, number: Value) -> Value:
    at = w.emit("ptr", f"getelementptr i64, ptr addrspace(4) @{_TABLE}, i64 {number.text}")
    return w.emit("i64", f"load i64, ptr addrspace(4) {at.text}, align 8")


def _joined(w: Writer, high: Value, low: Value, shift: Value) -> Value:
    """The upper half of 128 bits that are moved to the left."""
    w.needs.add("declare i64 @llvm.fshl.i64(i64, i64, i64)")
    listed = ", ".join(f"i64 {each.text}" for each in (high, low, shift))
    return w.emit("i64", f"call i64 @llvm.fshl.i64({listed})")


def _product(w: Writer, x: Value, y: Value, more: Value) -> tuple[Value, Value]:
    """(upper, lower half) of x * y + more."""
    wide = [w.emit("i128", f"zext i64 {each.text} to i128") for each in (x, y, more)]
    total = wide[0] * wide[1] + wide[2]
    high, low = (w.emit("i64", f"trunc i128 {each.text} to i64") for each in (total >> 64, total))
    return high, low


def _as_double(w: Writer, number: Value) -> Value:
    return w.emit("double", f"uitofp i64 {number.text} to double")


def far_reduced(w: Writer, given: Value) -> tuple[Value, Value, Value]:
    """As `trigonometry.reduced`, of a double of any size from `trigonometry.FAR` on."""
    bits = given.bits() & ((1 << 63) - 1)
    mantissa = bits & ((1 << 52) - 1) | (1 << 52)
    first = (bits >> 52) - _FIRST_EXPONENT
    number, shift = first >> 6, first & 63
    words = [_word(w, number + n) for n in range(4)]
    high, middle, low = (_joined(w, words[n], words[n + 1], shift) for n in range(3))
    # Of the product 192 bits count, the upper two of which are quarter turns.
    carried, third = _product(w, mantissa, low, w.value("i64", 0))
    carried, second = _product(w, mantissa, middle, carried)
    top = mantissa * high + carried
    turns = (top + (1 << 61)) >> 62
    top = top - (turns << 62)
    flip = (top < 0).choose(w.value("i64", -1), 0)
    top, second, third = (each ^ flip for each in (top, second, third))
    # Near a quarter turn the first word is nothing but zeros.
    short = top.is_(0)
    top, second = short.choose(second, top), short.choose(third, second)
    third = short.choose(w.value("i64", 0), third)
    w.needs.add("declare i64 @llvm.ctlz.i64(i64, i1)")
    zeros = w.emit("i64", f"call i64 @llvm.ctlz.i64(i64 {top.text}, i1 false)")
    upper = _joined(w, top, second, zeros)
    under = _joined(w, second, third, zeros)
    scale = (
        (w.value("i64", 1023 - 62) - zeros - short.choose(w.value("i64", 64), 0)) << 52
    ).as_float()
    size = _as_double(w, upper & -(1 << _LEFT)) * scale
    left = (upper & ((1 << _LEFT) - 1)) << (64 - _LEFT) | under >> _LEFT
    rest = _as_double(w, left) * (scale * 2.0 ** (_LEFT - 64))
    r, low_part = w.two_product(size, w.value("double", _HALF_PI))
    r, rest = w.ordered_sum(r, low_part + (size * _HALF_PI_LOW + rest * _HALF_PI))
    # Below zero all is turned around; infinity has no sine.
    sign = (given.bits() >> 63 << 63) ^ (flip >> 63 << 63)
    r, rest = ((each.bits() ^ sign).as_float() for each in (r, rest))
    turns = (given.bits() < 0).choose(-1 * turns, turns)
    return r + (given - given), rest, turns


def _trigonometric(
    of: Callable[..., Value], of_single: Callable[..., Value]
) -> Callable[[Writer, Value], Value]:
    def made(w: Writer, x: Value) -> Value:
        is_single = x.kind == "float"
        far = trigonometry.is_far(w, x)
        w.lines += [f"  br i1 {far.text}, label %far, label %near", "near:"]
        near: Sequence[Value] = (
            trigonometry.single_reduced(w, x) if is_single else trigonometry.reduced(w, x)
        )
        w.lines += ["  br label %both", "far:"]
        r, rest, number = far_reduced(w, x.to("double") if is_single else x)
        beyond = [r, number] if is_single else [r, rest, number]
        w.lines += ["  br label %both", "both:"]
        both = [
            w.emit(one.kind, f"phi {one.kind} [ {one.text}, %near ], [ {other.text}, %far ]")
            for one, other in zip(near, beyond, strict=True)
        ]
        return (of_single if is_single else of)(w, x, *both)

    return made


def nextafter(w: Writer, x: Value, y: Value) -> Value:
    """The float behind x on the way to y."""
    bits = x.bits()
    away = (x < y).choose(w.value("i1", 1), 0) ^ (bits < 0)
    stepped = away.choose(bits + 1, bits - 1).as_float()
    # From zero on the sign is that of where to.
    smallest = w.with_sign(w.value(bits.kind, 1).as_float(), y)
    stepped = x.is_(0.0).choose(smallest, stepped)
    stepped = x.is_(y).choose(y, stepped)
    return (x.is_not(x) | y.is_not(y)).choose(x + y, stepped)


def remainder(w: Writer, x: Value, y: Value) -> Value:
    """What is left of x by the nearest multiple of y, of two the even one."""
    kind = x.kind
    size, divisor = w.magnitude(x), w.magnitude(y)
    left = w.emit(kind, f"frem {kind} {size.text}, {(divisor + divisor).text}")
    is_large = divisor > _LARGE[kind]
    half = divisor * 0.5

    def above(strict: bool) -> Value:
        # Of a small divisor half of it may not be a number, of a large one twice the rest.
        doubled = left + left
        if strict:
            return is_large.choose(left > half, doubled > divisor)
        return is_large.choose(
            (left > half) | left.is_(half), (doubled > divisor) | doubled.is_(divisor)
        )

    first = above(strict=True)
    left = first.choose(left - divisor, left)
    left = (first & above(strict=False)).choose(left - divisor, left)
    sign = x.bits() ^ size.bits()
    return (left.bits() ^ sign).as_float()


_FUNCTIONS: dict[str, tuple[Callable[..., Value], int]] = {
    "sin": (_trigonometric(trigonometry.sin_of, trigonometry.sin_single_of), 1),
    "cos": (_trigonometric(trigonometry.cos_of, trigonometry.cos_single_of), 1),
    "tan": (_trigonometric(trigonometry.tan_of, trigonometry.tan_single_of), 1),
    "nextafter": (nextafter, 2),
    "remainder": (remainder, 2),
}
NAMES = tuple(_FUNCTIONS)


def definitions(wanted: Iterable[tuple[str, str]]) -> str:
    """LLVM text of some (function, `f32` or `f64`), with all that it needs."""
    parts: list[str] = []
    needs: set[str] = set()
    kinds = {suffix: kind for kind, suffix in SUFFIXES.items()}
    for name, suffix in wanted:
        kind = kinds[suffix]
        function, count = _FUNCTIONS[name]
        w = Writer(fused=True)
        given = [Value(w, kind, f"%{each}") for each in "xy"[:count]]
        result = function(w, *given)
        listed = ", ".join(f"{kind} {each.text}" for each in given)
        parts += [
            f"define internal {kind} @{PREFIX}{name}.{suffix}({listed}) alwaysinline nounwind {{",
            "entry:",
            *w.lines,
            f"  ret {kind} {result.text}",
            "}",
        ]
        needs |= w.needs
    text = "\n".join(parts)
    table = [_table()] if f"@{_TABLE}," in text else []
    return "\n".join([*table, *sorted(needs), text, ""])
