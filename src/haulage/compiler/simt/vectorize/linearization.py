"""Linearises the control flow of a region: masks instead of branches (control-flow to data-flow
conversion, Allen et al., 1983).

Blocks follow one another (`loop_tree.py`), each with the mask of the lanes that came to it, and are
jumped over if there are none. A loop is repeated for the lanes that went back to its header, until
none is left. What each lane had of a value when it left a loop is kept for it (`Values.define`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from haulage.compiler.mathematics.definitions import DIVISIONS, is_mathematics
from haulage.compiler.simt.ir.model import Block, Instruction, RegionEnd
from haulage.compiler.simt.vectorize.builder import EVERY_LANE, NO_LANE, VectorBuilder
from haulage.compiler.simt.vectorize.loop_tree import LoopTree, Node, label_of
from haulage.compiler.simt.vectorize.shapes import Shapes
from haulage.compiler.simt.vectorize.vector_forms import has_vector_form
from haulage.compiler.simt.vectorize.widening import Values, Widening

# Blocks of no more instructions than this, all plain arithmetic, are not worth jumping over.
_SHORT = 8

# Writes the end of a block that ends the region, for the lanes of a mask.
End = Callable[[Block, str], None]


@dataclass
class _Edge:
    """Control going from one block to another: in which lanes, and whether in any."""

    source: str
    target: str
    mask: str
    taken: str


class Linearization:
    """Writes all blocks of one region."""

    def __init__(
        self,
        builder: VectorBuilder,
        values: Values,
        shapes: Shapes,
        tree: LoopTree,
        blocks: Mapping[str, Block],
        end: End,
    ) -> None:
        self._builder = builder
        self._values = values
        self._shapes = shapes
        self._tree = tree
        self._blocks = blocks
        self._end = end
        self._widening = Widening(builder, values, shapes)
        # Whether some lane is surely active in the block that is being written.
        self._is_active = True
        mask = builder.mask_type
        headers = [loop.header for loop in tree.loops()]
        divergent = [header for header in headers if header in shapes.divergent]
        # The lanes that came to a block, and whether any did.
        self._masks = {label: builder.slot(mask) for label in blocks}
        self._taken = {label: builder.slot("i1") for label in blocks}
        # The lanes in this iteration of a divergent loop, and in the next; whether there is a next
        # one of other loops.
        self._active = {header: builder.slot(mask) for header in divergent}
        self._next = {header: builder.slot(mask) for header in divergent}
        self._more = {
            header: builder.slot("i1") for header in headers if header not in shapes.divergent
        }
        self._phis = {
            phi.result: builder.slot(self._kind(phi))
            for block in blocks.values()
            for phi in block.phis
            if phi.result
        }

    def _kind(self, phi: Instruction) -> str:
        return self._builder.vector_type(phi.type) if self._varies(phi) else phi.type

    def _varies(self, phi: Instruction) -> bool:
        assert phi.result is not None
        return self._shapes.of(phi.result) is None

    def write(self, mask: str) -> None:
        """Write the blocks, which begin with the lanes of `mask`, at least one."""
        root = self._tree.root
        self._builder.store(self._builder.mask_type, mask, self._masks[root.header])
        self._clear(root)
        self._items(root)

    def _clear(self, node: Node) -> None:
        """Nobody has come to the items of a node yet."""
        for label in map(label_of, node.items[1:]):
            self._builder.store(self._builder.mask_type, NO_LANE, self._masks[label])
            self._builder.store("i1", "false", self._taken[label])

    def _copy(self, kind: str, source: str, target: str) -> None:
        self._builder.store(kind, self._builder.load(kind, source), target)

    def _include(self, kind: str, slot: str, value: str) -> None:
        """Add lanes to a mask, or a reason to a condition, in a slot."""
        old = self._builder.load(kind, slot)
        self._builder.store(kind, self._builder.binary("or", kind, old, value), slot)

    def _items(self, node: Node) -> None:
        builder = self._builder
        reached = {node.header}
        for item in node.items:
            label = label_of(item)
            same = node.equivalent.get(label)
            if same is not None:
                self._copy(builder.mask_type, self._mask_of(same, node), self._masks[label])
                if same in reached:
                    reached.add(label)
                else:
                    self._copy("i1", self._taken[same], self._taken[label])
            self._is_active = label in reached
            if label in reached or (not isinstance(item, Node) and self._is_short(item)):
                self._item(item, node)
                continue
            self._is_active = True
            with builder.when(builder.load("i1", self._taken[label]), "lanes.here"):
                self._item(item, node)

    def _item(self, item: str | Node, node: Node) -> None:
        if isinstance(item, Node):
            self._loop(item)
        else:
            mask = self._builder.load(self._builder.mask_type, self._mask_of(item, node))
            self._block(item, mask)

    def _mask_of(self, label: str, node: Node) -> str:
        """The slot with the lanes that came to an item of a node."""
        if node.is_loop and label == node.header:
            return self._active.get(label, self._masks[label])
        return self._masks[label]

    def _loop(self, node: Node) -> None:
        builder, header = self._builder, node.header
        mask, is_divergent = builder.mask_type, header in self._active
        if is_divergent:
            self._copy(mask, self._masks[header], self._active[header])
        with builder.repeat("lanes.loop") as loop:
            if is_divergent:
                builder.store(mask, NO_LANE, self._next[header])
            else:
                builder.store("i1", "false", self._more[header])
            self._clear(node)
            self._items(node)
            if is_divergent:
                following = builder.load(mask, self._next[header])
                builder.store(mask, following, self._active[header])
                loop.more = builder.any_lane(following)
            else:
                loop.more = builder.load("i1", self._more[header])

    def _is_short(self, label: str) -> bool:
        """Whether a block is written so that it does no harm if no lane is active."""
        block = self._blocks[label]
        if isinstance(block.terminator, RegionEnd) or len(block.body) > _SHORT:
            return False
        targets = block.successors
        if not targets or (len(targets) > 1 and not self._shapes.is_divergent(label)):
            return False
        if not all(self._varies(phi) for target in targets for phi in self._blocks[target].phis):
            return False
        if any(self._values.would_lose(item.result) for item in block.instructions()):
            return False
        return all(
            has_vector_form(item)
            and item.opcode not in (*DIVISIONS, "load", "store")
            and not is_mathematics(item.callee)
            for item in block.body
        )

    def _block(self, label: str, mask: str) -> None:
        values, block = self._values, self._blocks[label]
        values.label = label
        for phi in block.phis:
            assert phi.result is not None
            value = self._builder.load(self._kind(phi), self._phis[phi.result])
            values.define(phi.result, value, mask)
        for item in block.body:
            self._widening.write(item, mask)
        end = block.terminator
        if isinstance(end, RegionEnd) or not block.successors:
            self._end(block, mask)
            return
        assert end is not None
        condition = block.condition
        if len(set(end.targets)) == 1 or condition is None:
            taken = "true" if self._is_active else self._builder.any_lane(mask)
            self._follow(_Edge(label, end.targets[0], mask, taken))
        elif values.shape(condition) == 0:
            self._branch(label, end, condition, mask)
        else:
            self._part(label, end, condition, mask)

    def _branch(self, label: str, end: Instruction, condition: str, mask: str) -> None:
        """All lanes, of which some are active, take one edge; nothing is done for the other."""
        one, other = (_Edge(label, target, mask, "true") for target in end.targets)
        self._builder.either(
            self._values.scalar(condition), lambda: self._follow(one), lambda: self._follow(other)
        )

    def _part(self, label: str, end: Instruction, condition: str, mask: str) -> None:
        """Some lanes take one edge and the others the other one."""
        builder = self._builder
        where = self._values.vector("i1", condition)
        elsewhere = builder.binary("xor", builder.mask_type, where, EVERY_LANE)
        edges: list[_Edge] = []
        for target, lanes in zip(end.targets, (where, elsewhere), strict=True):
            lanes = builder.logical_and(mask, lanes)
            edges.append(_Edge(label, target, lanes, builder.any_lane(lanes)))
        for edge in edges:
            self._follow(edge)

    def _follow(self, edge: _Edge) -> None:
        """Note which lanes take an edge, and what its phis take with it."""
        target, mask = edge.target, self._builder.mask_type
        self._pass_to_phis(edge)
        if not self._is_back_edge(edge.source, target):
            self._include(mask, self._masks[target], edge.mask)
            self._include("i1", self._taken[target], edge.taken)
        elif target in self._next:
            self._include(mask, self._next[target], edge.mask)
        else:
            self._include("i1", self._more[target], edge.taken)

    def _is_back_edge(self, source: str, target: str) -> bool:
        return self._tree.node_of[target].is_back_edge(source, target)

    def _pass_to_phis(self, edge: _Edge) -> None:
        builder, values = self._builder, self._values
        is_only = self._is_only(edge)
        stores: list[tuple[str, str, str]] = []
        for phi in self._blocks[edge.target].phis:
            assert phi.result is not None
            value = next(value for value, label in phi.incoming if label == edge.source)
            slot, kind, varies = self._phis[phi.result], self._kind(phi), self._varies(phi)
            new = values.vector(phi.type, value) if varies else values.scalar(value)
            if not is_only:
                old = builder.load(kind, slot)
                if varies:
                    new = builder.blend(edge.mask, phi.type, new, old)
                else:
                    new = builder.select(edge.taken, kind, new, old)
            stores.append((kind, new, slot))
        for store in stores:
            builder.store(*store)

    def _is_only(self, edge: _Edge) -> bool:
        """Whether nothing that phis have yet to take could be lost by storing for all lanes."""
        source, target = edge.source, edge.target
        is_back_edge = self._is_back_edge(source, target)
        others = [
            each
            for each in self._tree.predecessors[target]
            if self._is_back_edge(each, target) == is_back_edge
        ]
        left = self._tree.loops_left(source, target)
        return len(others) == 1 and not any(loop.header in self._shapes.divergent for loop in left)
