"""The barriers of a function."""

from haulage.compiler.simt.model import Function, Instruction
from haulage.targets.cpu import BARRIER


def barriers(function: Function) -> list[tuple[str, int, int]]:
    """(label, index in the block's body, fault number) of each barrier."""
    return [
        (block.label, index, place_of(item))
        for block in function.blocks.values()
        for index, item in enumerate(block.body)
        if item.callee == BARRIER
    ]


def place_of(barrier: Instruction) -> int:
    """The fault number that a barrier's call carries."""
    return int(barrier.text.rsplit("i32 ", 1)[1].split(")", 1)[0])
