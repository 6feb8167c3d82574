"""Atomic changes on AMD's GPUs: for all threads of the device, as CUDA's atomic functions are.

LLVM makes one instruction of a change where the hardware has it for any memory that a kernel may be
given, and a loop that compares and swaps where it has not. PCI Express has additions, exchanges,
and those after a comparison; up to gfx90a, and on gfx10 and gfx11, any other instruction does
nothing to memory of the host, nor do additions of floats to memory that is shared with it.
"""

from typing import Any

from haulage.targets import atomics
from haulage.targets.amd_architectures import version

ORDERING = 'syncscope("agent") monotonic'


def change(builder: Any, operation: str, pointer: Any, operand: Any, architecture: str) -> Any:
    """Change what is at `pointer`; see `Target.atomic`."""
    # A difference is a sum, for which there are instructions that do.
    if operation == "fsub":
        operation, operand = "fadd", builder.fneg(operand)
    elif operation == "sub":
        operation, operand = "add", builder.neg(operand)
    comparison = atomics.COMPARISONS.get(operation)
    if comparison is None:
        return builder.atomic_rmw(operation, pointer, operand, ORDERING)
    if has_all(architecture) and str(operand.type) != "half":
        return atomics.write_by_bits(builder, operation, pointer, operand, ORDERING)
    return atomics.write_where(builder, comparison, pointer, operand, ORDERING, compare_and_swap)


def compare_and_swap(builder: Any, pointer: Any, old: Any, new: Any) -> tuple[Any, Any]:
    """Write `new` where `old` is found; see `Target.compare_and_swap`."""
    return atomics.swap(builder, pointer, old, new, ORDERING)


def has_all(architecture: str) -> bool:
    """Whether instructions for ints change any memory: what PCI Express lacks is made up for."""
    number = version(architecture)
    return (9, 4, 2) <= number < (10, 0, 0) or number >= (12, 0, 0)
