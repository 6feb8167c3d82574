"""Splits loops such as `for i in range(cuda.grid(1), n, cuda.gridsize(1))`, so that all threads of
a block are in step in all iterations but the last.

As long as the thread that begins last is below the end, all threads make the iteration. So these
iterations become a loop of their own, which counts by what is uniform. The step is larger than what
the threads of a block are apart, so each of them makes one more iteration at most, which is what
becomes of the original loop: none in any block but the one that the end lies in. This is index-set
splitting (Griebl, Feautrier and Lengauer, 2000).

    left = n - start of the last thread         # uniform
    while left > 0: ...; left -= step           # all threads are in it
    if left + spread > 0:                       # some thread has another iteration
        if start - start of the first thread < left + spread: ...

LLVM leaves such a loop's condition at the end of an iteration, and once before the first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from math import prod

from haulage.compiler.mathematics.definitions import PURE
from haulage.compiler.simt.analysis import AXES
from haulage.compiler.simt.analysis.affine import THREAD, Form, Symbol, forms, number
from haulage.compiler.simt.analysis.control_flow import Loop
from haulage.compiler.simt.analysis.guards import has_effect
from haulage.compiler.simt.analysis.induction import RangeLoop, Test, entering, range_loop
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Block, Function, Instruction, Operand, value_name

_MOST_CHAIN = 4


@dataclass(frozen=True)
class Split:
    """A function, the headers of the loops that all threads are in, the labels of what is left of
    those that were split, and of all blocks of these and on the path there."""

    function: Function
    uniform: tuple[str, ...]
    remainders: tuple[str, ...]
    labels: frozenset[str]


def split(analyses: Analyses, flow: Uniformity, block: tuple[int, int, int]) -> Split:
    """Split the grid-stride loops of a kernel for blocks of one size (x, y, z).

    `flow` is how all threads diverge, those that leave included.
    """
    remainders: dict[str, str] = {}
    labels: set[str] = set()
    for loop in analyses.loops:
        is_innermost = not any(other.labels < loop.labels for other in analyses.loops)
        if is_innermost and loop.header in flow.divergent:
            found = _find(analyses, loop, flow, block)
            if found is not None:
                splitter = _Splitter(analyses.function, found, len(remainders))
                analyses = Analyses(splitter.split())
                remainders[value_name(loop.header, "uniform")] = splitter.remainder
                labels |= {*loop.labels, *found.chain, splitter.remainder}
    rests = tuple(remainders.values())
    return Split(analyses.function, tuple(remainders), rests, frozenset(labels))


# ---- which loops ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Strided:
    """A loop with one latch and one exit, from there to `after`, over a `range`.

    `guard` is the last block that all threads reach before it, `chain` are those from there to the
    header. A thread starts at `first`, which is uniform, and its `own` distance, up to `spread`.
    """

    loop: Loop
    guard: str
    chain: tuple[str, ...]
    latch: str
    after: str
    range: RangeLoop
    first: Form
    own: Form
    spread: int


def _find(
    analyses: Analyses, loop: Loop, flow: Uniformity, block: tuple[int, int, int]
) -> _Strided | None:
    """A loop as one that all threads come to together, and leave one iteration apart."""
    blocks, ranges = analyses.function.blocks, analyses.get(ValueRanges)
    before = [label for label in analyses.predecessors[loop.header] if label not in loop.labels]
    leaving = [
        (label, target)
        for label in loop.labels
        for target in blocks[label].successors
        if target not in loop.labels
    ]
    if len(before) != 1 or len(leaving) != 1 or len(analyses.predecessors[loop.header]) != 2:
        return None
    ((latch, after),) = leaving
    if blocks[latch].condition is None or loop.header not in blocks[latch].successors:
        return None
    path = _path(analyses, [before[0], loop.header], after, flow)
    inside = [item for label in loop.labels for item in blocks[label].instructions()]
    if path is None or any(map(_is_collective, inside)):
        return None
    found = range_loop(analyses, loop, _tests(blocks, path), *_tests(blocks, [latch, loop.header]))
    if found is None or not ranges.is_nonnegative(found.start.text):
        return None
    guard, *chain, _ = path
    sizes = {
        Symbol(f"%blockDim.{axis}", "i32"): number(size)
        for axis, size in zip(AXES, block, strict=True)
    }
    start = analyses.get(forms).of(found.start).replaced(sizes)
    own = Form({(index,): step for index, step in zip(THREAD, start.steps, strict=True) if step})
    spread = sum(step * (size - 1) for step, size in zip(start.steps, block, strict=True))
    first, step = start.plus(own, -1), found.step.replaced(sizes)
    at_guard = {each.name for each in analyses.function.parameters} | {
        name
        for name, (label, _) in analyses.definitions.items()
        if analyses.dominates(label, guard)
    }
    needed = {each.value for form in (first, step, found.end) for each in form.symbols}
    carried = [phi for phi in blocks[loop.header].phis if phi.result not in found.counting]
    begun = {value.text for phi in carried if (value := entering(phi, loop, first=True))}
    ended = [
        {value for value, label in phi.incoming if label in path[:-1]} for phi in blocks[after].phis
    ]
    if (
        not start.exact
        or min(start.steps) < 0
        or not needed <= at_guard - flow.varying
        or _least(step, ranges) <= spread
        or not {each for each in begun.union(*ended) if each[0] == "%"} <= at_guard
        or any(len(values) != 1 for values in ended)
    ):
        return None
    found = replace(found, step=step)
    return _Strided(loop, guard, tuple(chain), latch, after, found, first, own, spread)


def _path(analyses: Analyses, path: list[str], after: str, flow: Uniformity) -> list[str] | None:
    """A path from the last block on that all threads reach, which leads nowhere else but behind the
    loop."""
    while True:
        current, following = path[:2]
        block, sources = analyses.function.blocks[current], analyses.predecessors[current]
        is_branch = isinstance(block.terminator, Instruction) and block.terminator.opcode == "br"
        if not is_branch or not set(block.successors) <= {following, after}:
            return None
        if current not in flow.divergent:
            return path
        if block.phis or len(sources) != 1 or len(path) > _MOST_CHAIN:
            return None
        if any(map(has_effect, block.body)):
            return None
        path = [sources[0], *path]


def _tests(blocks: Mapping[str, Block], path: list[str]) -> list[Test]:
    """The conditions on a path, and their outcomes that lead along it."""
    return [
        (condition, blocks[label].successors[0] == target)
        for label, target in pairwise(path)
        if (condition := blocks[label].condition) is not None
    ]


def _is_collective(item: Instruction) -> bool:
    """Whether threads may not go through an instruction one iteration after the other."""
    is_known = (item.callee or "").startswith(PURE)
    return item.opcode == "fence" or (item.opcode == "call" and not is_known)


def _least(form: Form, ranges: ValueRanges) -> int:
    """The least that a form can be, if that is above 0."""
    limits = {each: ranges.of(Operand(each.type, each.value)) for each in form.symbols}
    least = form.constant
    for monomial, factor in form.monomials.items():
        low = prod(limits[each][0] for each in monomial)
        if monomial and (factor < 0 or any(limits[each][0] < 0 for each in monomial)):
            return 0
        least += factor * low if monomial else 0
    return least if form.exact else 0


# ---- the loop of all threads, and the remainder --------------------------------------------------


class _Splitter:
    """Splits one loop."""

    def __init__(self, function: Function, strided: _Strided, number: int) -> None:
        self._function = function.copy()
        self._builder = Builder("", (), stem=f"grid.stride.{number}")
        self._builder.function = self._function
        self._strided, self._range, self._number = strided, strided.range, number
        self.remainder = self._new("remainder")
        blocks = self._function.blocks
        self._chain = [blocks[label] for label in strided.chain]
        self._blocks = [block for block in blocks.values() if block.label in strided.loop.labels]
        self._header, self._latch = blocks[strided.loop.header], blocks[strided.latch]
        # Nothing is counted any more.
        for block in self._blocks:
            block.phis = [item for item in block.phis if item.result not in self._range.counting]
            block.body = [item for item in block.body if item.result not in self._range.counting]
        cloned = [
            name
            for block in (*self._chain, *self._blocks)
            for name in (block.label, *(item.result for item in block.instructions()))
            if name is not None
        ]
        self._uniform = {name: value_name(name, "uniform") for name in cloned}

    def _new(self, what: str) -> str:
        return f'%"stride.{self._number}/{what}"'

    def split(self) -> Function:
        """The function with the loop in two parts."""
        order = list(self._function.blocks)
        self._begin()
        self._write_uniform_loop()
        self._write_remainder()
        blocks = self._function.blocks
        place, made = order.index(self._strided.guard) + 1, list(blocks)[len(order) :]
        ordered = (*order[:place], *made, *order[place:])
        self._function.blocks = {label: blocks[label] for label in ordered}
        return self._function

    def _begin(self) -> None:
        """At the guard: how far a thread is from the first one, and how much is left for the last
        one. What is known stays a number, which tells how many iterations there are."""
        b, new, strided = self._builder, self._new, self._strided
        self._function.blocks[strided.guard].terminator = None
        b.current = strided.guard
        self._first, end = self._value(strided.first), self._value(self._range.end)
        self._own, self._step = self._value(strided.own), self._value(self._range.step)
        # Starts are not negative, so there is nothing below 0.
        if end[0] == "%":
            end = b.select(b.compare("slt", "i64", end, "0"), "i64", "0", end)
        else:
            end = str(max(0, int(end)))
        limit = self._difference(end, str(strided.spread), new("limit"))
        self._left = self._difference(limit, self._first, new("left"))
        some = b.compare("sgt", "i64", self._left, "0", new("any"))
        b.branch(some, new("before"), new("between"))

    def _difference(self, one: str, other: str, name: str) -> str:
        """The difference of two i64, which does not wrap."""
        if "%" in (one[0], other[0]):
            return self._builder.binary("sub", "i64", one, other, "nsw", name=name)
        return str(int(one) - int(other))

    def _value(self, form: Form) -> str:
        """The value of a form that is an i64, which may wrap on the way."""
        b, parts = self._builder, []
        for monomial, factor in form.monomials.items():
            product = "" if monomial and factor == 1 else str(factor)
            for each in monomial:
                cast = "sext" if each.signed else "zext"
                wide = (
                    b.cast(cast, each.type, each.value, "i64") if each.type != "i64" else each.value
                )
                product = b.binary("mul", "i64", wide, product) if product else wide
            parts.append(product)
        return reduce(lambda one, other: b.binary("add", "i64", one, other), parts or ["0"])

    def _write_uniform_loop(self) -> None:
        """The loop that all threads are in."""
        b, new, names = self._builder, self._new, self._uniform
        b.block(new("before"))
        b.extend(item.renamed(names) for block in self._chain for item in block.body)
        b.jump(names[self._header.label])
        for block in self._blocks:
            b.block(names[block.label])
            if block is self._header:
                self._phis(names, new("now"), new("at"), new("before"))
            else:
                b.extend(item.renamed(names) for item in block.phis)
            b.extend(item.renamed(names) for item in block.body)
            assert isinstance(block.terminator, Instruction)
            if block is not self._latch:
                b.add(block.terminator.renamed(names))
        b.current = names[self._latch.label]
        # Starts are not negative, and no index of a range overflows.
        b.binary("add", "i64", new("at"), self._step, "nuw", "nsw", name=new("following"))
        left = b.binary("sub", "i64", new("now"), self._step, "nsw", name=new("next"))
        b.branch(b.compare("sgt", "i64", left, "0"), names[self._header.label], new("between"))

    def _phis(self, names: Mapping[str, str], left: str, at: str, source: str) -> None:
        """What is left for the last thread, where the first one is, and by `names` what the loop
        carries, where control comes from `source` or from the uniform loop's latch."""
        b, latch, loop = self._builder, self._uniform[self._latch.label], self._strided.loop
        b.phi("i64", ((self._left, source), (self._new("next"), latch)), left)
        b.phi("i64", ((self._first, source), (self._new("following"), latch)), at)
        for phi in self._header.phis:
            first, following = (entering(phi, loop, first=is_first) for is_first in (True, False))
            assert phi.result
            assert first
            assert following
            if phi.result != self._range.index:
                after = self._uniform.get(following.text, following.text)
                b.phi(phi.type, ((first.text, source), (after, latch)), names[phi.result])
        b.binary("add", "i64", at, self._own, "nuw", "nsw", name=names[self._range.index])

    def _write_remainder(self) -> None:
        """Behind the uniform loop, the iteration that some threads have left."""
        b, new, strided = self._builder, self._new, self._strided
        after, latch = self._function.blocks[strided.after], self._uniform[strided.latch]
        path = [strided.guard, *strided.chain]
        b.block(new("between"))
        behind = {
            phi.result or "": value_name(phi.result or "", "behind") for phi in self._header.phis
        }
        self._phis(behind, new("over"), new("begin"), strided.guard)
        for place, phi in enumerate(after.phis):
            ((first, _), *_) = [each for each in phi.incoming if each[1] in path]
            last = next(value for value, label in phi.incoming if label == strided.latch)
            made = b.phi(phi.type, ((first, strided.guard), (self._uniform.get(last, last), latch)))
            others = [each for each in phi.incoming if each[1] not in path]
            others += [(made, new("between")), (made, self.remainder)]
            after.phis[place] = Builder.phi(phi.type, others, phi.result or "")
        some = b.binary("add", "i64", new("over"), str(strided.spread), "nsw")
        b.branch(b.compare("sgt", "i64", some, "0"), self.remainder, strided.after)
        b.block(self.remainder)
        is_inside = b.compare("slt", "i64", self._own, some)
        labels = [*strided.chain, self._header.label]
        b.branch(is_inside, labels[0], strided.after)
        for block, label in zip(self._chain, labels[1:], strict=True):
            block.terminator = Builder.jump(label)
        source = [self.remainder, *labels][-2]
        self._header.phis = [
            Builder.phi(phi.type, [(value, source)], name=name)
            for phi, (name, value) in zip(self._header.phis, behind.items(), strict=True)
        ]
        self._latch.terminator = Builder.jump(strided.after)
