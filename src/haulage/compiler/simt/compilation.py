"""What the passes of the CPU compiler hand on: the kernel, and what is decided about it so far."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from haulage.compiler.simt.analysis import AXES, guards
from haulage.compiler.simt.analysis.exits import EarlyExit
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.uniformity import Uniformity, Warps
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.emit import warp_collectives
from haulage.compiler.simt.emit.loop_nest import looped_axes
from haulage.compiler.simt.emit.warp_collectives import Collective
from haulage.compiler.simt.ir.model import Function
from haulage.compiler.simt.loops import loop_order
from haulage.compiler.simt.loops.atomics import Reduction
from haulage.compiler.simt.loops.block_coalescing import WideBlock
from haulage.compiler.simt.loops.loop_order import LoopOrders
from haulage.compiler.simt.regions.parallel_regions import Regions
from haulage.compiler.simt.vectorize import plan
from haulage.targets.base import Target

# How threads are run; before it is decided, and where nobody asks for one of the others, "auto".
AUTO, REGIONS, SCALAR, COROUTINES = "auto", "regions", "scalar", "coroutines"

Block = tuple[int, int, int]


@dataclass
class Compilation:
    """One kernel on its way through the passes.

    `body` is the kernel as it is now; `block` the size of a block, `strategy` the one that was
    asked for, `taken` the one that was decided on; `off` are the passes that do not run.
    """

    body: Body
    target: Target
    block: Block
    strategy: str
    cooperative: bool
    off: frozenset[str]
    taken: str = AUTO

    # What is known of its threads. `flow` is how they diverge, without those that have left;
    # `together` with them; `lanes` which of them are a warp, if it has words of warps.
    exits: Mapping[str, EarlyExit] = field(default_factory=dict)
    lanes: Warps | None = None
    flow: Uniformity = field(init=False)
    together: Uniformity = field(init=False)
    # Labels of the blocks in which a thread may hold a lock; whether threads wait for one another.
    held: frozenset[str] = frozenset()
    waits: bool = False

    # The axes of the loops over threads, outermost first; the same where blocks are coalesced
    # along the axes `coalesced`.
    order: str = loop_order.DEFAULT_ORDER
    coalesced_order: str = loop_order.DEFAULT_ORDER
    coalesced: tuple[str, ...] = ()
    privatized: tuple[Reduction, ...] = ()
    declarations: list[str] = field(default_factory=list)
    copies: str = ""
    helpers: list[str] = field(default_factory=list)
    _analyses: Analyses | None = field(default=None, init=False)

    # Where to split: at the headers of interchanged loops, and in front of blocks. `strided` are
    # the headers of the loops that grid-stride loops became, `remainders` what they left.
    split_at_collectives: Function = field(init=False)
    collectives: Mapping[str, Collective] = field(default_factory=dict)
    strided: tuple[str, ...] = ()
    remainders: tuple[str, ...] = ()
    interchanged: list[str] = field(default_factory=list)
    at_guards: list[str] = field(default_factory=list)
    strips: Sequence[str] = ()
    around_strips: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    # The regions, and how they run.
    vectors: plan.Plan = field(default_factory=plan.Plan)
    split: Function | None = None
    kernel_guards: guards.Guards = field(default_factory=guards.Guards)
    regions: Regions | None = None
    wide: WideBlock | None = None
    parts: list[str] = field(default_factory=list)

    def is_on(self, name: str) -> bool:
        """Whether a pass runs."""
        return name not in self.off

    @property
    def function(self) -> Function:
        return self.body.function

    @property
    def private(self) -> frozenset[str]:
        """Names of the memory that each thread has of its own."""
        return frozenset(room.name for room in self.body.private)

    @property
    def own_memory(self) -> frozenset[str]:
        """Names of the memory of the block and its threads."""
        return self.private | {room.name for room in self.body.shared}

    @property
    def body_of_regions(self) -> Body:
        """The body with the memory of its collectives."""
        storage = warp_collectives.storage(self.collectives.values())
        return replace(self.body, shared=(*self.body.shared, *storage))

    @property
    def memory_of_regions(self) -> frozenset[str]:
        """Names of the memory that every region has at hand."""
        return self.private | {room.name for room in self.body_of_regions.shared}

    @property
    def has_ranges(self) -> bool:
        """Whether loops over threads can have bounds."""
        return self.is_on("iteration-ranges") and self.lanes is None

    @property
    def is_undecided(self) -> bool:
        """Whether regions may be vectorised, as the whole kernel is not."""
        vectors = self.vectors
        return self.lanes is None and vectors.regions is None and not vectors.stays_scalar

    @property
    def inner(self) -> int:
        """The number of the innermost axis."""
        return AXES.index(self.order[-1]) if self.lanes is None else 0

    @property
    def geometry(self) -> plan.Geometry:
        axes = looped_axes(self.block, self.order)
        return plan.Geometry(self.block, axes, vector_bits(self.target))

    @property
    def analyses(self) -> Analyses:
        """What is known of the function as it is now."""
        if self._analyses is None or self._analyses.function is not self.function:
            self._analyses = Analyses(self.function)
        return self._analyses

    @property
    def split_labels(self) -> list[str]:
        """Labels of the blocks to split at."""
        return list(dict.fromkeys([*self.interchanged, *self.remainders, *self.at_guards]))

    @property
    def loop_orders(self) -> LoopOrders:
        """The orders of loops that are the cheapest."""
        private, threads = self.body.private, self.block[self.inner]
        may_jam = not (self.body.may_fail or private or self.keeps_states)
        return self.analyses.get(LoopOrders, self.flow, private, may_jam, self.inner, threads)

    @property
    def keeps_states(self) -> bool:
        """Whether threads may leave otherwise than by the guards at the kernel's start."""
        if not self.flow.masks:
            return False
        ranges = self.analyses.get(ValueRanges)
        first = guards.of_kernel(self.function, self.flow.varying, ranges)
        return bool(self.flow.exiting - first.labels)

    def change(self, function: Function) -> None:
        """Put another function in the kernel's place."""
        self.body = replace(self.body, function=function)


def vector_bits(target: Target) -> int:
    """Bits of the processor's vectors."""
    features = target.features.split(",")
    return 512 if "+avx512f" in features else 256 if "+avx2" in features else 128
