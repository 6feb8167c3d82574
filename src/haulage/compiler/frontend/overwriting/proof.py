"""That a launch writes every element of an array, and on what conditions."""

from collections.abc import Iterator
from itertools import combinations
from typing import Any, NamedTuple

from numba.core import ir, types

from haulage.compiler.access.model import ByBlock, ByGrid, ByLoop, ByThread, Path, Whole
from haulage.compiler.access.terms import Sum, Symbol, number, place, symbol, threads
from haulage.compiler.frontend.overwriting.conditions import (
    Bound,
    Branches,
    Element,
)
from haulage.compiler.frontend.overwriting.loops import Counter
from haulage.compiler.frontend.overwriting.uses import is_only_written
from haulage.compiler.frontend.overwriting.values import Values
from haulage.compiler.frontend.overwriting.ways import Ways

# So many conditions on launches are tried in all ways.
_MOST = 6

_AXES = range(3)
# What tells the threads of a launch apart.
_OWN = frozenset((name, axis) for name in ("thread", "at block") for axis in _AXES)


class _Store(NamedTuple):
    """Statements that write one element: its array and indices, the loops that they are in."""

    path: Path
    indices: tuple[Sum, ...]
    loops: tuple[int, ...]


class _Shared(NamedTuple):
    """How an axis of an array is shared out: see `model.Whole`. `uses` is what of a thread decides
    which of the axis's elements are its own; `counter` the loop's."""

    way: str
    axis: int
    uses: frozenset[Symbol]
    counter: Counter | None = None


def wholes(function_ir: Any, typemap: dict[str, Any]) -> tuple[Whole, ...]:
    """The arrays of a typed kernel whose every element is written, and by which launches."""
    if not any(
        isinstance(statement, ir.SetItem)
        for block in function_ir.blocks.values()
        for statement in block.body
    ):
        return ()
    values = Values(function_ir, typemap)
    stores: dict[_Store, list[int]] = {}
    for label, store in _stores(values):
        stores.setdefault(store, []).append(label)
    only_written = {
        path for path in {store.path for store in stores} if is_only_written(values, path)
    }
    found = (
        _proof(values, store, labels)
        for store, labels in stores.items()
        if store.path in only_written
    )
    return tuple(dict.fromkeys(each for each in found if each is not None))


def _stores(values: Values) -> Iterator[tuple[int, _Store]]:
    for (label, _), statement in values.statements():
        if not isinstance(statement, ir.SetItem):
            continue
        path = values.memory(statement.target)
        kind: Any = values.typemap.get(statement.target.name)
        if path is None or type(kind) is not types.Array:
            continue
        if not isinstance(kind.dtype, (types.Number, types.Boolean)):
            continue
        indices = _indices(values, statement.index)
        if indices is None or len(indices) != kind.ndim:
            continue
        if all(values.loops.are_around(each, label) for each in indices):
            yield label, _Store(path, indices, values.loops.around(label))


def _indices(values: Values, variable: Any) -> tuple[Sum, ...] | None:
    if isinstance(values.typemap.get(variable.name), types.BaseTuple):
        listed = values.entries(variable)
    else:
        listed = [values.number(variable)]
    if listed is None:
        return None
    known = tuple(each for each in listed if each is not None)
    return known if len(known) == len(listed) else None


def _shared(values: Values, index: Sum) -> _Shared | None:
    """How an axis with this index is shared out, if every element has its turn."""
    for axis in _AXES:
        thread, block = symbol("thread", axis), symbol("at block", axis)
        ways = {
            ByGrid: (place(axis), block + thread * symbol("grid", axis)),
            ByThread: (thread,),
            ByBlock: (block,),
        }
        for way, numbers in ways.items():
            if index in numbers:
                return _Shared(way, axis, _OWN & frozenset(index.symbols()))
    symbols = tuple(index.symbols())
    if len(symbols) != 1 or index != symbol(*symbols[0]):
        return None
    counter = values.loops.counters.get(symbols[0])
    if counter is None:
        return None
    begins = [(number(0), number(1))]
    for axis in _AXES:
        begins += [
            (place(axis), threads(axis)),
            (symbol("thread", axis), symbol("block", axis)),
            (symbol("at block", axis), symbol("grid", axis)),
        ]
    if (counter.first, counter.step) not in begins:
        return None
    own = _OWN & frozenset(counter.first.symbols())
    return _Shared(ByLoop, 0, own | frozenset(symbols), counter)


def _proof(values: Values, store: _Store, labels: list[int]) -> Whole | None:
    axes = [_shared(values, index) for index in store.indices]
    shared = [each for each in axes if each is not None]
    if len(shared) != len(axes):
        return None
    used = [symbol for each in shared for symbol in each.uses]
    counted = [each.counter for each in shared if each.counter is not None]
    counters = {each.loop: each for each in counted}
    # Two axes that go on together are a diagonal.
    if len(set(used)) != len(used) or len(counters) != len(counted):
        return None
    # Another loop around may have no turn.
    if set(counters) != set(store.loops):
        return None
    element = Element(
        store.path,
        tuple(
            (index,) if each.counter is None else (index, each.counter.first)
            for index, each in zip(store.indices, shared, strict=True)
        ),
        _OWN - frozenset(used),
    )
    needed = _of_ranges(store.path, shared)
    if needed is None:
        return None
    search = _Search(values, store, labels, counters, element)
    taken = search.bounds()
    if taken is None:
        return None
    along = tuple((each.way, each.axis) for each in shared)
    return Whole(store.path, along, tuple(dict.fromkeys((*needed, *taken))))


def _of_ranges(path: Path, shared: list[_Shared]) -> tuple[Bound, ...] | None:
    """What has to hold for the ends of ranges; None if that is never so."""
    needed = []
    for axis, each in enumerate(shared):
        if each.counter is None or each.counter.stop is None:
            continue
        more = (each.counter.stop - symbol("shape", path, axis)).constant()
        if more is not None and more < 0:
            return None
        if more is None:
            if not each.counter.stop.is_of_launch():
                return None
            needed.append((axis, each.counter.stop))
    return tuple(needed)


class _Search:
    """The search for conditions by which an element is written by the thread that it belongs to."""

    def __init__(
        self,
        values: Values,
        store: _Store,
        labels: list[int],
        counters: dict[int, Counter],
        element: Element,
    ) -> None:
        self._values = values
        self._store = store
        self._labels = labels
        self._counters = counters
        self._element = element
        self._at_it = Branches(values, element)
        self._turns = [
            Branches(values, self._behind(store.loops[: depth + 1]))
            for depth in range(len(store.loops))
        ]

    def bounds(self) -> tuple[Bound, ...] | None:
        """As few of them as there have to be; None if there are none that will do."""
        asked = (self._at_it, *self._turns)
        possible = list(dict.fromkeys(bound for branches in asked for bound in branches.bounds))
        if len(possible) > _MOST:
            return None
        for count in range(len(possible) + 1):
            for taken in combinations(possible, count):
                if self._is_written(frozenset(taken)):
                    return taken
        return None

    def _behind(self, loops: tuple[int, ...]) -> Element:
        """The element while the last of these loops, which are around each other, is on its way to
        a turn that there is: its index in that turn is one too, and that of loops within is none
        any more."""
        indices = []
        for known in self._element.indices:
            counted = [each[1] for each in known[0].symbols() if each[0] == "count"]
            if not counted:
                indices.append(known)
            elif counted[0] not in loops:
                indices.append(known[1:])
            elif counted[0] != loops[-1]:
                indices.append(known)
            else:
                indices.append((*known, known[0] + self._counters[counted[0]].step))
        return Element(self._element.path, tuple(indices), self._element.free)

    def _is_written(self, taken: frozenset[Bound]) -> bool:
        ways = Ways(self._values, self._at_it, taken)
        loops = self._store.loops
        goals = [*([loop] for loop in loops), self._labels]
        if not ways.all_pass(goals[0]):
            return False
        for loop, turns, inner in zip(loops, self._turns, goals[1:], strict=True):
            body = self._counters[loop].body
            if not ways.each_turn_passes(loop, inner, body):
                return False
            if not Ways(self._values, turns, taken).stays(loop, body):
                return False
        return True
