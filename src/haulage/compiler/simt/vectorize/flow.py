"""Writes the control flow of a region for a chunk of lanes: masks instead of branches.

Blocks follow one another (`layout.py`), each with the mask of the lanes that came to it, and are
gone round if there are none. A loop begins anew with the lanes that went back to its header, until
none is left. What lanes that left a loop last had of it is kept for them (`Values.define`), so
nothing has to be done for those that are off.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from haulage.compiler.mathematics.definitions import DIVISIONS, is_mathematics
from haulage.compiler.simt.ir.model import Block, Instruction, RegionEnd
from haulage.compiler.simt.vectorize.layout import Layout, Region
from haulage.compiler.simt.vectorize.operations import elementwise, parse
from haulage.compiler.simt.vectorize.shapes import Shapes
from haulage.compiler.simt.vectorize.text import Text
from haulage.compiler.simt.vectorize.values import Values
from haulage.compiler.simt.vectorize.widening import Widening

# Blocks of no more instructions than this, all plain arithmetic, are not worth going round.
_SHORT = 8

# Writes the end of a block that ends the region, for the lanes of a mask.
End = Callable[[Block, str], None]


@dataclass
class _Way:
    """Control going from one block to another: in which lanes, and whether in any."""

    source: str
    target: str
    mask: str
    taken: str


class Flow:
    """Writes all blocks of one region."""

    def __init__(
        self,
        text: Text,
        values: Values,
        shapes: Shapes,
        layout: Layout,
        blocks: Mapping[str, Block],
        end: End,
        widening: Widening,
    ) -> None:
        self._text = text
        self._values = values
        self._shapes = shapes
        self._layout = layout
        self._blocks = blocks
        self._end = end
        self._widening = widening
        # Whether some lane is on in the block that is being written.
        self._is_on = True
        mask = text.vector_type("i1")
        headers = [region.header for region in layout.all_regions() if region.is_loop]
        self._masks = {label: text.room(mask) for label in blocks}
        self._taken = {label: text.room("i1") for label in blocks}
        # In a loop that lanes leave at different times: those that are in this turn, and the next.
        self._turns = {header: text.room(mask) for header in headers if header in shapes.split}
        self._next = {header: text.room(mask) for header in headers if header in shapes.split}
        self._more = {header: text.room("i1") for header in headers if header not in shapes.split}
        self._phis = {
            phi.result: text.room(self._kind(phi))
            for block in blocks.values()
            for phi in block.phis
            if phi.result
        }

    def _kind(self, phi: Instruction) -> str:
        assert phi.result is not None
        if self._shapes.of(phi.result) is None:
            return self._text.vector_type(phi.type)
        return phi.type

    def write(self, mask: str) -> None:
        """Write the blocks, which begin with the lanes of `mask`, at least one."""
        root = self._layout.root
        self._text.do(
            f"store {self._text.vector_type('i1')} {mask}, ptr {self._masks[root.header]}"
        )
        self._clear(root)
        self._items(root)

    def _clear(self, region: Region) -> None:
        """Nobody has come to the items of a region yet."""
        for item in region.items[1:]:
            label = item.header if isinstance(item, Region) else item
            none = self._text.vector_type("i1")
            self._text.do(f"store {none} zeroinitializer, ptr {self._masks[label]}")
            self._text.do(f"store i1 false, ptr {self._taken[label]}")

    def _items(self, region: Region) -> None:
        sure = {region.header}
        for item in region.items:
            label = item.header if isinstance(item, Region) else item
            same = region.same.get(label)
            if same is not None:
                kind = self._text.vector_type("i1")
                mask = self._text.add(f"load {kind}, ptr {self._mask_of(same, region)}")
                self._text.do(f"store {kind} {mask}, ptr {self._masks[label]}")
                if same in sure:
                    sure.add(label)
                else:
                    taken = self._text.add(f"load i1, ptr {self._taken[same]}")
                    self._text.do(f"store i1 {taken}, ptr {self._taken[label]}")
            self._is_on = label in sure
            if label in sure or (not isinstance(item, Region) and self._is_short(item)):
                self._item(item, region)
                continue
            self._is_on = True
            here, past = self._text.fresh("here"), self._text.fresh("past")
            taken = self._text.add(f"load i1, ptr {self._taken[label]}")
            self._text.do(f"br i1 {taken}, label {here}, label {past}")
            self._text.label(here)
            self._item(item, region)
            self._text.do(f"br label {past}")
            self._text.label(past)

    def _item(self, item: "str | Region", region: Region) -> None:
        if isinstance(item, Region):
            self._loop(item)
            return
        kind = self._text.vector_type("i1")
        self._block(item, self._text.add(f"load {kind}, ptr {self._mask_of(item, region)}"))

    def _mask_of(self, label: str, region: Region) -> str:
        """Where the lanes are kept that came to an item of a region."""
        if region.is_loop and label == region.header:
            return self._turns.get(label, self._masks[label])
        return self._masks[label]

    def _loop(self, region: Region) -> None:
        text, header = self._text, region.header
        kind = text.vector_type("i1")
        turn, end = text.fresh("turn"), text.fresh("left")
        split = header in self._turns
        if split:
            mask = text.add(f"load {kind}, ptr {self._masks[header]}")
            text.do(f"store {kind} {mask}, ptr {self._turns[header]}")
        text.do(f"br label {turn}")
        text.label(turn)
        if split:
            text.do(f"store {kind} zeroinitializer, ptr {self._next[header]}")
        else:
            text.do(f"store i1 false, ptr {self._more[header]}")
        self._clear(region)
        self._items(region)
        if split:
            again = text.add(f"load {kind}, ptr {self._next[header]}")
            text.do(f"store {kind} {again}, ptr {self._turns[header]}")
            more = text.any_lane(again)
        else:
            more = text.add(f"load i1, ptr {self._more[header]}")
        text.do(f"br i1 {more}, label {turn}, label {end}")
        text.label(end)

    def _is_short(self, label: str) -> bool:
        """Whether a block is written so that it does no harm if no lane is on."""
        block = self._blocks[label]
        if isinstance(block.terminator, RegionEnd) or len(block.body) > _SHORT:
            return False
        if not block.successors or (
            self._shapes.branches(label) == 0 and len(block.successors) > 1
        ):
            return False
        for target in block.successors:
            for phi in self._blocks[target].phis:
                if phi.result and self._shapes.of(phi.result) is not None:
                    return False
        if any(self._values.would_lose(item.result) for item in block.instructions()):
            return False
        return all(
            item.opcode not in (*DIVISIONS, "load", "store")
            and parse(item) is not None
            and not is_mathematics(item.callee)
            and (item.opcode != "call" or elementwise(item.callee) is not None)
            for item in block.body
        )

    def _block(self, label: str, mask: str) -> None:
        text, values, block = self._text, self._values, self._blocks[label]
        values.label = label
        for phi in block.phis:
            assert phi.result is not None
            value = text.add(f"load {self._kind(phi)}, ptr {self._phis[phi.result]}")
            values.define(phi.result, value, mask)
        for item in block.body:
            self._widening.write(item, mask)
        end = block.terminator
        if isinstance(end, RegionEnd) or not block.successors:
            self._end(block, mask)
            return
        assert end is not None
        condition = self._common_condition(end)
        if condition is not None:
            self._choose(label, end, condition, mask)
            return
        for way in self._ways(label, end, mask):
            self._go(way)

    def _common_condition(self, end: Instruction) -> str | None:
        """What a branch depends on, if that is the same in all lanes."""
        if len(set(end.targets)) == 1:
            return None
        condition = _condition(end)
        return condition if self._values.shape(condition) == 0 else None

    def _choose(self, label: str, end: Instruction, condition: str, mask: str) -> None:
        """All lanes, of which some are on, go one way; nothing is done for the other."""
        text = self._text
        yes = self._values.scalar(condition)
        known = dict(text.at_hand)
        first, second, met = text.fresh("first"), text.fresh("second"), text.fresh("met")
        text.do(f"br i1 {yes}, label {first}, label {second}")
        for target, begin in zip(end.targets, (first, second), strict=True):
            text.label(begin, inside=True)
            text.at_hand = dict(known)
            self._go(_Way(label, target, mask, "true"))
            text.do(f"br label {met}")
        text.label(met, inside=True)
        text.at_hand = known

    def _ways(self, label: str, end: Instruction, mask: str) -> list[_Way]:
        text, targets = self._text, end.targets
        if len(set(targets)) == 1:
            taken = "true" if self._is_on else text.any_lane(mask)
            return [_Way(label, targets[0], mask, taken)]
        kind = text.vector_type("i1")
        vector = self._values.vector("i1", _condition(end))
        other = text.add(f"xor {kind} {vector}, splat (i1 true)")
        ways = []
        for target, where in ((targets[0], vector), (targets[1], other)):
            lanes = text.both(mask, where)
            ways.append(_Way(label, target, lanes, text.any_lane(lanes)))
        return ways

    def _go(self, way: _Way) -> None:
        text, target = self._text, way.target
        kind = text.vector_type("i1")
        turns = self._begins_turn(way)
        self._pass_to_phis(way)
        if not turns:
            old = text.add(f"load {kind}, ptr {self._masks[target]}")
            mask = text.add(f"or {kind} {old}, {way.mask}")
            text.do(f"store {kind} {mask}, ptr {self._masks[target]}")
            self._set(self._taken[target], way.taken)
        elif target in self._next:
            old = text.add(f"load {kind}, ptr {self._next[target]}")
            mask = text.add(f"or {kind} {old}, {way.mask}")
            text.do(f"store {kind} {mask}, ptr {self._next[target]}")
        else:
            self._set(self._more[target], way.taken)

    def _set(self, room: str, taken: str) -> None:
        old = self._text.add(f"load i1, ptr {room}")
        self._text.do(f"store i1 {self._text.add(f'or i1 {old}, {taken}')}, ptr {room}")

    def _begins_turn(self, way: _Way) -> bool:
        region = self._layout.region_of[way.target]
        return region.is_loop and region.header == way.target and way.source in region.labels

    def _pass_to_phis(self, way: _Way) -> None:
        text, values = self._text, self._values
        alone = self._is_alone(way)
        stores = []
        for phi in self._blocks[way.target].phis:
            assert phi.result is not None
            value = next(value for value, label in phi.incoming if label == way.source)
            room, kind = self._phis[phi.result], self._kind(phi)
            varies = self._shapes.of(phi.result) is None
            new = values.vector(phi.type, value) if varies else values.scalar(value)
            if not alone:
                old = text.add(f"load {kind}, ptr {room}")
                if varies:
                    new = text.choose(way.mask, phi.type, new, old)
                else:
                    new = text.add(f"select i1 {way.taken}, {kind} {new}, {kind} {old}")
            stores.append(f"store {kind} {new}, ptr {room}")
        for store in stores:
            text.do(store)

    def _is_alone(self, way: _Way) -> bool:
        """Whether nothing that phis have yet to take in could be lost by storing for all lanes."""
        turns = self._begins_turn(way)
        others = [
            source
            for source in self._layout.sources[way.target]
            if self._begins_turn(_Way(source, way.target, "", "")) == turns
        ]
        left = [
            region
            for region in self._layout.regions(way.source)
            if region.is_loop and way.target not in region.labels
        ]
        split = any(region.header in self._shapes.split for region in left)
        return len(others) == 1 and not split


def _condition(end: Instruction) -> str:
    """What a branch with two targets depends on."""
    return end.operands[0].text
