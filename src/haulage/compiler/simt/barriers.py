"""The barriers of a function: those of the whole block, and those of a wavefront."""

from haulage.compiler.simt.model import Function, Instruction
from haulage.targets.cpu import BARRIER, WAVE_BARRIER

BARRIERS = frozenset((BARRIER, WAVE_BARRIER))


def barriers(function: Function, kinds: frozenset[str] = BARRIERS) -> list[tuple[str, int, int]]:
    """(label, index in the block's body, fault number) of each barrier of some kinds."""
    return [
        (block.label, index, place_of(item))
        for block in function.blocks.values()
        for index, item in enumerate(block.body)
        if item.callee in kinds
    ]


def block_barriers(function: Function) -> list[tuple[str, int, int]]:
    """Those of `barriers` that wait for the whole block."""
    return barriers(function, frozenset((BARRIER,)))


def wave_barriers(function: Function) -> list[tuple[str, int, int]]:
    """Those of `barriers` that wait for a wavefront."""
    return barriers(function, frozenset((WAVE_BARRIER,)))


def place_of(barrier: Instruction) -> int:
    """The fault number that a barrier's call carries."""
    return int(barrier.text.rsplit("i32 ", 1)[1].split(")", 1)[0])
