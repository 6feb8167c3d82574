"""Which values are live where a block begins: the classical backward data-flow problem (Aho, Lam,
Sethi and Ullman, "Compilers", 9.2.5), with a phi's operands live at the end of the blocks that they
come from."""

from collections.abc import Iterable, Mapping, Set

from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.ir.model import Block


class Liveness:
    """What each block of one function uses and makes. Sets of values are bits of an int, as there
    can be thousands of values in thousands of blocks."""

    def __init__(self, analyses: Analyses) -> None:
        blocks = analyses.function.blocks
        self._successors, self._predecessors = analyses.successors, analyses.predecessors
        self._names = list(analyses.definitions)
        self._bits = {name: 1 << number for number, name in enumerate(self._names)}
        self._used: dict[str, int] = {}
        self._made: dict[str, int] = {}
        # For each label the results that phis take when control comes from it.
        self._passed_to_phis = dict.fromkeys(blocks, 0)
        for label, block in blocks.items():
            self._used[label], self._made[label] = self._used_and_made(block)
            for phi in block.phis:
                for value, source in phi.incoming:
                    self._passed_to_phis[source] |= self._bits.get(value, 0)
        # What is live passes backwards.
        self._order = analyses.order[::-1]

    def live_in(
        self,
        labels: Iterable[str],
        at_entry: Mapping[str, tuple[Set[str], Set[str]]] | None = None,
    ) -> dict[str, set[str]]:
        """For each of `labels` the results that are live where the block begins; parameters are not
        counted. `at_entry` changes what is live at some labels: (not live there, live instead)."""
        changes = {
            label: (self._set(dropped), self._set(instead))
            for label, (dropped, instead) in (at_entry or {}).items()
        }
        live = dict.fromkeys(self._successors, 0)
        waiting = dict.fromkeys(self._order)
        while waiting:
            again: dict[str, None] = {}
            for label in waiting:
                after = self._passed_to_phis[label]
                for successor in self._successors[label]:
                    after |= live[successor]
                needed = self._used[label] | after & ~self._made[label]
                if label in changes:
                    dropped, instead = changes[label]
                    needed = needed & ~dropped | instead
                if needed != live[label]:
                    live[label] = needed
                    again.update(dict.fromkeys(self._predecessors[label]))
            waiting = {label: None for label in self._order if label in again}
        return {label: self._listed(live[label]) for label in labels}

    def _set(self, names: Iterable[str]) -> int:
        found = 0
        for name in names:
            found |= self._bits.get(name, 0)
        return found

    def _listed(self, values: int) -> set[str]:
        digits = bin(values)[:1:-1]
        return {self._names[number] for number, digit in enumerate(digits) if digit == "1"}

    def _used_and_made(self, block: Block) -> tuple[int, int]:
        used = made = 0
        bits = self._bits
        for item in block.instructions():
            if not item.is_phi:
                for name in item.uses:
                    used |= bits.get(name, 0) & ~made
            if item.result:
                made |= bits[item.result]
        return used, made
