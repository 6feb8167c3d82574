"""How the values of a region differ from lane to lane: the shapes of RV and ispc.

A shape is a stride, by which a value goes up from each lane to the next (0: uniform; the size of an
element: consecutive), or None for a varying value. Active lanes are all in the same iteration of
their loops, so what is uniform in a loop may vary behind it, if lanes leave it at different times
(temporal divergence).

Joins are those of Karrenberg and Hack, "Improving Performance of OpenCL on CPUs" (CC 2012), taken
loop by loop; strides are those of Sampaio et al., "Divergence Analysis" (TOPLAS 2013).
"""

from collections.abc import Mapping

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.control_flow import EXIT
from haulage.compiler.simt.ir.model import Block, Function, Instruction
from haulage.compiler.simt.ir.types import BINARY, CASTS, COMPARISONS, UNARY, bits_of
from haulage.compiler.simt.vectorize.loop_tree import LoopTree, Node, label_of
from haulage.compiler.simt.vectorize.vector_forms import BYTES, has_vector_form

Shape = int | None

_UNIFORM_IF_OPERANDS_ARE = BINARY | UNARY | CASTS | COMPARISONS | {"select", "load"}


class Shapes:
    """The shapes of all values, and the `divergent` loops, which lanes leave at different times
    (by their headers). `unsigned` are values whose stride is the same if they are taken as
    unsigned numbers."""

    def __init__(
        self,
        blocks: Mapping[str, Block],
        tree: LoopTree,
        known: Mapping[str, Shape],
        unsigned: frozenset[str],
    ) -> None:
        """`known` are the shapes of what comes from outside, `unsigned` those of them that are."""
        self._blocks = blocks
        self._tree = tree
        self._of: dict[str, Shape] = dict(known)
        self.unsigned = set(unsigned)
        # (label, instruction) of each value.
        self.definitions = Function((), dict(blocks)).definitions()
        self.divergent: set[str] = set()
        # Phis where lanes from different blocks meet, and blocks that only some of the lanes that
        # are active in their loop may come to.
        self._joins: set[str] = set()
        self._partial: set[str] = set()
        while self._spread() | self._diverge():
            pass
        for name in self.definitions:
            self._of.setdefault(name, 0)

    def of(self, name: str) -> Shape:
        """The shape of a value where it is defined."""
        return self._of[name]

    def at(self, value: str, label: str) -> Shape:
        """The shape of a value, or constant, as the block `label` sees it."""
        shape = self._of.get(value, 0)
        return None if shape is None or self.outlives_loop(value, label) else shape

    def outlives_loop(self, name: str, label: str) -> bool:
        """Whether lanes left a loop at different times between a value's definition and a block."""
        defined = self.definitions.get(name)
        return defined is not None and self._leaves_divergent(defined[0], label)

    def is_divergent(self, label: str) -> bool:
        """Whether lanes may part at the branch that ends a block."""
        end = self._blocks[label].terminator
        if not isinstance(end, Instruction) or len(set(end.targets)) < 2:
            return False
        return any(self.at(name, label) != 0 for name in end.uses)

    def likely(self, value: str, label: str) -> Shape:
        """The shape that the block `label` will most often find.

        Numba adds an array's length to an index that is negative. So `x[i]` is an address that
        strides with `i`, and a choice by the sign of `i`, which is almost always the same in all
        lanes. Such an access is tried as a consecutive one first.
        """
        known = self.at(value, label)
        if known is not None or value not in self.definitions or self.outlives_loop(value, label):
            return known
        item = self.definitions[value][1]
        if not has_vector_form(item):
            return None
        operands = [operand.text for operand in item.operands]
        if item.opcode == "select" and self._is_sign(operands[0], label):
            are_uniform = all(self.likely(operand, label) == 0 for operand in operands[1:])
            return 0 if are_uniform else None
        if item.opcode == "getelementptr" and item.source_type in BYTES and len(operands) == 2:
            factor = BYTES[item.source_type]
        elif item.opcode == "add":
            factor = 1
        else:
            return None
        one, other = (self.likely(operand, label) for operand in operands)
        return None if one is None or other is None else one + other * factor

    def _is_sign(self, condition: str, label: str) -> bool:
        if condition not in self.definitions:
            return False
        item = self.definitions[condition][1]
        if item.opcode != "icmp" or item.predicate != "slt" or not has_vector_form(item):
            return False
        value, bound = item.operands
        return bound.text == "0" and self.likely(value.text, label) is not None

    # ---- values -----------------------------------------------------------------------------

    def _spread(self) -> bool:
        """Find shapes by those of operands; whether that says anything new."""
        found = False
        for label in self._tree.node_of:
            block = self._blocks[label]
            for item in (*block.phis, *block.body):
                name = item.result
                if name is None or self._of.get(name, 0) is None or not self._is_ready(item):
                    continue
                shape = self._of_phi(item, label) if item.is_phi else self._shape(item, label)
                if name not in self._of:
                    self._of[name] = shape
                elif self._of[name] != shape:
                    # Two different strides: the value can only have been taken for too simple.
                    self._of[name] = None
                else:
                    continue
                found = True
        return found

    def _is_ready(self, item: Instruction) -> bool:
        """Whether an instruction's operands have shapes, of a phi one of them."""
        if not item.is_phi:
            return not any(map(self._is_unknown, item.uses))
        return item.result in self._joins or bool(self._arriving(item))

    def _arriving(self, phi: Instruction) -> list[tuple[str, str]]:
        """What a phi takes, with labels, as far as it has a shape."""
        return [
            (value, source)
            for value, source in phi.incoming
            if source in self._blocks and not self._is_unknown(value)
        ]

    def _is_unknown(self, name: str) -> bool:
        return name in self.definitions and name not in self._of

    def _shape(self, item: Instruction, label: str) -> Shape:
        if not has_vector_form(item):
            return None
        shapes = [self.at(operand.text, label) for operand in item.operands]
        if item.opcode == "call":
            return None if any_stride(shapes) else 0
        strides = [shape for shape in shapes if shape is not None]
        if item.opcode == "getelementptr":
            return _address(item, strides) if len(strides) == len(shapes) else None
        if not any_stride(shapes):
            return 0 if item.opcode in _UNIFORM_IF_OPERANDS_ARE else None
        if len(strides) < len(shapes):
            return None
        if item.opcode == "zext" and item.operands[0].text not in self.unsigned:
            return None
        shape = _strided(item, strides)
        if shape is not None and shape > 0 and self._stays_unsigned(item):
            assert item.result is not None
            self.unsigned.add(item.result)
        return shape

    def _stays_unsigned(self, item: Instruction) -> bool:
        # The lowest lane's number is then no larger than any other's, so it fits if theirs do.
        if item.opcode == "zext":
            return True
        if item.opcode not in ("add", "mul", "shl") or "nuw" not in item.flags:
            return False
        strided = {name for name in item.uses if self._of.get(name) not in (0, None)}
        return strided <= self.unsigned

    def _of_phi(self, phi: Instruction, label: str) -> Shape:
        arriving = self._arriving(phi)
        shapes = {self.at(value, source) for value, source in arriving}
        if phi.result in self._joins or len(shapes) > 1:
            return None
        if any(self._leaves_divergent(source, label) for _, source in arriving):
            return None
        is_integer = phi.type == "ptr" or bits_of(phi.type) is not None
        return shapes.pop() if is_integer or shapes == {0} else None

    # ---- control flow -----------------------------------------------------------------------

    def _leaves_divergent(self, source: str, label: str) -> bool:
        """Whether a divergent loop is left between one block and another."""
        return any(loop.header in self.divergent for loop in self._tree.loops_left(source, label))

    def _diverge(self) -> bool:
        """Follow the branches that lanes part at; whether that says anything new."""
        before = (len(self.divergent), len(self._joins), len(self._partial))
        for node in self._tree.nodes():
            self._diverge_in(node)
        return before != (len(self.divergent), len(self._joins), len(self._partial))

    def _diverge_in(self, node: Node) -> None:
        for item in node.items:
            label = label_of(item)
            if isinstance(item, Node):
                parts, targets = label in self.divergent, self._exits(item)
                if parts:
                    self._join(targets)
            else:
                parts, targets = self.is_divergent(label), set(self._blocks[label].successors)
            if not parts or len(targets) < 2:
                continue
            stop = node.postdominators.get(label, EXIT)
            parted = control_flow.reachable_until(node.edges, node.edges[label], stop) - {EXIT}
            self._partial |= parted
            self._join(parted | {stop} - {EXIT})
            if stop == EXIT:
                self._join(self._exits(node))
                if node.is_loop:
                    self._join({node.header}, back_edges=True)
        if node.is_loop and self._is_left_divergently(node):
            self.divergent.add(node.header)

    def _exits(self, node: Node) -> set[str]:
        return {
            target
            for label in node.labels
            for target in self._blocks[label].successors
            if target not in node.labels
        }

    def _is_left_divergently(self, loop: Node) -> bool:
        for label in loop.labels:
            if loop.labels.issuperset(self._blocks[label].successors):
                continue
            if self.is_divergent(label) or self._tree.item_of(label, loop) in self._partial:
                return True
            for inner in self._tree.around(label):
                if inner is loop:
                    break
                if inner.header in self.divergent or not self._partial.isdisjoint(
                    (label, inner.header)
                ):
                    return True
        return False

    def _join(self, labels: set[str], *, back_edges: bool = False) -> None:
        """The phis of these blocks take different values in different lanes, if from more than one
        block; a loop's header joins those that come in, or those that begin its next iteration
        (`back_edges`)."""
        for label in labels & self._blocks.keys():
            node = self._tree.node_of[label]
            sources = self._tree.predecessors[label]
            if node.is_loop and node.header == label:
                # Those that come in and those that begin the next iteration never meet.
                sources = [
                    source for source in sources if node.is_back_edge(source, label) == back_edges
                ]
            if len(sources) > 1:
                self._joins |= {phi.result for phi in self._blocks[label].phis if phi.result}


def any_stride(shapes: list[Shape]) -> bool:
    """Whether some shape is not that of a uniform value."""
    return any(shape != 0 for shape in shapes)


def _address(item: Instruction, strides: list[int]) -> Shape:
    base, *indices = strides
    if not any(indices):
        return base
    if len(indices) != 1 or item.source_type not in BYTES or item.operands[1].type != "i64":
        return None
    return base + indices[0] * BYTES[item.source_type]


def _strided(item: Instruction, strides: list[int]) -> Shape:
    """The shape of what an instruction makes of strided values."""
    match item.opcode:
        case "add":
            return strides[0] + strides[1]
        case "sub":
            return strides[0] - strides[1]
        case "or":
            return strides[0] + strides[1] if "disjoint" in item.flags else None
        case "mul":
            for stride, other in zip(strides, reversed(item.operands), strict=True):
                if other.number is not None:
                    return stride * other.number
        case "shl":
            places = item.operands[1].number
            return None if places is None else strides[0] << places
        case "zext" | "trunc" | "ptrtoint" | "inttoptr" | "freeze":
            return strides[0]
        case "select" if strides[0] == 0 and strides[1] == strides[2]:
            return strides[1]
    return None
