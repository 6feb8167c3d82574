"""Atomic changes by the narrowest instructions that NVIDIA's GPUs have for them.

They are atomic for all threads of the device, as CUDA's atomic functions are.
"""

from typing import Any

from haulage.targets import atomics

ORDERING = 'syncscope("device") monotonic'

# LLVM has no code for it but a loop around four bytes.
SWAP_16 = "atom.relaxed.gpu.cas.b16 $0, [$1], $2, $3;"


def change(builder: Any, operation: str, pointer: Any, operand: Any) -> Any:
    """Change what is at `pointer`; see `Target.atomic`."""
    if operation == "fsub":
        # There are instructions for sums only; a difference is just that.
        operation, operand = "fadd", builder.fneg(operand)
    if operation in ("fmax", "fmin"):
        return _write_unless_missing(builder, operation, pointer, operand)
    if operation not in atomics.COMPARISONS:
        return builder.atomic_rmw(operation, pointer, operand, ORDERING)
    if str(operand.type) != "half":
        return atomics.write_by_bits(builder, operation, pointer, operand, ORDERING)
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


def _write_unless_missing(builder: Any, operation: str, pointer: Any, operand: Any) -> Any:
    """The larger or the smaller of two floats, of which a NaN counts as missing; nothing is written
    that is there already."""
    comparison = "<" if operation == "fmax" else ">"

    def is_due(old: Any) -> Any:
        is_number = builder.fcmp_ordered("ord", operand, operand)
        return builder.and_(is_number, builder.fcmp_unordered(comparison, old, operand))

    return atomics.write_while(builder, is_due, pointer, operand, ORDERING, compare_and_swap)
