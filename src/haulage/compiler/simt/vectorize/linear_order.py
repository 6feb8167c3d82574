"""The order in which a region's blocks are linearised.

It is topological but for back edges, and loop-compact: the blocks of a loop stand together (Moll
and Hack, "Partial Control-Flow Linearization", PLDI 2018).
"""

from collections.abc import Iterator, Mapping

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.control_flow import EXIT, Loop
from haulage.compiler.simt.ir.model import Block, RegionEnd
from haulage.forks import cached_property


class Irreducible(Exception):
    """A cycle that can be entered at two places."""


class LinearOrder:
    """The order of a region's blocks, `labels`, and its `loops`, inner ones first.

    `edges` are those of a graph without cycles: a back edge leads to a node for the loop's next
    iteration, which leads to where the loop is left. What post-dominates a block there is come to
    in the same iteration. `next_of` has the loop's header for each of these nodes.

    Raises:
        Irreducible: there is no such order.
    """

    def __init__(self, blocks: Mapping[str, Block], entry: str) -> None:
        self.successors = {
            label: () if isinstance(block.terminator, RegionEnd) else block.successors
            for label, block in blocks.items()
        }
        self.predecessors = control_flow.invert(self.successors)
        self.loops = control_flow.natural_loops(self.successors, entry)
        self.labels = control_flow.reverse_postorder(self.successors, entry)
        self._headed = {loop.header: loop for loop in self.loops}
        # Inner ones first.
        self.loops_around = {
            label: [loop for loop in self.loops if label in loop.labels] for label in blocks
        }
        for loop in self.loops:
            start = self.labels.index(loop.header)
            rest = self.labels[start:]
            self.labels[start:] = sorted(rest, key=lambda label: label not in loop.labels)
        place = {label: number for number, label in enumerate(self.labels)}
        for source in self.labels:
            for target in self.successors[source]:
                if place[target] <= place[source] and not self.is_back_edge(source, target):
                    raise Irreducible
        self.next_of = {f"{header}/next": header for header in self._headed}
        self.edges = {label: self._forward(label) for label in self.labels}
        for node, header in self.next_of.items():
            labels = self._headed[header].labels
            targets = {target for label in labels for target in self.edges[label]}
            left = (each for each in targets if self.next_of.get(each, each) not in labels)
            self.edges[node] = sorted(left)
        self.postdominators = control_flow.immediate_postdominators(self.edges)

    def _forward(self, source: str) -> list[str]:
        return [
            f"{target}/next" if self.is_back_edge(source, target) else target
            for target in dict.fromkeys(self.successors[source])
        ]

    def is_back_edge(self, source: str, target: str) -> bool:
        """Whether an edge begins a loop's next iteration."""
        return target in self._headed and source in self._headed[target].labels

    def loops_left(self, source: str, target: str) -> Iterator[Loop]:
        """The loops that a block stands in and another one does not."""
        return (loop for loop in self.loops_around[source] if target not in loop.labels)

    def entering(self, label: str, *, back: bool = False) -> list[str]:
        """Where control comes to a block from; to a loop's header from outside, or, with `back`,
        from the iteration before."""
        sources = self.predecessors[label]
        return [source for source in sources if self.is_back_edge(source, label) == back]

    def items(self, inside: Loop | None) -> list[tuple[str, Loop | None]]:
        """The blocks of a loop, or of the region, in order; each loop within it as one, by its
        header."""
        found: list[tuple[str, Loop | None]] = []
        for label in self.labels:
            innermost, *others = *self.loops_around[label], None
            if innermost is inside:
                found.append((label, None))
            elif innermost is not None and innermost.header == label and others[0] is inside:
                found.append((label, innermost))
        return found

    @cached_property
    def equivalent(self) -> Mapping[str, str]:
        """For each block that has one, one that is control equivalent: it dominates this one, which
        post-dominates it. In place of one in a loop that this one is not in stands the header."""
        dominators = control_flow.immediate_dominators(self.edges, self.labels[0])
        found: dict[str, str] = {}
        for label in self.labels[1:]:
            start = dominators[label]
            for loop in self.loops_left(start, label):
                start = loop.header
            after = self.postdominators[start]
            while after not in (EXIT, label):
                after = self.postdominators[after]
            if after == label:
                found[label] = start
        return found
