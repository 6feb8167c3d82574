"""Guards: conditions at a region's start that say which threads have anything to do in it.

`if i < n:` around a region's work, `0 < i < n - 1 and 0 < j < m - 1`, `if t < d:` in a tree of
sums, `if t == 0:`, `if i >= n: return`: such a condition compares an affine form of one index of
the thread with what is uniform, so those that pass it are a range of that index. The work-item
loops then go over the range only, and the condition is not asked again. LLVM has the same for range
checks in loops (InductiveRangeCheckElimination).

What only threads with one index do (`if threadIdx.x == 0:`) others do not wait for; nor is a loop
there worth vectorising.
"""

from collections.abc import Callable, Set
from dataclasses import dataclass, replace

from haulage.compiler.ends import number_of
from haulage.compiler.mathematics.definitions import PURE
from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.affine import THREAD, AvailableForms, Form, forms, number
from haulage.compiler.simt.analysis.induction import OPPOSITE, conjuncts
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.ir.model import Block, Function, Instruction, Operand, RegionEnd
from haulage.compiler.simt.ir.types import bits_of

FAR = 1 << 62
_SWAPPED = {"gt": "lt", "ge": "le"}


@dataclass(frozen=True)
class Bound:
    """A thread passes if `form` is below 0, or, where it is an equation, if it is 0. It depends on
    one index, perhaps times a uniform value that is not negative.

    The rest of the form does not wrap in numbers of `bits`, once the value `far` is brought within
    `FAR` of 0: it is the only one that may be beyond, so nothing else changes the outcome then.
    """

    form: Form
    equation: bool = False
    bits: int = 128
    far: str = ""

    @property
    def axis(self) -> int:
        """The number of the index that it depends on."""
        steps = self.form.products[0][1].steps if self.form.products else self.form.steps
        return next(number for number, step in enumerate(steps) if step)


@dataclass(frozen=True)
class Guard:
    """A condition and the outcome that lets a thread pass: one that is uniform, or `bounds`."""

    condition: str
    outcome: bool
    bounds: tuple[Bound, ...] = ()


@dataclass(frozen=True)
class Guards:
    """What threads must pass, and `labels` of the blocks whose branches are settled by it."""

    guards: tuple[Guard, ...] = ()
    labels: frozenset[str] = frozenset()


def find(
    function: Function, entry: str, forms: AvailableForms, ends_idly: Callable[[Block], bool]
) -> Guards:
    """The guards met from the block `entry` on, before anything is done that others can see.

    Who does not pass comes, without having done anything, to the end of a block that `ends_idly`,
    the same for all guards that differ from thread to thread.
    """
    search = _Search(function, forms, ends_idly)
    guards: dict[str, Guard] = {}
    settled: set[str] = set()
    seen: set[str] = set()
    ends: set[tuple[str, ...]] = set()
    label = entry
    while label not in seen:
        seen.add(label)
        block = function.blocks[label]
        if any(map(has_effect, block.body)) or isinstance(block.terminator, RegionEnd):
            break
        targets, condition = block.successors, block.condition
        if len(targets) == 1:
            label = targets[0]
            continue
        if condition is None or targets[0] == targets[1]:
            break
        idle = [search.idle_end(target, label) for target in targets]
        if idle.count(None) != 1:
            break
        if condition in forms.varying:
            ends |= {end for end in idle if end is not None}
        if len(ends) > 1:
            break
        outcome, whole = idle[0] is None, True
        for leaf, wanted in conjuncts(forms.items, (condition, outcome)):
            bounds = tuple(bound for guard in guards.values() for bound in guard.bounds)
            guard = guards.get(leaf) or search.guard(leaf, wanted, bounds)
            if guard is None or guard.outcome != wanted:
                # Left to be asked, like what contradicts another guard.
                whole = False
            else:
                guards[leaf] = guard
        if whole:
            settled.add(label)
        label = targets[0] if outcome else targets[1]
    return Guards(tuple(guards.values()), frozenset(settled))


def of_kernel(function: Function, varying: Set[str], ranges: ValueRanges) -> Guards:
    """The guards at a kernel's start. Who does not pass them ends there."""
    parameters = {each.name for each in function.parameters}
    forms = AvailableForms(function.items(), varying, parameters, ranges)
    return find(function, function.entry, forms, returns_idly)


def returns_idly(block: Block) -> bool:
    """Whether a block ends the thread, and not by a fault."""
    code = block.returned
    return code is not None and not code.startswith("%") and number_of(int(code)) is not None


def has_effect(item: Instruction) -> bool:
    """Whether an instruction does more than to give a value."""
    if item.opcode == "call":
        return item.type == "void" or not (item.callee or "").startswith(PURE)
    return item.stays or item.opcode in ("store", "atomicrmw", "cmpxchg", "fence")


@dataclass(frozen=True)
class _Search:
    function: Function
    forms: AvailableForms
    ends_idly: Callable[[Block], bool]

    def idle_end(self, label: str, source: str) -> tuple[str, ...] | None:
        """What tells an idle end from others, if who comes to `label` from `source` goes straight
        on to one; None if not."""
        for _ in range(len(self.function.blocks)):
            block = self.function.blocks[label]
            if any(map(has_effect, block.body)):
                return None
            if isinstance(block.terminator, RegionEnd) or not block.successors:
                return self._end(block, source)
            if len(block.successors) != 1:
                return None
            label, source = block.successors[0], label
        return None

    def _end(self, block: Block, source: str) -> tuple[str, ...] | None:
        """What tells the end of a block that is come to from `source`, if it is idle. All returns
        are one."""
        names = {
            phi.result: value
            for phi in block.phis
            for value, label in phi.incoming
            if label == source and phi.result
        }
        end = block.terminator
        if isinstance(end, Instruction):
            block = Block(block.label, block.phis, block.body, end.with_uses(names))
        if not self.ends_idly(block):
            return None
        return ("",) if isinstance(end, Instruction) else (block.label, *names.values())

    def guard(self, leaf: str, wanted: bool, met: tuple[Bound, ...]) -> Guard | None:
        """The condition `leaf` as a guard, if it is one: uniform, or about one index. `met` are the
        bounds that all who ask have passed."""
        if not leaf.startswith("%"):
            return None
        if leaf not in self.forms.varying:
            return Guard(leaf, wanted) if self.forms.can_evaluate(leaf) else None
        item = self.forms.items.get(leaf)
        if item is None or item.opcode != "icmp" or bits_of(item.operands[0].type) is None:
            return None
        test = item.predicate[-2:]
        signed = item.predicate[0] != "u" or "samesign" in item.flags
        if not wanted:
            test = OPPOSITE[test]
        left, right = item.operands
        made = self._bounds(test, signed, left, right, met)
        if made is None or not all(_is_of_one_axis(bound, self.forms.ranges) for bound in made):
            return None
        return Guard(leaf, wanted, tuple(_sized(each, self.forms.ranges) for each in made))

    def _bounds(
        self, test: str, signed: bool, left: Operand, right: Operand, met: tuple[Bound, ...] = ()
    ) -> list[Bound] | None:
        """What a thread passes if a comparison holds; None if that is no affine bound."""
        forms, is_nonnegative = self.forms, self.forms.ranges.is_nonnegative
        if test in ("gt", "ge"):
            return self._bounds(_SWAPPED[test], signed, right, left)
        one, other = forms.of(left), forms.of(right)
        if test == "ne":
            # 0 is where numbers that are not negative begin.
            if right.number == 0 and is_nonnegative(left.text):
                return self._bounds("gt", True, left, right)
            if one is None or other is None:
                return None
            # Of numbers that are not above 0, those that are not 0 are below it.
            ends = [bound.form.plus(number(1)) for bound in met if not bound.equation]
            for form in (one.plus(other, -1), other.plus(one, -1)):
                if any(forms.are_equal(form, end) for end in ends):
                    return [Bound(form)]
            return None
        if not signed:
            if test in ("lt", "le") and one is not None and is_nonnegative(right.text):
                # From 0 on, too: a negative number is a large one.
                upper = self._bounds(test, True, left, right)
                at_0 = Bound(number(-1).plus(one, -1))
                return upper if upper is None or is_nonnegative(left.text) else [*upper, at_0]
            one, other = forms.as_unsigned(left), forms.as_unsigned(right)
        if one is None or other is None:
            return None
        difference = one.plus(other, -1)
        return [Bound(difference.plus(number(-1)) if test == "le" else difference, test == "eq")]


def _is_of_one_axis(bound: Bound, ranges: ValueRanges) -> bool:
    steps = [step for step in bound.form.steps if step]
    if bound.form.products:
        (term, scaled), *others = bound.form.products
        if steps or others or bound.equation or not ranges.is_nonnegative(term.value):
            return False
        return sum(map(bool, scaled.steps)) == 1
    if bound.equation:
        return steps in ([1], [-1])
    return len(steps) == 1 and abs(steps[0]) & (abs(steps[0]) - 1) == 0


def _sized(bound: Bound, ranges: ValueRanges) -> Bound:
    """A bound, with the numbers to compute it in."""
    form, far = bound.form, ""
    if form.products:
        return bound
    # The index is below 1024.
    most = abs(form.constant) + 1024 * max(map(abs, form.steps))
    for term, factor in form.terms:
        low, high = ranges.of(Operand(term.type, term.value))
        if low < 0 and not term.signed:
            return bound
        part = abs(factor) * max(-low, high)
        if part < FAR:
            most += part
        elif abs(factor) == 1 and term.type == "i64" and not far:
            far = term.value
        else:
            return bound
    return replace(bound, bits=64, far=far) if most < FAR else bound


# ---- single threads ------------------------------------------------------------------------------

# A parameter that is an index of the thread, and the number that it is compared with if that is a
# constant.
Index = tuple[str, int | None]


def single_thread_blocks(analyses: Analyses) -> frozenset[str]:
    """Labels of the blocks that only threads with one index along an axis come to."""
    return frozenset().union(*analyses.get(blocks_of_index).values())


def blocks_of_index(analyses: Analyses) -> dict[Index, set[str]]:
    """For each index that branches ask for: the blocks that only threads that have it come to."""
    before, closest = analyses.predecessors, analyses.dominators
    found: dict[Index, set[str]] = {}
    for label, block in analyses.function.blocks.items():
        if block.condition is None or len(set(block.successors)) == 1:
            continue
        for outcome, start in zip((True, False), block.successors, strict=True):
            for index in _indices(analyses, block.condition, outcome):
                inside = {each for each in closest if control_flow.dominates(closest, start, each)}
                # Come to from elsewhere it would be for others too.
                if set(before[start]) & closest.keys() <= inside | {label}:
                    found.setdefault(index, set()).update(inside)
    return found


def _indices(analyses: Analyses, condition: str, outcome: bool) -> set[Index]:
    """The indices that a thread has for which a condition has an outcome."""
    found: set[Index] = set()
    for leaf, wanted in conjuncts(analyses.items, (condition, outcome)):
        item = analyses.items.get(leaf)
        if item is None or item.opcode != "icmp" or item.predicate != ("eq" if wanted else "ne"):
            continue
        # Of narrower numbers several indices are one.
        bits = bits_of(item.operands[0].type) or 0
        one, other = (analyses.get(forms).of(each) for each in item.operands)
        found |= {
            (index.value, None if right.symbols else right.constant - left.constant)
            for left, right in ((one, other), (other, one))
            for index in THREAD
            if left.monomials.keys() - {()} == {(index,)}
            and left.monomials[(index,)] == 1
            and bits >= (bits_of(index.type) or 0)
        }
    return found
