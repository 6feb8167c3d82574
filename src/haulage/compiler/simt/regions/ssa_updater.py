"""Single assignment again, where a region begins with values that it then makes again.

Behind the start of a region, as behind its loop's header, a value of one name may be what was kept
from another region or what this one made; where both come together it is a phi. LLVM's
`SSAUpdater`; Cytron et al., "Efficiently Computing Static Single Assignment Form" (TOPLAS 1991).
"""

from collections.abc import Mapping

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.ir.builder import Builder, Typed
from haulage.compiler.simt.ir.model import (
    Block,
    Function,
    Instruction,
    Operand,
    value_name,
)


class SSAUpdater:
    """Gives the uses of some values in `blocks` the right ones, in place.

    `begun` has for each of these values, which the blocks make, its type and its name at the end of
    the block `start`.
    """

    def __init__(self, blocks: Mapping[str, Block], start: str, begun: Mapping[str, Typed]) -> None:
        self._blocks = blocks
        self._start = start
        self._begun = begun
        self._phis: dict[tuple[str, str], str] = {}
        # Phis whose operands are not yet known.
        self._waiting: list[tuple[str, str]] = []
        if not begun:
            return
        function = Function((), dict(blocks))
        successors = function.within(blocks)
        labels = control_flow.reverse_postorder(successors, start)
        successors = {label: successors[label] for label in labels}
        self._predecessors = control_flow.invert(successors)
        self._dominators = control_flow.Graph(successors, start).dominators
        definitions = function.definitions()
        self._made_in = {name: definitions[name][0] for name in begun}
        self._joins = self._find_joins()
        for label in labels:
            self._rewrite(blocks[label])
        self._fill()

    def at_end(self, value: str, label: str) -> str:
        """What a value is at the end of a block."""
        if value not in self._begun:
            return value
        found = self._at_end(value, label)
        self._fill()
        return found

    def _find_joins(self) -> dict[str, set[str]]:
        """For each value the blocks where it meets the one that it was at the start."""
        frontiers = control_flow.dominance_frontiers(self._predecessors, self._dominators)
        joins: dict[str, set[str]] = {}
        for name, label in self._made_in.items():
            joins[name] = control_flow.reachable_until(frontiers, frontiers[label])
        return joins

    def _at_end(self, value: str, label: str) -> str:
        while label != self._start:
            if label == self._made_in[value]:
                return value
            if label in self._joins[value]:
                return self._phi(value, label)
            label = self._dominators[label]
        return self._begun[value][1]

    def _at_start(self, value: str, label: str) -> str:
        if label in self._joins[value]:
            return self._phi(value, label)
        return self._at_end(value, self._dominators[label])

    def _phi(self, value: str, label: str) -> str:
        place = value, label
        if place not in self._phis:
            self._phis[place] = value_name(value, f"phi.{len(self._phis)}")
            self._waiting.append(place)
        return self._phis[place]

    def _fill(self) -> None:
        while self._waiting:
            value, label = place = self._waiting.pop()
            sources = self._predecessors[label]
            incoming = [(self._at_end(value, source), source) for source in sources]
            phi = Builder.phi(self._begun[value][0], incoming, self._phis[place])
            self._blocks[label].phis.append(phi)

    def _rewrite(self, block: Block) -> None:
        made = {phi.result for phi in block.phis}

        def updated(item: Instruction) -> Instruction:
            if item.is_phi:
                return item.changed(
                    operands=tuple(
                        Operand(each.type, self._at_end(each.text, source))
                        if each.text in self._begun
                        else each
                        for each, source in zip(item.operands, item.sources, strict=True)
                    )
                )
            names = {
                name: self._at_start(name, block.label)
                for name in item.uses
                if name in self._begun and name not in made
            }
            made.add(item.result)
            return item.with_uses(names)

        block.change(updated)
