"""Atomic changes as LLVM has them, and those that it has not, by comparing and swapping."""

from collections.abc import Callable
from typing import Any

# Emits: write the second of two ints at a place where the first is found; gives what was found and,
# as 1 bit, whether it was the first.
Swap = Callable[[Any, Any, Any, Any], tuple[Any, Any]]

# Operations that are none of LLVM's: write the value where the old one is so compared with it.
COMPARISONS = {"less": "<", "greater": ">"}

# Comparison of floats: the operations of ints that do the same to the bits of those that are not
# negative, and of those that are. The bits of the former grow with the float, as ints with a sign;
# those of the latter fall, as ints without one, and are above all of the former.
_OF_BITS = {"less": ("max", "umin"), "greater": ("min", "umax")}


def swap(builder: Any, pointer: Any, old: Any, new: Any, ordering: str) -> tuple[Any, Any]:
    """Write `new` where `old` is found, by LLVM's operation; see `Swap`."""
    pair = builder.cmpxchg(pointer, old, new, ordering, "monotonic")
    return builder.extract_value(pair, 0), builder.extract_value(pair, 1)


def write_where(
    builder: Any, comparison: str, pointer: Any, operand: Any, ordering: str, swap: Swap
) -> Any:
    """Write `operand`, a float, as long as what is there so compares with it; gives what was there.

    No comparison with a NaN holds.
    """

    def is_due(old: Any) -> Any:
        return builder.fcmp_ordered(comparison, old, operand)

    return write_while(builder, is_due, pointer, operand, ordering, swap)


def bits_of(kind: Any) -> Any:
    """The int type that has the bits of a float's LLVM type."""
    from llvmlite import ir

    return ir.IntType({"half": 16, "float": 32, "double": 64}[str(kind)])


def write_by_bits(builder: Any, operation: str, pointer: Any, operand: Any, ordering: str) -> Any:
    """Write a float of 32 or 64 bits where what is there is so compared with it, one of
    `COMPARISONS`, without a loop.

    A look at what is there says whether anything is due: mostly nothing is, and never where one of
    the two is NaN. A NaN that something else but such words writes in between can be lost.
    """
    comparison = COMPARISONS[operation]
    bits = bits_of(operand.type)
    place = builder.bitcast(pointer, bits.as_pointer())
    own = builder.bitcast(operand, bits)
    seen = builder.load_atomic(place, ordering, bits.width // 8, typ=bits)
    before = builder.basic_block
    due, above, below, end = (
        builder.append_basic_block(f"atomic.{part}") for part in ("due", "above", "below", "end")
    )
    seen_float = builder.bitcast(seen, operand.type)
    builder.cbranch(builder.fcmp_ordered(comparison, seen_float, operand), due, end)
    builder.position_at_end(due)
    builder.cbranch(builder.icmp_signed(">=", own, bits(0)), above, below)
    found = [(seen, before)]
    for block, name in zip((above, below), _OF_BITS[operation], strict=True):
        builder.position_at_end(block)
        found.append((builder.atomic_rmw(name, place, own, ordering), block))
        builder.branch(end)
    builder.position_at_end(end)
    old = builder.phi(bits)
    for value, block in found:
        old.add_incoming(value, block)
    return builder.bitcast(old, operand.type)


def write_while(
    builder: Any,
    is_due: Callable[[Any], Any],
    pointer: Any,
    operand: Any,
    ordering: str,
    swap: Swap,
) -> Any:
    """Write `operand`, a float, as long as `is_due` says so of what is there; gives what was there.

    `is_due(old)` emits a 1-bit value; `ordering` is LLVM's text for the first look.
    """
    bits = bits_of(operand.type)
    place = builder.bitcast(pointer, bits.as_pointer())
    wanted = builder.bitcast(operand, bits)
    before = builder.basic_block
    look, write, end = (
        builder.append_basic_block(f"atomic.{part}") for part in ("look", "write", "end")
    )
    first = builder.load_atomic(place, ordering, bits.width // 8, typ=bits)
    builder.branch(look)
    builder.position_at_end(look)
    seen = builder.phi(bits)
    old = builder.bitcast(seen, operand.type)
    builder.cbranch(is_due(old), write, end)
    builder.position_at_end(write)
    found, is_written = swap(builder, place, seen, wanted)
    seen.add_incoming(first, before)
    seen.add_incoming(found, write)
    builder.cbranch(is_written, end, look)
    builder.position_at_end(end)
    return old
