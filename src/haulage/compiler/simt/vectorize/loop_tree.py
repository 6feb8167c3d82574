"""The tree of a region's loops, and the order in which its blocks are linearised: one after
another, loops within loops.

With every loop taken as one node a reducible graph has no cycle. In that order a block comes after
all that can lead to it, and the blocks of a loop stand together.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.control_flow import EXIT, Loop, Successors
from haulage.compiler.simt.ir.model import Block, RegionEnd


class Irreducible(Exception):
    """A cycle that can be entered at two places."""


@dataclass
class Node:
    """A loop, or the whole region, whose `header` is its entry.

    `items` are labels and inner loops in order, the header first; `edges` lead from item to item
    (inner loops by their headers), with `EXIT` for all edges that leave the node or begin its next
    iteration. `equivalent[item]` is an item that is control equivalent: it dominates this one,
    which post-dominates it. `postdominators` has the immediate one of each item.
    """

    header: str
    labels: frozenset[str]
    parent: "Node | None"
    items: list["str | Node"] = field(default_factory=list)
    edges: dict[str, list[str]] = field(default_factory=dict)
    equivalent: dict[str, str] = field(default_factory=dict)
    postdominators: dict[str, str] = field(default_factory=dict)

    @property
    def is_loop(self) -> bool:
        return self.parent is not None

    def is_back_edge(self, source: str, target: str) -> bool:
        """Whether an edge begins the loop's next iteration."""
        return self.is_loop and target == self.header and source in self.labels


class LoopTree:
    """The loops of a region, given as label -> successors."""

    def __init__(self, successors: Successors, entry: str) -> None:
        self.successors = successors
        loops = control_flow.natural_loops(successors, entry)
        # The innermost node of each block.
        self.node_of: dict[str, Node] = {}
        self.root = self._node(entry, frozenset(successors), None, loops)
        self.predecessors = control_flow.invert(successors)

    def around(self, label: str) -> Iterator[Node]:
        """The nodes that a block stands in, the innermost first."""
        node: Node | None = self.node_of[label]
        while node is not None:
            yield node
            node = node.parent

    def loops_left(self, source: str, target: str) -> Iterator[Node]:
        """The loops that a block stands in and another one does not."""
        return (node for node in self.around(source) if node.is_loop and target not in node.labels)

    def nodes(self) -> list[Node]:
        """Every node, inner ones first."""
        found: list[Node] = []
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            found.append(node)
            waiting += (item for item in node.items if isinstance(item, Node))
        return found[::-1]

    def loops(self) -> list[Node]:
        """Every loop, inner ones first."""
        return [node for node in self.nodes() if node.is_loop]

    def item_of(self, label: str, node: Node) -> str:
        """The item of `node` that a block inside it belongs to."""
        inner = label
        for each in self.around(label):
            if each is node:
                return inner
            inner = each.header
        raise KeyError(label)

    def _node(
        self, header: str, labels: frozenset[str], parent: Node | None, loops: list[Loop]
    ) -> Node:
        node = Node(header, labels, parent)
        within = [loop for loop in loops if loop.labels < labels and loop.header != header]
        inner = {
            loop.header: loop
            for loop in within
            if not any(loop.labels < other.labels for other in within)
        }
        item = {label: loop.header for loop in inner.values() for label in loop.labels}
        edges: dict[str, list[str]] = {}
        for label in self.successors:
            if label not in labels:
                continue
            source = item.get(label, label)
            found = edges.setdefault(source, [])
            for target in self.successors[label] or (EXIT,):
                is_inside = target != header and target in labels
                to = item.get(target, target) if is_inside else EXIT
                if to != source and to not in found:
                    found.append(to)
        edges[EXIT] = []
        order = [each for each in control_flow.reverse_postorder(edges, header) if each != EXIT]
        place = {each: number for number, each in enumerate(order)}
        if any(
            to != EXIT and place[to] <= place[source] for source in order for to in edges[source]
        ):
            raise Irreducible
        for each in order:
            if each in inner:
                node.items.append(self._node(each, inner[each].labels, node, loops))
            else:
                self.node_of[each] = node
                node.items.append(each)
        node.edges = edges
        node.postdominators = control_flow.immediate_postdominators(edges)
        node.equivalent = _equivalent(edges, order, node.postdominators)
        return node


def label_of(item: str | Node) -> str:
    """A block's label, or that of a loop's header."""
    return item.header if isinstance(item, Node) else item


def successors_within(blocks: Mapping[str, Block]) -> dict[str, tuple[str, ...]]:
    """The control-flow graph of a region's blocks."""
    return {
        label: () if isinstance(block.terminator, RegionEnd) else block.successors
        for label, block in blocks.items()
    }


def _equivalent(
    edges: Mapping[str, list[str]], order: list[str], postdominators: Mapping[str, str]
) -> dict[str, str]:
    dominators = control_flow.immediate_dominators(edges, order[0])
    found: dict[str, str] = {}
    for each in order[1:]:
        start = dominators[each]
        behind = postdominators.get(start, EXIT)
        while behind not in (EXIT, each):
            behind = postdominators[behind]
        if behind == each:
            found[each] = start
    return found
