"""Splits loops such as `for i in range(cuda.grid(1), n, cuda.gridsize(1))`, so that all threads of
a block are in step in all iterations but the last.

As long as the thread that begins last is below the end, all threads make the iteration. So these
iterations become a loop of their own, which counts by what is uniform, and in which the index is a
uniform value plus the thread's own distance from it. The original loop comes behind, as the
remainder: one iteration for some threads of the block that the end lies in, none for any other
block, which skips it. This is index-set splitting (Griebl, Feautrier and Lengauer, 2000).

    left = n - start of the last thread         # uniform
    while left > 0: ...; left -= step           # all threads are in it
    if left + spread > 0:                       # some thread has another iteration
        the original loop, from where this one came to

LLVM leaves such a loop's condition at the end of an iteration, and once before the first. Numba
counts the iterations of `range(start, end, step)` when the loop begins: (end - start) / step,
rounded up; where the step is a power of two LLVM makes (end - start + step - 1) >> bits of it. In a
`while` loop the index itself is compared with the end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from haulage.compiler.mathematics.definitions import PURE
from haulage.compiler.simt.analysis.affine import AvailableForms, Form
from haulage.compiler.simt.analysis.control_flow import Loop
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Block, Function, Instruction, Operand, value_name
from haulage.compiler.simt.ir.types import TERMINATORS

_MOST_CHAIN = 4
_SIDE_EFFECTS = frozenset(("store", "atomicrmw", "cmpxchg", "fence", "alloca", "call"))
_INVERSE = {"slt": "sge", "sge": "slt", "sgt": "sle", "sle": "sgt"}

# A condition and the outcome that it has.
Test = tuple[str, bool]


@dataclass(frozen=True)
class Split:
    """A function, the headers of its remainder loops with the labels to split regions at in front
    of them, and the labels of all blocks of these loops and on the path there."""

    function: Function
    remainders: Mapping[str, str]
    labels: frozenset[str]


def split(analyses: Analyses, flow: Uniformity, block: tuple[int, int, int]) -> Split:
    """Split the grid-stride loops of a kernel for blocks of one size (x, y, z).

    `flow` is how all threads diverge, those that leave included.
    """
    function = analyses.function
    candidates = [
        loop
        for loop in analyses.loops
        if loop.header in flow.divergent
        and not any(other.labels < loop.labels for other in analyses.loops)
    ]
    ranges = analyses.get(ValueRanges)
    remainders: dict[str, str] = {}
    labels: set[str] = set()
    for loop in candidates:
        found = find(analyses, loop, flow)
        if found is None or not ranges.is_nonnegative(found.counter.step):
            continue
        form = _start(analyses, found, flow, ranges)
        if form is None:
            continue
        spread = sum(step * (size - 1) for step, size in zip(form.steps, block, strict=True))
        if found.counter.step.isdigit() and int(found.counter.step) <= spread:
            # Neighbours make numbers of iterations that differ by more than one.
            continue
        splitter = _Splitter(function, found, form, spread, len(remainders))
        function = splitter.split()
        analyses = Analyses(function)
        remainders[loop.header] = splitter.remainder
        labels |= {*loop.labels, *found.chain, splitter.remainder}
    return Split(function, remainders, frozenset(labels))


def _start(
    analyses: Analyses, found: "StridedLoop", flow: Uniformity, ranges: ValueRanges
) -> Form | None:
    """What the index begins with, if it does not go down along the block and is not negative."""
    if not ranges.is_nonnegative(found.counter.start):
        return None
    available = {each.name for each in analyses.function.parameters} | {
        name
        for name, (label, _) in analyses.definitions.items()
        if name not in flow.varying and analyses.dominates(label, found.guard)
    }
    forms = AvailableForms(analyses.items, flow.varying, available, ranges)
    form = forms.of(Operand("i64", found.counter.start))
    return None if form is None or form.products or min(form.steps) < 0 else form


# ---- strided loops -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counter:
    """How a loop counts: the phi `index` from `start`, below `end`, in steps of `step`.

    `tests` are what tells whether there is a first iteration, in order. A loop that counts its
    iterations down does so by the phi `count`, which `count_next` follows.
    """

    index: str
    start: str
    end: str
    step: str
    tests: tuple[str, ...]
    count: str | None = None
    count_next: str | None = None


@dataclass(frozen=True)
class StridedLoop:
    """A loop of `labels` that counts in equal steps.

    `guard` is the last block that all threads reach before it, `chain` the blocks from there to
    `header`; `latch` ends each iteration, with `condition`, and `after` is where all go then.
    `results` are, for each phi of `after`, the phi of the header or the outer value that it gets.
    """

    labels: frozenset[str]
    guard: str
    chain: tuple[str, ...]
    header: str
    latch: str
    after: str
    phis: tuple[Instruction, ...]
    condition: str
    counter: Counter
    results: Mapping[str, str]

    def sources(self, phi: Instruction) -> tuple[str, str]:
        """A header's phi at the first iteration and at the next ones."""
        return _sources(phi, self.latch)


def find(analyses: Analyses, loop: Loop, flow: Uniformity) -> StridedLoop | None:
    """The strided loop that an innermost loop of a function is, if it is one that threads leave at
    different times, and that they all come to together."""
    finder = _Finder(analyses)
    blocks = analyses.function.blocks
    ends = finder.ends(loop)
    if ends is None or any(_is_collective(item) for at in loop.labels for item in blocks[at].body):
        return None
    latch, after, before = ends
    path = finder.path(loop.header, before, after, flow)
    if path is None:
        return None
    phis = blocks[loop.header].phis
    condition, tests = blocks[latch].condition, finder.tests([*path, loop.header])
    if condition is None or tests is None or any(len(_sources(phi, latch)) != 2 for phi in phis):
        return None
    goes_on = (condition, blocks[latch].successors[0] == loop.header)
    counter = finder.compared(goes_on, phis, latch, tests) or finder.counted(
        goes_on, phis, latch, tests
    )
    if counter is None or not finder.is_alone(condition):
        return None
    if counter.count and not finder.is_alone(counter.count, counter.count_next, condition):
        return None
    inside = {item.result for at in loop.labels for item in blocks[at].instructions()}
    in_chain = {item.result for at in path[1:] for item in blocks[at].instructions()}
    initial = {_sources(phi, latch)[0] for phi in phis if phi.result != counter.count}
    start, end, step = counter.start, counter.end, counter.step
    if (initial | {start, end}) & in_chain or {start, end, step} & inside:
        return None
    if {step, end} & flow.varying:
        return None
    carried = {
        _sources(phi, latch): phi.result for phi in phis if phi.result not in (None, counter.count)
    }
    results = finder.results(after, latch, set(path), carried, inside)
    if results is None or finder.is_used_outside(loop, after, inside):
        return None
    guard, *chain = path
    return StridedLoop(
        loop.labels, guard, tuple(chain), loop.header, latch, after, tuple(phis), condition,
        counter, results,
    )  # fmt: skip


def _sources(phi: Instruction, latch: str) -> tuple[str, str]:
    """(a value from outside, the value from the latch) of a header's phi."""
    first = next(value for value, label in phi.incoming if label != latch)
    following = next(value for value, label in phi.incoming if label == latch)
    return first, following


def _is_collective(item: Instruction) -> bool:
    """Whether threads may not go through an instruction one iteration after the other."""
    is_known = (item.callee or "").startswith(PURE)
    return item.opcode == "fence" or (item.opcode == "call" and not is_known)


def _has_effect(item: Instruction) -> bool:
    if item.opcode == "call" and (item.callee or "").startswith(PURE):
        return False
    return item.stays or item.opcode in _SIDE_EFFECTS


class _Finder:
    """Matches the parts of one function's loops."""

    def __init__(self, analyses: Analyses) -> None:
        self._analyses = analyses
        self._blocks = analyses.function.blocks

    def ends(self, loop: Loop) -> tuple[str, str, str] | None:
        """(latch, the label behind, the label before), if there is one of each."""
        sources = self._analyses.predecessors[loop.header]
        before = [label for label in sources if label not in loop.labels]
        leaving = [
            (label, target)
            for label in loop.labels
            for target in self._blocks[label].successors
            if target not in loop.labels
        ]
        if len(before) != 1 or len(leaving) != 1 or len(sources) != 2:
            return None
        latch, after = leaving[0]
        if latch not in sources or len(self._blocks[latch].successors) != 2:
            return None
        return latch, after, before[0]

    def path(self, header: str, before: str, after: str, flow: Uniformity) -> list[str] | None:
        """The last block that all threads reach, and those from there to the loop, which lead
        nowhere else but behind it."""
        found: list[str] = []
        current, following = before, header
        while True:
            block, sources = self._blocks[current], self._analyses.predecessors[current]
            is_branch = isinstance(block.terminator, Instruction) and (
                block.terminator.opcode == "br"
            )
            if not is_branch or not set(block.successors) <= {following, after}:
                return None
            found.insert(0, current)
            if current not in flow.divergent:
                return found
            if block.phis or len(sources) != 1 or len(found) > _MOST_CHAIN:
                return None
            if any(map(_has_effect, block.body)):
                return None
            following, current = current, sources[0]

    def tests(self, path: list[str]) -> list[Test] | None:
        """The conditions on a path, and their outcomes that lead along it."""
        found = []
        for label, target in pairwise(path):
            block = self._blocks[label]
            if len(block.successors) == 1:
                continue
            if block.condition is None or len(set(block.successors)) == 1:
                return None
            found.append((block.condition, block.successors[0] == target))
        return found

    def compared(
        self, goes_on: Test, phis: list[Instruction], latch: str, tests: list[Test]
    ) -> Counter | None:
        """A loop whose index is compared with its end."""
        below = self._below(goes_on)
        for phi in phis:
            start, following = _sources(phi, latch)
            if below is None or below[0] != following or phi.result is None:
                continue
            step = self._step(phi.result, following)
            if step is None or [self._below(each) for each in tests] != [(start, below[1])]:
                return None
            return Counter(phi.result, start, below[1], step, (tests[0][0],))
        return None

    def counted(
        self, goes_on: Test, phis: list[Instruction], latch: str, tests: list[Test]
    ) -> Counter | None:
        """A loop whose iterations were counted when it began."""
        count = next((phi for phi in phis if self._counts_down(phi, latch, goes_on)), None)
        if count is None:
            return None
        trips, count_next = _sources(count, latch)
        quotient = self._rounded_up(trips)
        range_of = self._operands(quotient[0], "sub") if quotient else None
        if quotient is None or range_of is None:
            return None
        distance, step, made = quotient
        end, start = range_of
        parts = [self._parts(each) for each in tests]
        outcomes = [(test, self._below(test)) for found, _ in parts for test in found]
        if ("0", distance) not in [below for _, below in outcomes]:
            return None
        for test, below in outcomes:
            if below not in (("0", distance), ("0", trips)) and self._not_0(test) != trips:
                return None
        names = tuple(dict.fromkeys((distance, *made, *(n for _, names in parts for n in names))))
        for phi in phis:
            begun, following = _sources(phi, latch)
            if phi.result and begun == start and self._step(phi.result, following) == step:
                return Counter(phi.result, start, end, step, names, count.result, count_next)
        return None

    def _parts(self, test: Test) -> tuple[list[Test], list[str]]:
        """The tests that all hold if one does, which is their conjunction, and what its condition
        is made from in order, itself last."""
        condition, outcome = test
        item = self._analyses.items.get(condition)
        # `select i1 a, i1 b, i1 false` is a and b, `select i1 a, i1 true, i1 b` a or b.
        fixed = 2 if outcome else 1
        if (
            item is None
            or item.opcode != "select"
            or item.type != "i1"
            or item.operands[fixed].number != (0 if outcome else 1)
        ):
            return [test], [condition]
        one, other = item.operands[0].text, item.operands[3 - fixed].text
        parts, names = self._parts((one, outcome))
        others, made = self._parts((other, outcome))
        return parts + others, [*names, *made, condition]

    def _counts_down(self, phi: Instruction, latch: str, goes_on: Test) -> bool:
        """Whether a phi is the number of iterations left, by which the loop goes on."""
        _, following = _sources(phi, latch)
        if phi.type != "i64" or phi.result is None or self._step(phi.result, following) != "-1":
            return False
        return self._below(goes_on) in (("1", phi.result), ("0", following))

    def _rounded_up(self, trips: str) -> tuple[str, str, tuple[str, ...]] | None:
        """(distance, step, the names on the way) of a quotient rounded up."""
        shifted = self._operands(trips, "lshr")
        if shifted is not None and shifted[1].isdigit():
            step = 1 << int(shifted[1])
            raised = self._operands(shifted[0], "add")
            if raised is None or raised[1] != str(step - 1):
                return None
            return raised[0], str(step), (shifted[0], trips)
        sum_ = self._operands(trips, "add")
        for quotient, more in (sum_, sum_[::-1]) if sum_ else ():
            pair = self._operands(quotient, "udiv")
            one = self._analyses.items.get(more)
            if pair is None or one is None or one.opcode != "zext":
                continue
            asked = one.operands[0].text
            left = self._not_0((asked, True))
            if left is not None and self._operands(left, "urem") == pair:
                return *pair, (quotient, left, asked, more, trips)
        return None

    def _operands(self, name: str, opcode: str) -> tuple[str, str] | None:
        """The two i64 that a value is made of by `opcode`."""
        item = self._analyses.items.get(name)
        if item is None or item.opcode != opcode or item.operands[0].type != "i64":
            return None
        return item.operands[0].text, item.operands[1].text

    def _step(self, phi: str, following: str) -> str | None:
        """What is added to a phi from iteration to iteration."""
        added = self._operands(following, "add")
        if added is None or added.count(phi) != 1:
            return None
        return added[added[0] == phi]

    def _below(self, test: Test) -> tuple[str, str] | None:
        """(a, b) if a test says that a < b, as signed numbers."""
        pair, item = self._operands(test[0], "icmp"), self._analyses.items.get(test[0])
        if pair is None or item is None:
            return None
        predicate = item.predicate
        if "samesign" in item.flags and predicate[0] == "u":
            predicate = f"s{predicate[1:]}"
        if not test[1]:
            predicate = _INVERSE.get(predicate, "")
        left, right = pair
        # Not below 1 is above 0: LLVM writes 0 < a both ways.
        return {
            "slt": (left, right),
            "sgt": (right, left),
            "sge": ("0", left) if right == "1" else None,
            "sle": ("0", right) if left == "1" else None,
        }.get(predicate)

    def _not_0(self, test: Test) -> str | None:
        """The value that is not 0 if a test holds."""
        pair, item = self._operands(test[0], "icmp"), self._analyses.items.get(test[0])
        is_it = item is not None and item.predicate == ("ne" if test[1] else "eq")
        return pair[0] if pair is not None and is_it and pair[1] == "0" else None

    def is_alone(self, name: str, *but: str | None) -> bool:
        """Whether a value is used by nothing but the results `but` and branches."""
        return all(
            item.opcode in TERMINATORS or item.result in but
            for item in self._analyses.users.get(name, ())
        )

    def results(
        self,
        after: str,
        latch: str,
        earlier: set[str],
        carried: Mapping[tuple[str, str], str | None],
        inside: set[str | None],
    ) -> dict[str, str] | None:
        """Where the phis behind the loop get their values, if it is from the loop's own phis;
        `carried` are these by their sources, `earlier` the labels that skip the loop."""
        found: dict[str, str] = {}
        for phi in self._blocks[after].phis:
            values = {value for value, label in phi.incoming if label in earlier}
            last = next(value for value, label in phi.incoming if label == latch)
            if len(values) != 1 or phi.result is None:
                return None
            (first,) = values
            own = last if first == last and last not in inside else carried.get((first, last))
            if own is None:
                return None
            found[phi.result] = own
        return found

    def is_used_outside(self, loop: Loop, after: str, inside: set[str | None]) -> bool:
        """Whether a value of a loop is used behind it, but for phis at `after`."""
        return any(
            not inside.isdisjoint(item.uses) and not (item.is_phi and label == after)
            for label, block in self._blocks.items()
            if label not in loop.labels
            for item in block.instructions()
        )


# ---- the two loops -------------------------------------------------------------------------------


class _Splitter:
    """Splits one loop. `spread` is how far the starts of a block's threads are apart."""

    def __init__(
        self, function: Function, loop: StridedLoop, form: Form, spread: int, number: int
    ) -> None:
        self._function = function.copy()
        self._builder = Builder("", ())
        self._builder.function = self._function
        self._loop, self._counter = loop, loop.counter
        self._form = form
        self._spread = spread
        self._number = number
        self.remainder = self._new("remainder")
        # Values in the uniform loop, which all threads are in, and between that and the remainder.
        cloned = [
            name
            for label in (*loop.chain, *loop.labels)
            for name in (label, *(item.result for item in function.blocks[label].instructions()))
            if name is not None
        ]
        self._inside = {name: value_name(name, "uniform") for name in cloned}
        self._behind = {
            phi.result or "": self._new(f"{k}.behind") for k, phi in enumerate(loop.phis)
        }

    def _new(self, what: str) -> str:
        return f'%"stride.{self._number}/{what}"'

    def split(self) -> Function:
        loop, blocks = self._loop, self._function.blocks
        order = list(blocks)
        guard = blocks[loop.guard]
        into = guard.terminator
        assert isinstance(into, Instruction)
        chain = [blocks[label] for label in loop.chain]
        guard.terminator = None
        some = self._count_uniformly()
        self._builder.branch(some, self._new("before"), self._new("between"))
        self._builder.block(self._new("before"))
        self._builder.extend(self._clone(item) for block in chain for item in block.body)
        self._builder.jump(self._inside[loop.header])
        self._uniform_loop()
        self._between()
        blocks[self.remainder] = Block(self.remainder, terminator=into)
        self._begin_remainder([blocks[self.remainder], *chain])
        self._merge_results()
        place = order.index(loop.guard) + 1
        made = list(blocks)[len(order) :]
        self._function.blocks = {
            label: blocks[label] for label in (*order[:place], *made, *order[place:])
        }
        return self._function

    def _count_uniformly(self) -> str:
        """At the guard: where the first thread begins, and how much is left for the last one; gives
        whether that is anything."""
        b, new, kind = self._builder, self._new, "i128"
        b.current = self._loop.guard
        total = str(self._form.constant)
        for number, (term, factor) in enumerate(self._form.terms):
            opcode = "sext" if term.signed else "zext"
            wide = b.cast(opcode, term.type, term.value, kind, new(f"{number}.wide"))
            product = b.binary("mul", kind, wide, str(factor), name=new(f"{number}.times"))
            total = b.binary("add", kind, total, product, name=new(f"{number}.sum"))
        first = b.binary("add", kind, total, "0", name=new("first"))
        begin = b.cast("trunc", kind, first, "i64", new("begin"))
        b.binary("sub", "i64", self._counter.start, begin, name=new("own"))
        end = b.cast("sext", "i64", self._counter.end, kind, new("end"))
        last = b.binary("add", kind, first, str(self._spread), name=new("last"))
        exact = b.binary("sub", kind, end, last, name=new("exact"))
        # Starts are not negative, so this is no more than the end.
        least = str(-self._spread)
        small = b.compare("slt", kind, exact, least, new("small"))
        kept = b.select(small, kind, least, exact, new("kept"))
        left = b.cast("trunc", kind, kept, "i64", new("left"))
        return b.compare("sgt", "i64", left, "0", new("any"))

    def _uniform_loop(self) -> None:
        """The loop that all threads are in."""
        b, new, loop, counter = self._builder, self._new, self._loop, self._counter
        dropped = {counter.count_next, loop.condition} - {None}
        for label, old in list(self._function.blocks.items()):
            if label not in loop.labels:
                continue
            b.block(self._inside[label])
            if label == loop.header:
                self._phis("i", "now", self._inside, new("before"))
                b.binary("add", "i64", new("i"), new("own"), name=self._inside[counter.index])
            else:
                b.extend(map(self._clone, old.phis))
            b.extend(self._clone(item) for item in old.body if item.result not in dropped)
            assert isinstance(old.terminator, Instruction)
            if label != loop.latch:
                b.add(self._clone(old.terminator))
                continue
            step = self._inside.get(counter.step, counter.step)
            b.binary("add", "i64", new("i"), step, name=new("i.next"))
            left = b.binary("sub", "i64", new("now"), step, "nsw", name=new("now.next"))
            more = b.compare("sgt", "i64", left, "0", new("more"))
            b.branch(more, self._inside[loop.header], new("between"))

    def _phis(self, index: str, left: str, names: Mapping[str, str], source: str) -> None:
        """Phis of the uniform part of the index, of what is left, and of what else the loop carries
        by `names`, where control comes from `source` or from the uniform loop's latch."""
        b, new, loop, counter = self._builder, self._new, self._loop, self._counter
        latch = self._inside[loop.latch]
        b.phi("i64", ((new("begin"), source), (new("i.next"), latch)), new(index))
        b.phi("i64", ((new("left"), source), (new("now.next"), latch)), new(left))
        for phi in loop.phis:
            if phi.result not in (None, counter.index, counter.count):
                initial, following = loop.sources(phi)
                following = self._inside.get(following, following)
                b.phi(phi.type, ((initial, source), (following, latch)), names[phi.result])

    def _between(self) -> None:
        """Behind the uniform loop: whether anybody has another iteration."""
        b, new, loop = self._builder, self._new, self._loop
        b.block(new("between"))
        self._phis("i.behind", "over", self._behind, loop.guard)
        index = self._behind[self._counter.index]
        b.binary("add", "i64", new("i.behind"), new("own"), name=index)
        some = b.binary("add", "i64", new("over"), str(self._spread), "nsw", name=new("some"))
        asked = b.compare("sgt", "i64", some, "0", new("asked"))
        b.branch(asked, self.remainder, loop.after)

    def _begin_remainder(self, path: list[Block]) -> None:
        """Test anew whether a thread goes into the original loop, and begin it where the uniform
        loop ended."""
        loop, tests = self._loop, self._counter.tests
        names = {name: value_name(name, "remainder") for name in tests}
        renamed = {**names, self._counter.start: self._behind[self._counter.index]}
        definitions = self._function.definitions()
        for name in tests:
            label, item = definitions[name]
            place = self._function.blocks[label] if label in loop.chain else path[0]
            place.body.append(item.renamed(renamed))
        for block in path:
            assert isinstance(block.terminator, Instruction)
            block.terminator = block.terminator.renamed(names)
        header = self._function.blocks[loop.header]
        begun = dict(self._behind)
        if self._counter.count is not None:
            count = next(phi for phi in header.phis if phi.result == self._counter.count)
            begun[self._counter.count] = names[loop.sources(count)[0]]
        header.phis = [
            Builder.phi(
                phi.type,
                ((begun[phi.result or ""], path[-1].label), (loop.sources(phi)[1], loop.latch)),
                name=phi.result or "",
            )
            for phi in header.phis
        ]

    def _merge_results(self) -> None:
        """Come to what is behind the loop with what the iterations have made."""
        loop = self._loop
        after = self._function.blocks[loop.after]
        earlier = {loop.guard, *loop.chain}
        sources = {loop.guard: self.remainder}
        for number, phi in enumerate(after.phis):
            assert phi.result is not None
            value = loop.results[phi.result]
            value = self._behind.get(value, value)
            incoming = [
                (value if label in earlier else each, sources.get(label, label))
                for each, label in phi.incoming
            ]
            incoming.append((value, self._new("between")))
            after.phis[number] = Builder.phi(phi.type, incoming, name=phi.result)

    def _clone(self, item: Instruction) -> Instruction:
        return item.renamed(self._inside)
