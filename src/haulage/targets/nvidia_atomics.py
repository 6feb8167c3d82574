"""Atomic changes by the narrowest instructions that NVIDIA's GPUs have for them.

They are atomic for all threads of the device, as CUDA's atomic functions are.
"""

from typing import Any

from haulage.targets import atomics

ORDERING = 'syncscope("device") monotonic'

# Comparison of floats: the operations of ints that do the same to the bits of those that are not
# negative, and of those that are. The bits of the former grow with the float, as ints with a sign;
# those of the latter fall, as ints without one, and are above all of the former.
_OF_BITS = {"less": ("max", "umin"), "greater": ("min", "umax")}


# LLVM has no code for it but a loop around four bytes.
SWAP_16 = "atom.relaxed.gpu.cas.b16 $0, [$1], $2, $3;"


def change(builder: Any, operation: str, pointer: Any, operand: Any) -> Any:
    """Change what is at `pointer`; see `Target.atomic`."""
    if operation == "fsub":
        # There are instructions for sums only; a difference is just that.
        operation, operand = "fadd", builder.fneg(operand)
    if operation in ("fmax", "fmin"):
        return _write_unless_missing(builder, operation, pointer, operand)
    if operation not in _OF_BITS:
        return builder.atomic_rmw(operation, pointer, operand, ORDERING)
    if str(operand.type) != "half":
        return _write_by_bits(builder, operation, pointer, operand)
    comparison = atomics.COMPARISONS[operation]
    return atomics.write_where(builder, comparison, pointer, operand, ORDERING, compare_and_swap)


def compare_and_swap(builder: Any, pointer: Any, old: Any, new: Any) -> tuple[Any, Any]:
    """Write `new` where `old` is found; see `Target.compare_and_swap`."""
    from llvmlite import ir

    if old.type.width != 16:
        return atomics.swap(builder, pointer, old, new, ORDERING)
    kind = ir.FunctionType(old.type, [pointer.type, old.type, old.type])
    code = ir.InlineAsm(kind, SWAP_16, "=h,l,h,h,~{memory}", side_effect=True)
    found = builder.call(code, [pointer, old, new])
    return found, builder.icmp_unsigned("==", found, old)


def _write_by_bits(builder: Any, operation: str, pointer: Any, operand: Any) -> Any:
    """Write a float where what is there is so compared with it, without a loop.

    A look at what is there says whether anything is due: mostly nothing is, and never where one of
    the two is NaN. A NaN that something else but such words writes in between can be lost.
    """
    comparison = atomics.COMPARISONS[operation]
    bits = atomics.bits_of(operand.type)
    place = builder.bitcast(pointer, bits.as_pointer())
    own = builder.bitcast(operand, bits)
    seen = builder.load_atomic(place, ORDERING, bits.width // 8, typ=bits)
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
        found.append((builder.atomic_rmw(name, place, own, ORDERING), block))
        builder.branch(end)
    builder.position_at_end(end)
    old = builder.phi(bits)
    for value, block in found:
        old.add_incoming(value, block)
    return builder.bitcast(old, operand.type)


def _write_unless_missing(builder: Any, operation: str, pointer: Any, operand: Any) -> Any:
    """The larger or the smaller of two floats, of which a NaN counts as missing; nothing is written
    that is there already."""
    comparison = "<" if operation == "fmax" else ">"

    def is_due(old: Any) -> Any:
        is_number = builder.fcmp_ordered("ord", operand, operand)
        return builder.and_(is_number, builder.fcmp_unordered(comparison, old, operand))

    return atomics.write_while(builder, is_due, pointer, operand, ORDERING, compare_and_swap)
