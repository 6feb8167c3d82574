"""The barriers of a function: those of the grid, of a block, of a wavefront or a warp's lanes."""

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.ir.model import Function, Instruction
from haulage.targets.cpu import BARRIER, GRID_BARRIER, WAVE_BARRIER
from haulage.targets.cpu_lanes import COLLECTIVES, WARP_BARRIER

GRID_BARRIERS = frozenset((GRID_BARRIER,))
BLOCK_BARRIERS = frozenset((BARRIER,))
# Those that threads of one wavefront wait at for one another, collectives too.
WAVE_BARRIERS = frozenset((WAVE_BARRIER, WARP_BARRIER)) | COLLECTIVES
# Those that no thread of the block passes before the others came there, or have ended.
BLOCK_WIDE = BLOCK_BARRIERS | GRID_BARRIERS
# Those that do not wait for threads that have ended.
PATIENT_BARRIERS = WAVE_BARRIERS | GRID_BARRIERS
BARRIERS = PATIENT_BARRIERS | BLOCK_BARRIERS


def barriers(function: Function, kinds: frozenset[str] = BARRIERS) -> list[tuple[str, int, int]]:
    """(label, index in the block's body, fault number) of each barrier of some kinds."""
    return [
        (block.label, index, place_of(item))
        for block in function.blocks.values()
        for index, item in enumerate(block.body)
        if item.callee in kinds
    ]


def in_order(function: Function) -> list[str]:
    """Labels of the blocks with barriers, in the order in which threads that diverged should go on
    so that they converge: what is in a loop comes before what is behind it."""
    waiting = {label for label, _, _ in barriers(function)}
    order = control_flow.Graph(function.successors(), function.entry).loops_before_exits()
    return [label for label in order if label in waiting]


def place_of(barrier: Instruction) -> int:
    """The fault number that a barrier's call carries."""
    number = barrier.operands[-1].number
    assert number is not None, barrier
    return number


def lanes_of(barrier: Instruction) -> str:
    """The LLVM value that says which of 64 threads a barrier of a wavefront waits for: a bit for
    each, or 0 for those that come to this place."""
    return "-1" if barrier.callee == WAVE_BARRIER else barrier.operands[0].text
