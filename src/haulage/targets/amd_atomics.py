"""Atomic changes on AMD's GPUs: for all threads of the device, as CUDA's atomic functions are.

LLVM makes one instruction of a change where the hardware has it for any memory that a kernel may be
given, and a loop that compares and swaps where it has not: sums of floats in memory of the host, or
shared with it, are lost by some GPUs' instructions for them.
"""

from typing import Any

from haulage.targets import atomics

ORDERING = 'syncscope("agent") monotonic'


def change(builder: Any, operation: str, pointer: Any, operand: Any) -> Any:
    """Change what is at `pointer`; see `Target.atomic`."""
    if operation == "fsub":
        # There are instructions for sums only; a difference is just that.
        operation, operand = "fadd", builder.fneg(operand)
    comparison = atomics.COMPARISONS.get(operation)
    if comparison is None:
        return builder.atomic_rmw(operation, pointer, operand, ORDERING)
    return atomics.write_where(builder, comparison, pointer, operand, ORDERING, compare_and_swap)


def compare_and_swap(builder: Any, pointer: Any, old: Any, new: Any) -> tuple[Any, Any]:
    """Write `new` where `old` is found; see `Target.compare_and_swap`."""
    return atomics.swap(builder, pointer, old, new, ORDERING)
