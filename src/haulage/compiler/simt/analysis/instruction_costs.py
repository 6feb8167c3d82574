"""What instructions cost a thread, in cycles and by a rough measure: alone, and on vectors.

What an access costs is read from its strides, as in Kennedy and McKinley, "Optimizing for
Parallelism and Data Locality" (ICS 1992), and LLVM's LoopCacheAnalysis.
"""

from haulage.compiler.mathematics.definitions import is_mathematics
from haulage.compiler.simt.analysis.kernel import Storage
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.strides import (
    IRREGULAR,
    UNKNOWN,
    Stride,
    by_thread,
    size_of_access,
)
from haulage.compiler.simt.ir.model import Instruction
from haulage.compiler.simt.ir.types import size_of

# Iterations of a loop whose trip count is not known.
ITERATIONS = 8
ARITHMETIC = 0.25
MATHEMATICS = 16.0
ACCESS = 0.5
_COMMON_LOAD = 0.05
# An instruction on a vector of this many bytes takes longer than one on a number.
VECTOR = 64
WORD = 8
_ON_VECTORS = 2.0
# A lane's part of a gather from a row for each of them, and from anywhere; there is none of small
# elements. Accesses so many elements apart become wide ones and permutations.
_GATHER = 2.0
_SCATTERED = 6.0
_SMALLEST_GATHERED = 4
_NEAR = 4
# What it costs that each access is in another row, and takes a part of what the cache fetches.
_FETCH = 2.0

# When an instruction's result can be used.
_LATENCIES = {"load": 5.0} | dict.fromkeys(("phi", "getelementptr", "zext", "sext", "trunc"), 0.0)
_FLOAT_LATENCY = 4.0
_MATHEMATICS_LATENCY = 40.0


def is_access(item: Instruction) -> bool:
    """Whether it is a load or a store."""
    return item.opcode in ("load", "store")


def alone(item: Instruction) -> float:
    """What it costs by itself."""
    if is_access(item):
        return ACCESS
    return MATHEMATICS if is_mathematics(item.callee) else ARITHMETIC


def wide(item: Instruction, threads: int) -> float:
    """The part of a thread, of so many, of an instruction on vectors of neighbours."""
    kinds = [each.type for each in item.operands] + [item.type]
    size = max((size_of(kind) or 0 for kind in kinds if kind != "ptr"), default=0) or WORD
    return _ON_VECTORS * alone(item) / max(1, min(threads, VECTOR // size))


def in_turn(item: Instruction, stride: Stride) -> float:
    """What it costs a thread, or an iteration, if the next one accesses what is a stride apart."""
    if not is_access(item):
        return alone(item)
    return _COMMON_LOAD if stride == 0 and item.opcode == "load" else ACCESS + fetch(item, stride)


def fetch(item: Instruction, stride: Stride) -> float:
    """What an access costs more if the next one is in another row of an array."""
    part = (size_of_access(item) or WORD) / WORD if stride == UNKNOWN else 0.0
    return part * (_FETCH if item.opcode == "load" else 2 * _FETCH)


def latency(item: Instruction) -> float:
    """After how long its result can be used."""
    if is_mathematics(item.callee):
        return _MATHEMATICS_LATENCY
    is_float = item.type in ("float", "double", "half") and item.opcode != "select"
    return _LATENCIES.get(item.opcode, _FLOAT_LATENCY if is_float else 1.0)


class ThreadCosts:
    """What instructions cost with a loop over threads around them, innermost along one axis."""

    def __init__(self, analyses: Analyses, private: tuple[Storage, ...] = ()) -> None:
        self._strict = analyses.get(by_thread, private)
        self._likely = analyses.get(by_thread, private, wraparound=False)

    def in_turn(self, item: Instruction, position: int) -> float:
        """The part of a thread whose neighbours follow it one by one."""
        return in_turn(item, self._likely.of(item.address)[position])

    def on_vectors(
        self, item: Instruction, position: int, threads: int, *, by_llvm: bool = True
    ) -> float:
        """The part of a thread, of so many, on vectors of neighbours, as LLVM's loop vectoriser
        makes them or our own, which asks whether an index is negative."""
        if not is_access(item):
            return wide(item, threads)
        size = size_of_access(item) or WORD
        stride = self._strict.of(item.address)[position]
        likely = self._likely.of(item.address)[position]
        if stride == size:
            return wide(item, threads)
        if stride == 0:
            return _COMMON_LOAD if item.opcode == "load" else ACCESS
        is_near = isinstance(stride, int) and abs(stride) <= _NEAR * size
        if is_near if by_llvm else likely in (0, size):
            return 2 * wide(item, threads)
        gathers = likely != IRREGULAR and size >= _SMALLEST_GATHERED
        return (_GATHER if gathers else _SCATTERED) + fetch(item, likely)
