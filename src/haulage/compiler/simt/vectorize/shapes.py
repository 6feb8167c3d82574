"""How the values of a region differ from lane to lane of a chunk.

A shape is None if they differ in any way; else the step from each lane to the next, 0 where they
are all the same. Lanes that are in a loop are all in the same turn of it, so what is the same in
them may differ behind the loop, if they leave it at different times.

The rule for merges is that of Karrenberg and Hack, "Improving Performance of OpenCL on CPUs" (CC
2012), taken loop by loop; steps are those of Sampaio et al., "Divergence Analysis" (TOPLAS 2013).
"""

from collections.abc import Callable, Mapping

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.control_flow import EXIT
from haulage.compiler.simt.ir.model import Block, Instruction
from haulage.compiler.simt.vectorize.layout import Layout, Region
from haulage.compiler.simt.vectorize.operations import BINARY, BYTES, CASTS, elementwise, parse

Shape = int | None

_SAME_IF_OPERANDS_ARE = BINARY | CASTS | {"icmp", "fcmp", "fneg", "freeze", "select", "load"}


class Shapes:
    """The shapes of all values, and which loops lanes leave at different times (`split`, by their
    headers). `unsigned` are values with a step that is no other if they are taken as unsigned."""

    def __init__(
        self,
        blocks: Mapping[str, Block],
        layout: Layout,
        known: Mapping[str, Shape],
        unsigned: frozenset[str],
    ) -> None:
        """`known` are the shapes of what comes from outside, `unsigned` those of them that are."""
        self._blocks = blocks
        self._layout = layout
        self._of: dict[str, Shape] = dict(known)
        self.unsigned = set(unsigned)
        self._made_at = {
            item.result: label
            for label, block in blocks.items()
            for item in block.instructions()
            if item.result
        }
        self.split: set[str] = set()
        self._merged: set[str] = set()
        self._partial: set[str] = set()
        while self._spread() | self._part():
            pass
        for name in self._made_at:
            self._of.setdefault(name, 0)

    def of(self, name: str) -> Shape:
        """The shape of a value where it is made."""
        return self._of[name]

    def at(self, name: str, label: str) -> Shape:
        """The shape of a value as the block `label` sees it."""
        if (name in self._of and self._of[name] is None) or self.leaves_split(name, label):
            return None
        return self._of.get(name, 0)

    def leaves_split(self, name: str, label: str) -> bool:
        """Whether lanes left a loop at different times between making a value and this block."""
        made = self._made_at.get(name)
        if made is None:
            return False
        return any(
            region.header in self.split and label not in region.labels
            for region in self._layout.regions(made)
            if region.is_loop
        )

    def branches(self, label: str) -> Shape:
        """The shape of what the block's branch depends on; 0 where it has no choice."""
        end = self._blocks[label].terminator
        if not isinstance(end, Instruction) or len(set(end.targets)) < 2:
            return 0
        return None if any_step([self.at(name, label) for name in end.uses]) else 0

    def _spread(self) -> bool:
        found = False
        for label in self._layout.region_of:
            block = self._blocks[label]
            for item in (*block.phis, *block.body):
                if item.result is None or self._of.get(item.result, 0) is None:
                    continue
                shape = self._shape(item, label)
                if shape != self._of.get(item.result, "unknown") and shape != "unknown":
                    # Two different steps: the value can only have been taken for too simple.
                    changed = item.result in self._of
                    self._of[item.result] = None if changed else shape  # type: ignore[assignment]
                    found = True
        return found

    def _shape(self, item: Instruction, label: str) -> Shape | str:
        if item.is_phi:
            return self._of_phi(item, label)
        unknown = [name for name in item.uses if name in self._made_at and name not in self._of]
        if unknown:
            return "unknown"
        operation = parse(item)
        if operation is None:
            return None
        shapes = [self._of_operand(text, label) for _, text in operation.operands]
        if item.opcode == "call":
            return 0 if elementwise(item.callee) is not None and not any_step(shapes) else None
        if item.opcode == "getelementptr":
            return self._of_address(item, shapes)
        if not any_step(shapes):
            return 0 if item.opcode in _SAME_IF_OPERANDS_ARE else None
        if item.opcode == "load":
            return None
        rule = _RULES.get(item.opcode)
        if rule is None or any(shape is None for shape in shapes):
            return None
        texts = [text for _, text in operation.operands]
        shape = rule(operation.words, [int(shape or 0) for shape in shapes], texts)
        if item.opcode == "sext" or (item.opcode == "zext" and texts[0] not in self.unsigned):
            return None
        if shape is not None and shape > 0 and self._stays_unsigned(item, operation.words, texts):
            assert item.result is not None
            self.unsigned.add(item.result)
        return shape

    def _stays_unsigned(self, item: Instruction, words: str, texts: list[str]) -> bool:
        # The lowest lane's number is then no larger than any other's, so it fits if theirs do.
        if item.opcode == "zext":
            return True
        if item.opcode in ("add", "mul", "shl"):
            stepping = [text for text in texts if self._of.get(text) not in (0, None)]
            return " nuw" in words and set(stepping) <= self.unsigned
        return False

    def _of_operand(self, text: str, label: str) -> Shape:
        return self.at(text, label) if text.startswith("%") else 0

    def _of_address(self, item: Instruction, shapes: list[Shape]) -> Shape:
        operation = parse(item)
        assert operation is not None
        if any(shape is None for shape in shapes):
            return None
        base, *indices = (int(shape or 0) for shape in shapes)
        if not any(indices):
            return base
        if len(indices) != 1 or operation.element not in BYTES:
            return None
        kind, _ = operation.operands[1]
        if kind != "i64":
            return None
        return base + indices[0] * BYTES[operation.element]

    def _of_phi(self, phi: Instruction, label: str) -> Shape | str:
        if phi.result in self._merged:
            return None
        shapes: set[Shape] = set()
        for value, source in phi.incoming:
            if source not in self._blocks:
                continue
            if value in self._made_at and value not in self._of:
                continue
            shapes.add(self._of_operand(value, source) if value.startswith("%") else 0)
            if self._exits_split(source, label):
                return None
        if not shapes:
            return "unknown"
        if len(shapes) > 1 or (shapes != {0} and not _is_whole(phi.type)):
            return None
        return shapes.pop()

    def _exits_split(self, source: str, label: str) -> bool:
        return any(
            region.header in self.split and label not in region.labels
            for region in self._layout.regions(source)
            if region.is_loop
        )

    def _part(self) -> bool:
        """Follow the branches that lanes part at; whether that says anything new."""
        before = (len(self.split), len(self._merged), len(self._partial))
        for region in self._layout.all_regions():
            self._part_region(region)
        return before != (len(self.split), len(self._merged), len(self._partial))

    def _part_region(self, region: Region) -> None:
        for item in region.items:
            node = item.header if isinstance(item, Region) else item
            targets = region.edges[node]
            if isinstance(item, Region):
                parts = item.header in self.split
                if parts:
                    self._merge(self._exits(item))
            else:
                parts = self.branches(item) is None
            if not parts or len(self._targets(item)) < 2:
                continue
            stop = region.after.get(node, EXIT)
            parted = control_flow.reachable_until(region.edges, targets, stop) - {EXIT}
            self._partial |= parted
            self._merge(parted | {stop} - {EXIT})
            if stop == EXIT:
                self._merge(self._exits(region))
                if region.is_loop:
                    self._merge({region.header}, turns=True)
        if region.is_loop and self._is_split(region):
            self.split.add(region.header)

    def _targets(self, item: "str | Region") -> set[str]:
        if isinstance(item, Region):
            return self._exits(item)
        return set(self._blocks[item].successors)

    def _exits(self, region: Region) -> set[str]:
        return {
            target
            for label in region.labels
            for target in self._blocks[label].successors
            if target not in region.labels
        }

    def _is_split(self, region: Region) -> bool:
        for label in region.labels:
            if all(target in region.labels for target in self._blocks[label].successors):
                continue
            if self.branches(label) is None or self._layout.node(label, region) in self._partial:
                return True
            own = self._layout.region_of[label]
            while own is not region:
                if own.header in self.split or label in self._partial:
                    return True
                assert own.parent is not None
                if own.header in self._partial:
                    return True
                own = own.parent
        return False

    def _merge(self, labels: set[str], *, turns: bool = False) -> None:
        """The phis of these blocks take different values in different lanes, if from more than one
        block; a loop's header is met by those that come in, or by those that begin its next turn
        (`turns`)."""
        for label in labels:
            if label not in self._blocks:
                continue
            region = self._layout.region_of[label]
            sources = self._layout.sources[label]
            if region.is_loop and region.header == label:
                # Those that come in and those that begin the next turn never meet.
                sources = [source for source in sources if (source in region.labels) == turns]
            if len(sources) > 1:
                self._merged |= {phi.result for phi in self._blocks[label].phis if phi.result}


def any_step(shapes: list[Shape]) -> bool:
    """Whether some shape is other than 0."""
    return any(shape != 0 for shape in shapes)


def _is_whole(kind: str) -> bool:
    return kind == "ptr" or kind.startswith("i")


def _sum(words: str, shapes: list[int], texts: list[str]) -> Shape:
    return shapes[0] + shapes[1]


def _difference(words: str, shapes: list[int], texts: list[str]) -> Shape:
    return shapes[0] - shapes[1]


def _product(words: str, shapes: list[int], texts: list[str]) -> Shape:
    for shape, other in ((shapes[0], texts[1]), (shapes[1], texts[0])):
        if _is_number(other):
            return shape * int(other)
    return None


def _shifted(words: str, shapes: list[int], texts: list[str]) -> Shape:
    return shapes[0] << int(texts[1]) if _is_number(texts[1]) else None


def _joined(words: str, shapes: list[int], texts: list[str]) -> Shape:
    return shapes[0] + shapes[1] if "disjoint" in words else None


def _kept(words: str, shapes: list[int], texts: list[str]) -> Shape:
    return shapes[0]


def _chosen(words: str, shapes: list[int], texts: list[str]) -> Shape:
    return shapes[1] if shapes[0] == 0 and shapes[1] == shapes[2] else None


def _is_number(text: str) -> bool:
    return text.lstrip("-").isdigit()


_RULES: dict[str, Callable[[str, list[int], list[str]], Shape]] = {
    "add": _sum,
    "sub": _difference,
    "mul": _product,
    "shl": _shifted,
    "or": _joined,
    "zext": _kept,
    "trunc": _kept,
    "ptrtoint": _kept,
    "inttoptr": _kept,
    "freeze": _kept,
    "select": _chosen,
}
