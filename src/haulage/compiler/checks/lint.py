"""Calls that measure what a kernel would cost a GPU: its requests of memory, its branches in loops,
and its arithmetic of float64.

Each call but those that count is given a path: a number that is the same for lanes of a warp which
are in the same iteration of the same loops. So the lanes of one request are found although they
run one after the other: those that come to a site by one path, as on a GPU whose lanes meet again
behind each branch and each loop.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

from haulage._core import lint
from haulage.compiler.checks.doubles import Doubles
from haulage.compiler.checks.lines import NOWHERE, Location, location_of
from haulage.compiler.checks.sites import READ, WRITE
from haulage.compiler.simt.analysis.control_flow import Graph, Loop, reachable_until
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Block, Function, Instruction
from haulage.compiler.simt.ir.types import size_of
from haulage.targets.cpu_lanes import COLLECTIVES

THREAD = "haulage_lint_thread"
LANE = "%haulage.lane"
DECLARED = {
    THREAD: ("ptr", "i64, i32"),
    "haulage_lint_access": ("void", "ptr captures(none), ptr captures(none), i64, i64"),
    "haulage_lint_branch": ("void", "ptr captures(none), i64, i64, i64"),
    "haulage_lint_loop": ("void", "ptr captures(none), i64, i64"),
    "haulage_lint_count": ("void", "ptr captures(none), i64, i64"),
    "haulage_lint_works": ("void", "ptr captures(none)"),
}
_MOST_BYTES = 4096
# Of a branch whose ways cost less than so many operations it does not matter that lanes wait.
_ENOUGH = 12
# Odd, with no pattern: paths of different loops and iterations do not meet.
_TIMES, _STEP = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03


@dataclass(frozen=True)
class LintSite:
    """A place that is measured.

    Attributes:
        kind: one of `_core.lint`'s.
        file, line: of the source.
        array: the name of the array that is accessed, where the source has one.
        what: `sites.READ` or `sites.WRITE`, "branch", "loop", or why a line computes in float64.
        nbytes: of the access of one lane.
        group: the number that sites of one line, one array and one kind have in common.
        waits, taken_waits: of a branch, which lanes have nothing to do on the way that others go.
        exits: whether lanes leave a loop where they enter it, by its own test.
    """

    kind: int
    file: str
    line: int
    array: str
    what: str
    nbytes: int = 0
    group: int = 0
    waits: bool = False
    taken_waits: bool = False
    exits: bool = False


class Left(NamedTuple):
    """What LLVM leaves of a function, and the locations of its instructions."""

    function: Function
    locations: Mapping[str, Location]


class LocalArray(NamedTuple):
    """An array of a thread's own, the bytes that it has, and the line that makes it."""

    name: str
    nbytes: int
    file: str
    line: int


@dataclass
class Linted:
    """Puts the calls into a function.

    `locations` are those of its instructions; `memory_of` says of an address whether it is "shared"
    or "global", or "" for all else, and the name of the argument that it is of, or "". What LLVM
    takes away costs a GPU nothing: `combined` is what it leaves of the arithmetic, `optimised` what
    it leaves of the whole function where nothing is checked. `layouts` has the shapes of the arrays
    that the kernel makes for itself, by their names, and `local_arrays` those of each thread.
    """

    function: Function
    locations: Mapping[str, Location]
    memory_of: Callable[[str], tuple[str, str]]
    combined: Left
    optimised: Left
    layouts: Mapping[str, tuple[int, ...]]
    local_arrays: Sequence[LocalArray] = ()
    sites: list[LintSite] = field(default_factory=list)
    _groups: dict[object, int] = field(default_factory=dict)
    _numbers: dict[object, int] = field(default_factory=dict)
    _paths: dict[str, str] = field(default_factory=dict)
    _starts: dict[str, str] = field(default_factory=dict)
    _items: dict[str, Instruction] = field(default_factory=dict)
    _count: int = 0

    def add(self) -> None:
        """Put them in. What asks for the lane is left to the caller: `LANE` by `THREAD`."""
        graph = Graph(self.function.successors(), self.function.entry)
        doubles = Doubles(self.function, self.locations, *self.combined)
        left = self._branches_left()
        loops = {loop.header: loop for loop in graph.loops}
        tests = {loop.header: self._test_of(loop) for loop in graph.loops}
        tested = {
            self._location(each.terminator)
            for each in tests.values()
            if isinstance(each.terminator, Instruction)
        }
        entered = self._entered(graph)
        self._items = self.function.items()
        for label in graph.order:
            block, loop = self.function.blocks[label], graph.innermost_loop(label)
            path = self._paths[loop.header] if loop else "0"
            body: list[Instruction] = []
            if label in loops:
                body += self._loop(loops[label], tests[label], entered[label])
            for item in block.body:
                body += [*self._calls(item, path), item]
            for (file, line), (operations, why) in doubles.of(label).items():
                if _is_own(file):
                    number = self._number(LintSite(lint.COUNT, file, line, "", why), (file, line))
                    given = ("i64", str(number)), ("i64", str(operations))
                    body.append(self._call("count", *given))
            if loop is not None:
                body += self._branch(graph, block, loop, tested, path, left)
            block.body = body
        self._follow(graph, entered)

    @property
    def groups(self) -> int:
        """How many groups the sites are of."""
        return len(self._groups)

    # ---- paths ----------------------------------------------------------------------------------

    def _entered(self, graph: Graph) -> dict[str, str]:
        """For the header of each loop what its path begins with; names the paths."""
        self._paths = {loop.header: self._fresh() for loop in graph.loops}
        made: dict[str, str] = {}
        for number, loop in enumerate(graph.loops, 1):
            start = str(_signed(number * _STEP * _STEP))
            outer = _outer(graph, loop)
            made[loop.header] = start if outer is None else self._fresh()
            self._starts[loop.header] = start
        return made

    def _follow(self, graph: Graph, entered: Mapping[str, str]) -> None:
        """Work out the paths: a phi at the head of each loop."""
        sources: dict[str, list[str]] = {}
        for label, block in self.function.blocks.items():
            for target in block.successors:
                sources.setdefault(target, []).append(label)
        for loop in graph.loops:
            head, path = self.function.blocks[loop.header], self._paths[loop.header]
            after = self._fresh()
            incoming = [
                (after if source in loop.labels else entered[loop.header], source)
                for source in sources[loop.header]
            ]
            head.phis.append(Builder.phi("i64", incoming, path))
            made = [Builder.binary("add", "i64", path, str(_signed(_STEP)), name=after)]
            for inner in graph.loops:
                if _outer(graph, inner) is not loop:
                    continue
                times, first = self._fresh(), entered[inner.header]
                start = self._starts[inner.header]
                made += [
                    Builder.binary("mul", "i64", path, str(_signed(_TIMES)), name=times),
                    Builder.binary("add", "i64", times, start, name=first),
                ]
            head.body[:0] = made

    # ---- calls ----------------------------------------------------------------------------------

    def _calls(self, item: Instruction, path: str) -> list[Instruction]:
        if item.callee in COLLECTIVES:
            return [self._call("works")]
        if item.address is None:
            return []
        memory, argument = self.memory_of(item.address.text)
        at = self._location(item)
        nbytes = size_of(item.accessed_type) or 0
        if not memory or not at.file:
            return []
        plain = item.opcode in ("load", "store") and "atomic" not in item.flags
        if not plain or not _is_own(at.file) or not 0 < nbytes <= _MOST_BYTES:
            return [self._call("works")]
        if self._is_read(item.address.text):
            # Where the data say which elements are used, no other code would use them better.
            return [self._call("works")]
        what = READ if item.opcode == "load" else WRITE
        kind = lint.SHARED if memory == "shared" else lint.GLOBAL
        site = LintSite(kind, at.file, at.line, at.array or argument, what, nbytes)
        number = self._number(site, item)
        given = ("ptr", item.address.text), ("i64", str(number)), ("i64", path)
        return [self._call("access", *given)]

    def _test_of(self, loop: Loop) -> Block:
        """The block with a loop's own test: of those that leave it the one that comes first in the
        source. Of an endless loop its head."""
        leaving = [
            (self._location(end).line, label)
            for label in loop.labels
            if isinstance(end := self.function.blocks[label].terminator, Instruction)
            and not loop.labels.issuperset(end.targets)
            and self._location(end).line
        ]
        return self.function.blocks[min(leaving)[1] if leaving else loop.header]

    def _loop(self, loop: Loop, test: Block, entered: str) -> list[Instruction]:
        """What tells of an iteration."""
        end = test.terminator
        at = self._location(end) if isinstance(end, Instruction) else NOWHERE
        if not at.file or not _is_own(at.file):
            return []
        # Numba puts the test of a `while` at the end of the loop, and in front of it once more.
        exits = loop.header not in test.successors
        site = LintSite(lint.LOOP, at.file, at.line, "", "loop", exits=exits)
        number = self._number(site, loop.header)
        return [self._call("loop", ("i64", str(number)), ("i64", entered))]

    def _is_read(self, address: str) -> bool:
        """Whether an address is made from what was read from memory that is not the thread's own,
        other than by a loop that counts from there."""
        seen, waiting = set[str](), [address]
        while waiting:
            name = waiting.pop()
            item = self._items.get(name)
            if name in seen or item is None or item.is_phi:
                continue
            seen.add(name)
            if item.address is not None:
                if self.memory_of(item.address.text)[0]:
                    return True
                continue
            waiting += item.uses
        return False

    def _costs(self, graph: Graph, loop: Loop, start: str, joins: Iterable[str]) -> int:
        """About what the way from a block of a loop on costs, up to others: accesses of memory,
        divisions and calls count for several operations, and loops for more than any."""
        cost, stops = 0, {loop.header, *joins}
        heads = {loop.header for loop in graph.loops} - stops
        labels, waiting = set[str](), [start]
        while waiting:
            label = waiting.pop()
            if label in labels or label in stops:
                continue
            labels.add(label)
            waiting += loop.labels.intersection(graph.successors[label])
            cost += _ENOUGH * (label in heads)
            for item in self.function.blocks[label].body:
                if (item.callee or "").startswith("haulage_lint"):
                    continue
                if item.address is not None and self.memory_of(item.address.text)[0]:
                    cost += 4
                elif item.opcode in ("call", "fdiv", "frem"):
                    cost += 8
                elif item.opcode in ("fadd", "fsub", "fmul"):
                    cost += 1
        return cost

    def _branch(
        self,
        graph: Graph,
        block: Block,
        loop: Loop,
        tested: set[Location],
        path: str,
        left: set[tuple[str, int]],
    ) -> list[Instruction]:
        """What tells of a branch within a loop that leaves it in no case."""
        end = block.terminator
        if block.condition is None or not isinstance(end, Instruction):
            return []
        taken, other = end.targets
        at = self._location(end)
        is_left = (at.file, at.line) in left and _is_own(at.file)
        if not is_left or at in tested or taken == other or not {taken, other} <= loop.labels:
            return []
        waits = other in reachable_until(graph.successors, [taken], loop.header)
        taken_waits = taken in reachable_until(graph.successors, [other], loop.header)
        sides = [side for side, joins in ((taken, taken_waits), (other, waits)) if not joins]
        joins = {taken, other}.difference(sides)
        if not any(self._costs(graph, loop, side, joins) >= _ENOUGH for side in sides):
            return []
        site = LintSite(
            lint.BRANCH,
            at.file,
            at.line,
            "",
            "branch",
            waits=waits,
            taken_waits=taken_waits,
        )
        name = self._fresh()
        number = self._number(site, end)
        given = ("i64", str(number)), ("i64", path), ("i64", name)
        wide = Builder.cast("zext", "i1", block.condition, "i64", name)
        return [wide, self._call("branch", *given)]

    def _number(self, site: LintSite, which: object) -> int:
        """The number of the site of one instruction, or of what else it is told by."""
        key = site.kind, id(which) if isinstance(which, Instruction) else which
        if key not in self._numbers:
            together: object = (site.kind, site.file, site.line, site.array, site.what)
            if site.kind not in (lint.GLOBAL, lint.SHARED):
                together = key
            group = self._groups.setdefault(together, len(self._groups))
            self._numbers[key] = len(self.sites)
            self.sites.append(replace(site, group=group))
        return self._numbers[key]

    def _branches_left(self) -> set[tuple[str, int]]:
        """The lines with branches that LLVM has not made something else of."""
        found = set()
        for block in self.optimised.function.blocks.values():
            if block.condition is not None and isinstance(block.terminator, Instruction):
                at = location_of(block.terminator, self.optimised.locations)
                found.add((at.file, at.line))
        return found

    def _location(self, item: Instruction) -> Location:
        return location_of(item, self.locations)

    def _call(self, word: str, *given: tuple[str, str]) -> Instruction:
        return Builder.call("void", f"haulage_lint_{word}", (("ptr", LANE), *given))

    def _fresh(self) -> str:
        self._count += 1
        return f"%haulage.lint.{self._count}"


def _outer(graph: Graph, loop: Loop) -> Loop | None:
    """The smallest loop around another one."""
    around = (each for each in graph.loops if each is not loop and loop.header in each.labels)
    return next(around, None)


def _signed(number: int) -> int:
    """The low 64 bits of a number as LLVM writes them."""
    low = number & (1 << 64) - 1
    return low - (1 << 64) if low >> 63 else low


@cache
def _is_own(file: str) -> bool:
    """Whether a file is the program's: no part of Haulage or Numba."""
    return not any(file.startswith(folder) for folder in _others())


@cache
def _others() -> tuple[str, ...]:
    found = map(find_spec, ("haulage", "numba"))
    return tuple(
        folder + os.sep
        for each in found
        if each is not None
        for folder in each.submodule_search_locations or ()
    )
