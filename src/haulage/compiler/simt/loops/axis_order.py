"""In which order the work-item loops are nested.

`i, j = cuda.grid(2)` with `a[i, j]` makes threads that are neighbours along x a row apart. On a GPU
that is slow and on a CPU slower: every access becomes a gather. As threads may run in any order
between two barriers, the innermost loop is the one along which the accesses are next to one
another: loop permutation for locality, as in Allen and Kennedy, "Optimizing Compilers for Modern
Architectures" (2001), chapter 9.
"""

from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.strides import StrideAnalysis, size_of_access
from haulage.compiler.simt.ir.axes import AXES
from haulage.compiler.simt.ir.model import Instruction

# Of the nests with a given innermost axis the one in which the next axes follow as they do in
# arrays that are indexed by the axes in turn.
DEFAULT_ORDER = "zyx"
_NESTS = {"x": DEFAULT_ORDER, "y": "zxy", "z": "xyz"}

# Lanes of a vector of 32-bit numbers, and how much more often a loop is run than what is around it.
_LANES = 16
_ITERATIONS = 8
_DEEPEST = 4

# What one thread's part costs: of arithmetic, of an access of its own, of one that all share.
_ARITHMETIC = 0.25
_SCATTERED = 1.0
_SHARED_LOAD = 0.05
_SHARED_STORE = 0.5


def axis_order(analyses: Analyses, sizes: tuple[int, int, int]) -> str:
    """The axes in the order in which to nest their loops, outermost first, for one block size."""
    candidates = [axis for axis in AXES if sizes[AXES.index(axis)] > 1] or ["x"]
    if len(candidates) == 1:
        return _NESTS[candidates[0]]
    costs = _costs(analyses, sizes)
    # Of equals x, whose threads are neighbours in a program's mind.
    return _NESTS[min(candidates, key=lambda axis: costs[AXES.index(axis)])]


def _costs(analyses: Analyses, sizes: tuple[int, int, int]) -> list[float]:
    """What running all threads along each axis takes, by a rough measure."""
    strides = analyses.get(StrideAnalysis)
    costs = [0.0, 0.0, 0.0]
    for label, block in analyses.function.blocks.items():
        depth = sum(label in loop.labels for loop in analyses.loops)
        weight = _ITERATIONS ** min(depth, _DEEPEST)
        for item in block.body:
            for position, size in enumerate(sizes):
                lanes = min(size, _LANES)
                costs[position] += weight * _cost(item, strides, position, lanes)
    return costs


def _cost(item: Instruction, strides: StrideAnalysis, position: int, lanes: int) -> float:
    if item.opcode not in ("load", "store"):
        return _ARITHMETIC / lanes
    stride = strides.of(item.address)[position]
    if stride == 0:
        return _SHARED_LOAD if item.opcode == "load" else _SHARED_STORE
    if isinstance(stride, int) and abs(stride) == size_of_access(item):
        return 1 / lanes
    return _SCATTERED
