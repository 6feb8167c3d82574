"""Atomic changes by SPIR-V's own instructions, which are of integers of 32 and 64 bits; all others
by comparing and swapping in a loop.

Additions of floats have an extension that a device may lack, and code is made without one.
"""

from collections.abc import Callable
from typing import Any

from haulage.targets import atomics

ORDERING = 'syncscope("device") monotonic'
_NARROWEST = 32

# Emits: the value that an operation makes of an old one and its operand.
_Made = Callable[[Any, Any, Any], Any]


def _add_wrapped(builder: Any, old: Any, operand: Any) -> Any:
    is_last = builder.icmp_unsigned(">=", old, operand)
    return builder.select(is_last, old.type(0), builder.add(old, old.type(1)))


def _subtract_wrapped(builder: Any, old: Any, operand: Any) -> Any:
    is_zero = builder.icmp_unsigned("==", old, old.type(0))
    is_above = builder.icmp_unsigned(">", old, operand)
    down = builder.sub(old, old.type(1))
    return builder.select(builder.or_(is_zero, is_above), operand, down)


def _extreme(comparison: str, *, signed: bool) -> _Made:
    def made(builder: Any, old: Any, operand: Any) -> Any:
        compare = builder.icmp_signed if signed else builder.icmp_unsigned
        return builder.select(compare(comparison, old, operand), old, operand)

    return made


def _numeric_extreme(comparison: str) -> _Made:
    """Of two floats, of which a NaN counts as missing."""

    def made(builder: Any, old: Any, operand: Any) -> Any:
        is_old = builder.fcmp_ordered(comparison, old, operand)
        is_missing = builder.fcmp_unordered("uno", operand, operand)
        return builder.select(builder.or_(is_old, is_missing), old, operand)

    return made


def _plain(method: str) -> _Made:
    return lambda builder, old, operand: getattr(builder, method)(old, operand)


_MADE: dict[str, _Made] = {
    **{name: _plain(name) for name in ("add", "sub", "fadd", "fsub", "xor")},
    **{name: _plain(f"{name}_") for name in ("and", "or")},
    "max": _extreme(">", signed=True),
    "min": _extreme("<", signed=True),
    "umax": _extreme(">", signed=False),
    "umin": _extreme("<", signed=False),
    "fmax": _numeric_extreme(">"),
    "fmin": _numeric_extreme("<"),
    "xchg": lambda builder, old, operand: operand,
    "uinc_wrap": _add_wrapped,
    "udec_wrap": _subtract_wrapped,
}
_OF_INSTRUCTIONS = frozenset(
    ("add", "sub", "and", "or", "xor", "max", "min", "umax", "umin", "xchg")
)


def change(builder: Any, operation: str, pointer: Any, operand: Any) -> Any:
    """Change what is at `pointer`; see `Target.atomic`."""
    from llvmlite import ir

    comparison = atomics.COMPARISONS.get(operation)
    if comparison is not None:
        return _write_where(builder, comparison, pointer, operand)
    is_int = isinstance(operand.type, ir.IntType)
    if operation == "xchg" and not is_int:
        bits = atomics.bits_of(operand.type)
        place = builder.bitcast(pointer, bits.as_pointer())
        old = change(builder, operation, place, builder.bitcast(operand, bits))
        return builder.bitcast(old, operand.type)
    if is_int and operand.type.width >= _NARROWEST and operation in _OF_INSTRUCTIONS:
        return builder.atomic_rmw(operation, pointer, operand, ORDERING)
    make = _MADE[operation]
    return _changed(builder, pointer, operand.type, lambda old: make(builder, old, operand))


def _write_where(builder: Any, comparison: str, pointer: Any, operand: Any) -> Any:
    if atomics.bits_of(operand.type).width >= _NARROWEST:
        return atomics.write_where(
            builder, comparison, pointer, operand, ORDERING, compare_and_swap
        )

    def made(old: Any) -> Any:
        return builder.select(builder.fcmp_ordered(comparison, old, operand), operand, old)

    return _changed(builder, pointer, operand.type, made)


def _changed(builder: Any, pointer: Any, kind: Any, make: Callable[[Any], Any]) -> Any:
    """Write what `make` gives for the old value until nobody else has written in between; gives the
    old value, of an LLVM type."""
    from llvmlite import ir

    bits = kind if isinstance(kind, ir.IntType) else atomics.bits_of(kind)
    word = _Word(builder, pointer, bits)
    before = builder.basic_block
    look, end = (builder.append_basic_block(f"atomic.{part}") for part in ("look", "end"))
    first = builder.load_atomic(word.place, ORDERING, word.kind.width // 8, typ=word.kind)
    builder.branch(look)
    builder.position_at_end(look)
    seen = builder.phi(word.kind)
    old_bits = word.part(seen)
    old = old_bits if bits == kind else builder.bitcast(old_bits, kind)
    new = make(old)
    new_bits = new if bits == kind else builder.bitcast(new, bits)
    found, is_written = atomics.swap(
        builder, word.place, seen, word.with_part(seen, new_bits), ORDERING
    )
    seen.add_incoming(first, before)
    seen.add_incoming(found, builder.basic_block)
    builder.cbranch(is_written, end, look)
    builder.position_at_end(end)
    return old


def compare_and_swap(builder: Any, pointer: Any, old: Any, new: Any) -> tuple[Any, Any]:
    """Write `new` where `old` is found; see `Target.compare_and_swap`."""
    if old.type.width >= _NARROWEST:
        return atomics.swap(builder, pointer, old, new, ORDERING)

    def made(found: Any) -> Any:
        return builder.select(builder.icmp_unsigned("==", found, old), new, found)

    found = _changed(builder, pointer, old.type, made)
    return found, builder.icmp_unsigned("==", found, old)


class _Word:
    """The word of at least 32 bits in which an int of `bits` lies: `place`, of type `kind`."""

    def __init__(self, builder: Any, pointer: Any, bits: Any) -> None:
        from llvmlite import ir

        self._builder, self._bits = builder, bits
        self._shift = None
        if bits.width >= _NARROWEST:
            self.kind, self.place = bits, builder.bitcast(pointer, bits.as_pointer())
            return
        i64 = ir.IntType(64)
        self.kind = ir.IntType(_NARROWEST)
        behind = builder.and_(builder.ptrtoint(pointer, i64), i64(3))
        plain = builder.bitcast(pointer, ir.PointerType(ir.IntType(8)))
        start = builder.gep(plain, [builder.neg(behind)], source_etype=ir.IntType(8))
        self.place = builder.bitcast(start, self.kind.as_pointer())
        self._shift = builder.trunc(builder.shl(behind, i64(3)), self.kind)

    def part(self, word: Any) -> Any:
        """The int in a word."""
        if self._shift is None:
            return word
        return self._builder.trunc(self._builder.lshr(word, self._shift), self._bits)

    def with_part(self, word: Any, part: Any) -> Any:
        """A word with another int in that place."""
        if self._shift is None:
            return part
        builder = self._builder
        ones = self.kind((1 << self._bits.width) - 1)
        kept = builder.and_(word, builder.not_(builder.shl(ones, self._shift)))
        return builder.or_(kept, builder.shl(builder.zext(part, self.kind), self._shift))
