"""What lanes of a warp find out by votes."""

from typing import Any

from haulage.targets.base import Target


def givers(target: Target, builder: Any, lane: Any, own: Any, place: int) -> tuple[Any, Any]:
    """(lanes that are here whose `lane` is this one's number, `own`; the lanes that are here)."""
    from llvmlite import ir

    i1 = ir.IntType(1)
    there = target.lanes_here(builder, place)
    found = there
    for bit in range(target.warp_size.bit_length() - 1):
        shift = own.type(bit)
        # The lanes with this bit in their `lane`, and whether it is in our number.
        truth = builder.trunc(builder.lshr(lane, shift), i1)
        given = target.vote(builder, there, "ballot", truth, place)
        wanted = builder.trunc(builder.lshr(own, shift), i1)
        found = builder.and_(found, builder.select(wanted, given, builder.not_(given)))
    return found, there
