"""Which values are still needed where a block begins."""

from collections.abc import Iterable, Mapping, Set

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.ir.model import Block, Function


class Liveness:
    """What each block of one function uses and makes. Sets of values are bits of an int, as there
    can be thousands of values in thousands of blocks."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._names = list(function.definitions())
        self._bits = {name: 1 << number for number, name in enumerate(self._names)}
        self._used: dict[str, int] = {}
        self._made: dict[str, int] = {}
        for label, block in function.blocks.items():
            self._used[label], self._made[label] = self._used_and_made(block)
        self._passed_to_phis = self._phi_sources()
        successors = {label: block.successors for label, block in function.blocks.items()}
        self._before = control_flow.invert(successors)
        # What is needed passes backwards.
        self._order = control_flow.reverse_postorder(successors, function.entry)[::-1]

    def live_in(
        self,
        labels: Iterable[str],
        at_entry: Mapping[str, tuple[Set[str], Set[str]]] | None = None,
    ) -> dict[str, set[str]]:
        """For each of `labels` the results that the block or one after it uses and that came before
        it.

        `at_entry` changes what is needed at some labels: (no longer needed, needed instead).
        Parameters are not counted. A phi's source is needed at the end of the block it comes from.
        """
        changes = {
            label: (self._set(dropped), self._set(instead))
            for label, (dropped, instead) in (at_entry or {}).items()
        }
        live = dict.fromkeys(self._function.blocks, 0)
        waiting = dict.fromkeys(self._order)
        while waiting:
            again: dict[str, None] = {}
            for label in waiting:
                after = self._passed_to_phis[label]
                for successor in self._function.blocks[label].successors:
                    after |= live[successor]
                needed = self._used[label] | after & ~self._made[label]
                if label in changes:
                    dropped, instead = changes[label]
                    needed = needed & ~dropped | instead
                if needed != live[label]:
                    live[label] = needed
                    again.update(dict.fromkeys(self._before[label]))
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

    def _phi_sources(self) -> dict[str, int]:
        """For each label the results that phis take when control comes from it."""
        sources = dict.fromkeys(self._function.blocks, 0)
        for block in self._function.blocks.values():
            for phi in block.phis:
                for value, label in phi.incoming:
                    sources[label] |= self._bits.get(value, 0)
        return sources
