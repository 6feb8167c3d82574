"""Linearises the control flow of a region: masks instead of branches (control-flow to data-flow
conversion, Allen et al., 1983).

Blocks follow one another (`shapes.py`), each with the mask of the lanes that came to it, and
are jumped over if there are none. A loop is repeated for the lanes that went back to its header,
until none is left. What each lane had of a value when it left a loop is kept for it
(`Values.define`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from haulage.compiler.mathematics.definitions import DIVISIONS, is_mathematics
from haulage.compiler.simt.analysis.control_flow import Loop
from haulage.compiler.simt.ir.model import Block, Instruction, RegionEnd
from haulage.compiler.simt.vectorize.builder import (
    EVERY_LANE,
    NO_LANE,
    VectorBuilder,
    is_scalarized,
)
from haulage.compiler.simt.vectorize.shapes import LinearOrder, Shapes
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
        order: LinearOrder,
        blocks: Mapping[str, Block],
        end: End,
    ) -> None:
        self._builder = builder
        self._values = values
        self._shapes = shapes
        self._order = order
        self._blocks = blocks
        self._end = end
        self._widening = Widening(builder, values, shapes)
        # Whether some lane is surely active in the block that is being written.
        self._is_active = True
        mask = builder.mask_type
        headers = [loop.header for loop in order.loops]
        divergent = [header for header in headers if header in shapes.divergent]
        # The lanes that came to a block, and whether any did.
        self._masks = {label: builder.slot(mask) for label in blocks}
        self._taken = {label: builder.slot("i1") for label in blocks}
        # Whether any lane goes round a loop again; of a divergent loop the lanes that do, and those
        # that are in this iteration.
        self._more = {header: builder.slot("i1") for header in headers}
        self._next = {header: builder.slot(mask) for header in divergent}
        self._active = {header: builder.slot(mask) for header in divergent}
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
        self._builder.store(self._builder.mask_type, mask, self._masks[self._order.labels[0]])
        self._items(None)

    def _copy(self, kind: str, source: str, target: str) -> None:
        self._builder.store(kind, self._builder.load(kind, source), target)

    def _include(self, kind: str, slot: str, value: str) -> None:
        """Add lanes to a mask, or a reason to a condition, in a slot."""
        old = self._builder.load(kind, slot)
        self._builder.store(kind, self._builder.binary("or", kind, old, value), slot)

    def _items(self, inside: Loop | None) -> None:
        """Write one iteration of a loop, or all of the region."""
        builder = self._builder
        first, *others = self._order.items(inside)
        for label, _ in others:
            # Nobody has come here yet.
            builder.store(builder.mask_type, NO_LANE, self._masks[label])
            builder.store("i1", "false", self._taken[label])
        reached = {first[0]}
        for label, loop in (first, *others):
            same = self._order.equivalent.get(label) if label != first[0] else None
            if same is not None:
                self._copy(builder.mask_type, self._mask_of(same, inside), self._masks[label])
                if same in reached:
                    reached.add(label)
                else:
                    self._copy("i1", self._taken[same], self._taken[label])
            self._is_active = label in reached
            if label in reached or (loop is None and self._is_short(label)):
                self._item(label, loop, inside)
                continue
            self._is_active = True
            with builder.when(builder.load("i1", self._taken[label]), "lanes.here"):
                self._item(label, loop, inside)

    def _item(self, label: str, loop: Loop | None, inside: Loop | None) -> None:
        if loop is not None:
            self._loop(loop)
        else:
            mask = self._builder.load(self._builder.mask_type, self._mask_of(label, inside))
            self._block(label, mask)

    def _mask_of(self, label: str, inside: Loop | None) -> str:
        """The slot with the lanes that came to a block in this iteration."""
        if inside is not None and label == inside.header:
            return self._active.get(label, self._masks[label])
        return self._masks[label]

    def _loop(self, loop: Loop) -> None:
        builder, header, mask = self._builder, loop.header, self._builder.mask_type
        is_divergent = header in self._active
        if is_divergent:
            self._copy(mask, self._masks[header], self._active[header])
        with builder.repeat("lanes.loop") as written:
            builder.store("i1", "false", self._more[header])
            if is_divergent:
                builder.store(mask, NO_LANE, self._next[header])
            self._items(loop)
            if is_divergent:
                self._copy(mask, self._next[header], self._active[header])
            written.more = builder.load("i1", self._more[header])

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
        return all(
            not is_scalarized(item)
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
        self._builder.choose(
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
        target = edge.target
        self._pass_to_phis(edge)
        is_next = self._order.is_back_edge(edge.source, target)
        masks, taken = (self._next, self._more) if is_next else (self._masks, self._taken)
        if target in masks:
            self._include(self._builder.mask_type, masks[target], edge.mask)
        self._include("i1", taken[target], edge.taken)

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
        is_next = self._order.is_back_edge(source, target)
        meets = self._order.meets(target, back=is_next)
        return not (meets or self._shapes.leaves_divergent(source, target))
