"""Where a thread can go that is about to write an element."""

from collections.abc import Iterable
from typing import Any

from numba.core import ir

from haulage.compiler.frontend.overwriting.conditions import Bound, Branches
from haulage.compiler.frontend.overwriting.values import Values

# The end of the kernel.
END = -1


class Ways:
    """The ways through a function if the conditions `taken` are met."""

    def __init__(self, values: Values, branches: Branches, taken: frozenset[Bound]) -> None:
        self._values = values
        self._branches = branches
        self._taken = taken

    def _next(self, label: int) -> tuple[int, ...]:
        """Where a thread can go from a block."""
        end = self._values.blocks[label].body[-1]
        if isinstance(end, ir.Branch):
            answer = self._branches.answer(label, self._taken)
            if answer is not None:
                return (end.truebr if answer else end.falsebr,)
        return tuple(end.get_targets()) or (END,)

    def _reached(
        self, start: int, goals: Iterable[int], inside: Any, first: int | None = None
    ) -> set[int]:
        """The blocks and ends that are reached from a block, at first by way of `first` if that is
        given, without passing one of `goals`.

        Outside of the blocks `inside`, and from `start` when that is reached, it goes no further.
        """
        goals = frozenset(goals)
        if start in goals:
            return set()
        found: set[int] = set()
        waiting = list(self._next(start)) if first is None else [first]
        while waiting:
            label = waiting.pop()
            if label in found or label in goals:
                continue
            found.add(label)
            if label != END and label != start and label in inside:
                waiting += self._next(label)
        return found

    def all_pass(self, goals: Iterable[int]) -> bool:
        """Whether a thread comes to one of the blocks `goals` before it ends."""
        entry = self._values.graph.entry_point()
        return END not in self._reached(entry, goals, self._values.blocks)

    def each_turn_passes(self, loop: int, goals: Iterable[int], body: int | None) -> bool:
        """Whether a turn of a loop, which begins in the block `body` behind its first one, comes to
        one of the blocks `goals` before it ends."""
        inside = self._values.loops.bodies[loop]
        reached = self._reached(loop, goals, inside, body)
        return loop not in reached and reached <= inside

    def stays(self, loop: int, body: int | None) -> bool:
        """Whether the thread is still in a loop when a turn has ended."""
        inside = self._values.loops.bodies[loop]
        return self._reached(loop, (), inside, body) <= inside
