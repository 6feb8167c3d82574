"""How the control flow and the values of a region differ from lane to lane.

Blocks are linearised in an order that is topological but for back edges, and loop-compact: the
blocks of a loop stand together (Moll and Hack, "Partial Control-Flow Linearization", PLDI 2018).

A shape, as in RV and ispc, is a stride, by which a value goes up from each lane to the next (0:
uniform; the size of an element: consecutive), or None for a varying value. Active lanes are all in
the same iteration of their loops, so what is uniform in a loop may vary behind it, if lanes leave
it at different times (temporal divergence).

Where lanes part and meet is found by post-dominance as in Karrenberg and Hack, "Improving
Performance of OpenCL on CPUs" (CC 2012); strides are those of Sampaio et al., "Divergence Analysis"
(TOPLAS 2013). A stride has to hold from the first lane on, which may be inactive: affine forms,
which are about active threads, do not prove it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.affine import AffineForms
from haulage.compiler.simt.analysis.control_flow import EXIT, Loop
from haulage.compiler.simt.ir.model import Block, Function, Instruction, Operand
from haulage.compiler.simt.ir.types import bits_of
from haulage.compiler.simt.vectorize.builder import BYTES, has_vector_form
from haulage.forks import cached_property

Shape = int | None
# A block, or a loop by its header.
Item = tuple[str, Loop | None]


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
        successors = Function((), dict(blocks)).within(blocks)
        self.loops = control_flow.Graph(successors, entry).loops
        self._headed = {loop.header: loop for loop in self.loops}
        # Inner ones first.
        self.loops_around: dict[str, list[Loop]] = {label: [] for label in blocks}
        for loop in self.loops:
            for label in loop.labels:
                self.loops_around[label].append(loop)
        self._items: dict[Loop | None, list[Item]] = {each: [] for each in (*self.loops, None)}
        for label in control_flow.reverse_postorder(successors, entry):
            inside, *outside = *self.loops_around[label], None
            if inside is not None and inside.header == label:
                self._items[outside[0]].append((label, inside))
            self._items[inside].append((label, None))
        self.labels = [*self._flattened(None)]
        place = {label: number for number, label in enumerate(self.labels)}
        self.edges: dict[str, list[str]] = {label: [] for label in self.labels}
        # How many blocks control comes from to a block, or to the next iteration of its loop.
        self._sources: Counter[str] = Counter()
        for source in self.labels:
            for target in dict.fromkeys(successors[source]):
                is_next = self.is_back_edge(source, target)
                if place[target] <= place[source] and not is_next:
                    raise Irreducible
                node = f"{target}/next" if is_next else target
                self.edges[source].append(node)
                self._sources[node] += 1
        self.next_of = {f"{header}/next": header for header in self._headed}
        for node, header in self.next_of.items():
            labels = self._headed[header].labels
            targets = {target for label in labels for target in self.edges[label]}
            left = (each for each in targets if self.next_of.get(each, each) not in labels)
            self.edges[node] = sorted(left)
        self.postdominators = control_flow.Graph(self.edges, self.labels[0]).postdominators

    def _flattened(self, inside: Loop | None) -> Iterator[str]:
        for label, loop in self._items[inside]:
            if loop is None:
                yield label
            else:
                yield from self._flattened(loop)

    def is_back_edge(self, source: str, target: str) -> bool:
        """Whether an edge begins a loop's next iteration."""
        return target in self._headed and source in self._headed[target].labels

    def loops_left(self, source: str, target: str) -> Iterator[Loop]:
        """The loops that a block stands in and another one does not."""
        return (loop for loop in self.loops_around[source] if target not in loop.labels)

    def meets(self, label: str, *, back: bool = False) -> bool:
        """Whether control comes to a block from several; to a loop's header from outside, or, with
        `back`, from the iteration before."""
        return self._sources[f"{label}/next" if back else label] > 1

    def items(self, inside: Loop | None) -> list[Item]:
        """The blocks of a loop, or of the region, in order; each loop within it as one, by its
        header."""
        return self._items[inside]

    @cached_property
    def equivalent(self) -> Mapping[str, str]:
        """For each block that has one, one that is control equivalent: it dominates this one, which
        post-dominates it. In place of one in a loop that this one is not in stands the header."""
        dominators = control_flow.Graph(self.edges, self.labels[0]).dominators
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


class Shapes:
    """The shapes of all values, and the `divergent` loops, which lanes leave at different times
    (by their headers)."""

    def __init__(
        self,
        blocks: Mapping[str, Block],
        order: LinearOrder,
        known: Mapping[str, Shape],
        unsigned: frozenset[str],
    ) -> None:
        """`known` are the shapes of what comes from outside, `unsigned` those of it whose stride is
        the same if they are taken as unsigned numbers."""
        self._blocks = blocks
        self._order = order
        self._of: dict[str, Shape] = dict(known)
        self._unsigned = set(unsigned)
        function = Function((), dict(blocks))
        # (label, instruction) of each value.
        self.definitions = function.definitions()
        self._forms = AffineForms(function.items(), wraparound=False)
        self.divergent: set[str] = set()
        # Phis where lanes from different blocks meet.
        self._joins: set[str] = set()
        while self._spread() | self._diverge():
            pass

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
        return defined is not None and self.leaves_divergent(defined[0], label)

    def leaves_divergent(self, source: str, label: str) -> bool:
        """Whether a divergent loop is left between one block and another."""
        left = self._order.loops_left(source, label)
        return any(loop.header in self.divergent for loop in left)

    def is_divergent(self, label: str) -> bool:
        """Whether lanes may part at the branch that ends a block."""
        end = self._blocks[label].terminator
        if not isinstance(end, Instruction) or len(set(end.targets)) < 2:
            return False
        return any(self.at(name, label) != 0 for name in end.uses)

    def likely(self, address: str, label: str) -> Shape:
        """The shape of an address that the block `label` will most often find.

        Numba adds an array's length to an index that is negative. So `x[i]` is an address that
        strides with `i`, and a choice by the sign of `i`, which is almost always the same in all
        lanes. Such an access is tried as a consecutive one first.
        """
        known = self.at(address, label)
        if known is not None or self.outlives_loop(address, label):
            return known
        stride = 0
        for monomial, factor in self._forms.of(Operand("ptr", address)).monomials.items():
            strides = [self.at(symbol.value, label) for symbol in monomial]
            if None in strides or (any(strides) and len(strides) > 1):
                return None
            stride += factor * sum(filter(None, strides))
        return stride

    # ---- values -----------------------------------------------------------------------------

    def _spread(self) -> bool:
        """Find shapes by those of operands; whether that says anything new."""
        found = False
        for label in self._order.labels:
            block = self._blocks[label]
            for item in (*block.phis, *block.body):
                name = item.result
                if name is None or self._of.get(name, 0) is None:
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

    def _of_phi(self, phi: Instruction, label: str) -> Shape:
        # Of what a back edge brings nothing is known at first.
        arriving = [
            (value, source)
            for value, source in phi.incoming
            if source in self._blocks and (value in self._of or value not in self.definitions)
        ]
        shapes = {self.at(value, source) for value, source in arriving}
        if phi.result in self._joins or len(shapes) > 1:
            return None
        if any(self.leaves_divergent(source, label) for _, source in arriving):
            return None
        is_integer = phi.type == "ptr" or bits_of(phi.type) is not None
        return shapes.pop() if shapes and (is_integer or shapes == {0}) else None

    def _shape(self, item: Instruction, label: str) -> Shape:
        if not has_vector_form(item):
            return None
        shapes = [self.at(operand.text, label) for operand in item.operands]
        if not any_stride(shapes):
            return 0
        strides = [shape for shape in shapes if shape is not None]
        if len(strides) < len(shapes):
            return None
        if item.opcode == "zext" and item.operands[0].text not in self._unsigned:
            return None
        shape = _strided(item, strides)
        if shape is not None and shape > 0 and self._stays_unsigned(item):
            assert item.result is not None
            self._unsigned.add(item.result)
        return shape

    def _stays_unsigned(self, item: Instruction) -> bool:
        # The lowest lane's number is then no larger than any other's, so it fits if theirs do.
        if item.opcode == "zext":
            return True
        if item.opcode not in ("add", "mul", "shl") or "nuw" not in item.flags:
            return False
        strided = {name for name in item.uses if self._of.get(name) not in (0, None)}
        return strided <= self._unsigned

    # ---- control flow -----------------------------------------------------------------------

    def _diverge(self) -> bool:
        """Follow the branches that lanes part at; whether that says anything new."""
        before = len(self.divergent), len(self._joins)
        order = self._order
        for label in filter(self.is_divergent, order.labels):
            # Where all of them have met again.
            stop = order.postdominators[label]
            parted = control_flow.reachable_until(order.edges, order.edges[label], stop)
            for each in (parted | {stop}) - {EXIT}:
                self._join(order.next_of.get(each, each), back=each in order.next_of)
            left = order.loops_left(label, order.next_of.get(stop, stop))
            self.divergent |= {loop.header for loop in left}
        return before != (len(self.divergent), len(self._joins))

    def _join(self, label: str, *, back: bool) -> None:
        """The phis of a block take different values in different lanes, if from several blocks.
        Lanes that enter a loop never meet those that go `back` to its header."""
        if self._order.meets(label, back=back):
            self._joins |= {phi.result for phi in self._blocks[label].phis if phi.result}


def any_stride(shapes: list[Shape]) -> bool:
    """Whether some shape is not that of a uniform value."""
    return any(shape != 0 for shape in shapes)


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
        case "getelementptr" if not any(strides[1:]):
            return strides[0]
        case "getelementptr" if len(strides) == 2 and item.operands[1].type == "i64":
            size = BYTES.get(item.source_type)
            return None if size is None else strides[0] + strides[1] * size
    return None
