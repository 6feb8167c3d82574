"""The loops of a kernel whose variable counts up by a constant step from where it begins."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from numba.core import ir, types

from haulage.compiler.access.terms import Sum, number, symbol

if TYPE_CHECKING:
    from haulage.compiler.frontend.overwriting.values import Values


class Place(NamedTuple):
    """Where a statement is: the label of its block, and its number there."""

    label: int
    position: int


@dataclass(frozen=True)
class Counter:
    """The variable of a loop: what it begins with, its step, and for `range` where that ends.

    `loop` is the label of the loop's first block; `body`, for `range`, that of the block in which
    a turn begins.
    """

    loop: int
    first: Sum
    step: Sum
    stop: Sum | None = None
    body: int | None = None


class Loops:
    """The loops of a function. `counters` are those that are known, by their symbols."""

    def __init__(self, values: "Values") -> None:
        self._values = values
        self.bodies: dict[int, frozenset[int]] = {
            label: frozenset(loop.body) for label, loop in values.graph.loops().items()
        }
        self.counters: dict[Any, Counter] = {}

    def around(self, label: int) -> tuple[int, ...]:
        """The loops that a block is in, the outermost first."""
        inside = [loop for loop, body in self.bodies.items() if label in body]
        return tuple(sorted(inside, key=lambda loop: -len(self.bodies[loop])))

    def are_around(self, value: Sum, label: int) -> bool:
        """Whether a block is in all loops that a number counts the turns of."""
        return all(label in self.bodies[each[1]] for each in value.symbols() if each[0] == "count")

    def _begins_before(self, label: int, loop: int) -> bool:
        """Whether a block is passed just once, each time that a loop is come to."""
        return (
            self.around(label) == self.around(loop)[:-1]
            and label in self._values.graph.dominators()[loop]
        )

    # ---- for ... in range(...) --------------------------------------------------------------

    def of_range(self, pair: Any) -> Sum | None:
        """The variable of a `for` loop over a range, of which `pair` is the first of each pair."""
        values = self._values
        found = values.made(pair.value)
        if found is None or not _is(found[1], "iternext") or found[0].label not in self.bodies:
            return None
        loop = found[0].label
        began = values.made(found[1].value)
        if began is None or not _is(began[1], "getiter") or self._nexts(began[1]) != 1:
            return None
        called = values.value(began[1].value)
        if not _is(called, "call") or values.python(called.func) is not range:
            return None
        if called.kws or called.vararg or not self._begins_before(began[0].label, loop):
            return None
        body = self._turn(loop, found[1])
        given = [each for arg in called.args if (each := values.number(arg)) is not None]
        if body is None or len(given) != len(called.args) or not 1 <= len(given) <= 3:
            return None
        if len(given) == 1:
            given.insert(0, number(0))
        first, stop, step = (*given, number(1))[:3]
        made = symbol("count", loop, "")
        self.counters["count", loop, ""] = Counter(loop, first, step, stop, body)
        return made

    def _nexts(self, began: Any) -> int:
        """How many places there are that take the next one of an iterator."""
        values = self._values
        return sum(
            values.value(value.value) is began
            for found in values.assigned.values()
            for _, value in found
            if _is(value, "iternext")
        )

    def _turn(self, loop: int, following: Any) -> int | None:
        """The block in which a turn of a `for` loop begins."""
        end = self._values.blocks[loop].body[-1]
        if not isinstance(end, ir.Branch):
            return None
        more = self._values.value(end.cond)
        if not _is(more, "pair_second") or self._values.value(more.value) is not following:
            return None
        body: int = end.truebr
        return body

    # ---- i = first; while ...: ...; i += step -----------------------------------------------

    def note_counter(self, name: str, found: list[tuple[Place, Any]]) -> None:
        """Note a variable with two values, if one is what it begins with in front of a loop and the
        other what it becomes at the end of each turn."""
        values = self._values
        (before, first), (behind, following) = sorted(
            found, key=lambda each: len(self.around(each[0].label))
        )
        inside = self.around(behind.label)
        if not inside or not self._begins_before(before.label, inside[-1]):
            return
        loop = inside[-1]
        ends = {label for label, _ in values.graph.predecessors(loop)} & self.bodies[loop]
        if ends != {behind.label} or self._is_read_behind(name, behind):
            return
        if not isinstance(first, ir.Var) or not isinstance(following, ir.Var):
            return
        if not all(self._fits(name, each) for each in (first, following)):
            return
        begins = values.number(first)
        if begins is None:
            return
        own = ("count", loop, name)
        values.know(name, symbol(*own))
        self.counters[own] = Counter(loop, begins, number(0))
        becomes = values.number(following)
        step = becomes - symbol(*own) if becomes is not None else None
        if step is None or any(each[0] == "count" for each in step.symbols()):
            del self.counters[own]
            values.know(name, None)
            return
        self.counters[own] = Counter(loop, begins, step)

    def _fits(self, name: str, source: Any) -> bool:
        """Whether a variable has all values of another."""
        kind, given = (self._values.typemap.get(each) for each in (name, source.name))
        return (
            isinstance(kind, types.Integer)
            and isinstance(given, types.Integer)
            and (kind.bitwidth == 64 or kind == given)
        )

    def _is_read_behind(self, name: str, at: Place) -> bool:
        body = self._values.blocks[at.label].body
        return any(
            name in {variable.name for variable in statement.list_vars()}
            for statement in body[at.position + 1 :]
            if not isinstance(statement, ir.Del)
        )


def _is(value: Any, op: str) -> bool:
    return isinstance(value, ir.Expr) and value.op == op
