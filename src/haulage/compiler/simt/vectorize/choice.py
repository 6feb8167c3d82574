"""Which regions run for a chunk of lanes at a time, and for how many."""

from math import prod

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.emit.region_function import RegionFunctions
from haulage.compiler.simt.ir.model import Instruction, RegionEnd
from haulage.compiler.simt.regions.parallel_regions import Region
from haulage.compiler.simt.vectorize.function import LaneFunction, can_run
from haulage.compiler.simt.vectorize.layout import Irreducible
from haulage.compiler.simt.vectorize.operations import BINARY, BYTES, elementwise
from haulage.compiler.simt.vectorize.work import Work

# Two vectors of each value keep the processor's pipelines busier than one.
_VECTORS = 2
_FEWEST = 8
# As many as multiply-adds are on their way at once, where nothing else is done.
_MOST_VECTORS = 8

# Accesses of lanes that are not neighbours take as long as one after the other; so much arithmetic
# has to come with each that it is worth to have it for many lanes at once.
_ARITHMETIC_PER_ACCESS = 8
# An instruction for each lane in turn takes longer than in a loop of its own.
_ARITHMETIC_PER_TURN = 16


def lane_function(
    functions: RegionFunctions,
    region: Region,
    block: tuple[int, int, int],
    axes: tuple[str, ...],
    vector_bits: int,
    alive: int = 0,
) -> LaneFunction | None:
    """The function of a region for a chunk of lanes, or None if it has to run for one thread after
    the other.

    A region without a loop of its own is left to LLVM. `vector_bits` are those of the processor's
    vectors. `alive` is how many values of each thread live in a turn of a loop that all threads go
    round together, and that is to be run in chunks of neighbours; 0 if there is none.
    """
    blocks = {label: functions.regions.function.blocks[label] for label in region.labels}
    successors = {
        label: () if isinstance(each.terminator, RegionEnd) else each.successors
        for label, each in blocks.items()
    }
    looped = {
        label
        for loop in control_flow.natural_loops(successors, region.entry)
        for label in loop.labels
    }
    if not looped or not can_run(functions, region):
        return None
    items = [item for label in looped for item in blocks[label].instructions()]
    if any(item.opcode == "fence" or item.stays or _is_foreign(item) for item in items):
        # Lanes cannot wait for one another while they are in the same loop.
        return None
    of_vector = vector_bits // (8 * _common_bytes(items))
    lanes = (_vectors(alive, vector_bits) if alive else _VECTORS) * of_vector
    while lanes > max(prod(block), _FEWEST):
        lanes //= 2
    if alive and len(axes) > 1:
        row = block["xyz".index(axes[-1])]
        while row % lanes:
            lanes //= 2
        if lanes < _VECTORS * of_vector:
            return None
    try:
        return LaneFunction(functions, region, block, axes, max(lanes, _FEWEST))
    except Irreducible:
        return None


def is_worth_it(work: Work) -> bool:
    """Whether lanes are faster than threads one after the other."""
    least = _ARITHMETIC_PER_ACCESS * work.apart + _ARITHMETIC_PER_TURN * work.one_by_one
    if work.one_by_one or work.scattered:
        # Where each lane writes to a place of its own, as an insertion or a stack does, most lanes
        # moreover wait for the few that do so.
        return work.arithmetic >= least
    if work.follows_loads or (work.parts and not work.nested):
        # Threads one after the other would wait for branches foretold wrongly, or for memory.
        # In loops within one another most lanes wait themselves.
        return True
    return work.arithmetic >= least


def _vectors(alive: int, vector_bits: int) -> int:
    """How many vectors of each value fit into the processor's registers."""
    registers = 16 if vector_bits == 256 else 32
    vectors = _MOST_VECTORS
    while vectors > _VECTORS and vectors * alive > registers:
        vectors //= 2
    return vectors


def _is_foreign(item: Instruction) -> bool:
    return item.opcode == "call" and elementwise(item.callee) is None


def _common_bytes(items: list[Instruction]) -> int:
    """The size of the numbers that most is done with."""
    sizes = [BYTES[item.type] for item in items if item.type in ("half", "float", "double")]
    if not sizes:
        sizes = [BYTES[item.type] for item in items if item.opcode in BINARY and item.type in BYTES]
    if not sizes:
        return 4
    return max(4, max(set(sizes), key=sizes.count))
