"""Drops the checks of accesses that are proven to race with no others in a launch."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from haulage._core import check
from haulage.compiler import llvm
from haulage.compiler.bounds.inequalities import Inequalities
from haulage.compiler.checks.alike import Alike
from haulage.compiler.checks.calls import (
    ACCESSES,
    ARRAY,
    ATOMIC,
    CHECKS,
    ENDED,
    FENCE,
    LINTS,
    READ,
    THREAD,
    UNWRITTEN,
    Call,
)
from haulage.compiler.checks.launch_values import OF_BLOCK, OF_THREAD, Access, Forms, Launch
from haulage.compiler.checks.private import are_private
from haulage.compiler.checks.shared import Prover, SharedArray
from haulage.compiler.definitions import definition_start
from haulage.compiler.simt.analysis import AXES
from haulage.compiler.simt.analysis.kernel import KERNEL
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.ir import reader, writer
from haulage.compiler.simt.ir.model import Instruction
from haulage.targets.base import Target
from haulage.targets.cpu_ir import SHARED_ADDRESS

# What tells of no access of memory that others can see, and of no barrier.
_OTHERS = (THREAD, ARRAY, UNWRITTEN, ENDED)
# For so many launches with different numbers the kernel is simplified with these.
_MOST_SIMPLIFIED = 8
_SHARED_BYTES = re.compile(r"(?m)^(@[\w.]+) = external thread_local [^\n\[]*\[(\d+) x i8\]")


class Dropped(NamedTuple):
    """What a launch need not check: all accesses of some ranges of its memory, and those of shared
    memory that are described so. `sorts` has a block of each sort where the others only repeat what
    one of their sort does, so that nothing of them need be checked; None: they may all differ."""

    ranges: frozenset[int] = frozenset()
    shared: frozenset[int] = frozenset()
    sorts: tuple[tuple[int, int, int], ...] | None = None


class _Kernel:
    """A cleaned-up checked kernel, and the calls in it."""

    def __init__(self, text: str, arrays: Sequence[int], block: tuple[int, int, int]) -> None:
        function = reader.read(text, KERNEL)
        self.analyses = Analyses(function)
        self.forms = Forms(Inequalities(self.analyses, block))
        self.parameters = tuple(each.name for each in function.parameters)
        self.bases = [self.parameters[at] for at in arrays]
        self.calls = [
            (label, item)
            for label, each in function.blocks.items()
            for item in each.body
            if (item.callee or "").startswith(CHECKS) and item.callee not in _OTHERS
        ]
        # Whether a thread may read what it did not write of its own arrays: that is its own affair.
        self.tells_of_own = any(item.callee == UNWRITTEN for item in function.instructions())
        calls = [Call(item, label) for label, item in self.calls if item.callee in ACCESSES]
        # Behind fences atomic operations order accesses of other memory.
        fences = any(item.callee == FENCE for _, item in self.calls)
        self.ordering = frozenset((ATOMIC,) if fences else ())
        self.by_range: dict[int, list[Call]] = {}
        for call in calls:
            if not call.is_shared:
                self.by_range.setdefault(call.range, []).append(call)
        self.shared = self._shared_arrays(text, [call for call in calls if call.is_shared])
        self.shared_calls = [call for call in calls if call.is_shared]

    def _shared_arrays(self, text: str, calls: Sequence[Call]) -> list[SharedArray]:
        """The shared arrays; none if some accesses are of who knows which."""
        sizes = {name: int(nbytes) for name, nbytes in _SHARED_BYTES.findall(text)}
        items = self.analyses.items
        names = {
            name: item.operands[0].text
            for name, item in items.items()
            if item.callee == SHARED_ADDRESS
        }
        found: dict[str, list[Call]] = {}
        for call in calls:
            root = call.item.operands[1].text
            while (item := items.get(root)) is not None and item.opcode == "getelementptr":
                root = item.operands[0].text
            if root not in names:
                return []
            found.setdefault(root, []).append(call)
        if len({names[root] for root in found}) < len(found):
            return []
        return [SharedArray(root, sizes[names[root]], tuple(each)) for root, each in found.items()]


class Unneeded:
    """Of a cleaned-up checked kernel: which checks a launch need not make.

    `arrays` has, for each range of a launch, the number of the parameter, counted from the last
    one, that is its address.
    """

    def __init__(
        self,
        text: str,
        target: Target,
        arrays: Sequence[int],
        block: tuple[int, int, int],
        checks: frozenset[str],
    ) -> None:
        self._text, self._target, self._arrays, self._block = text, target, arrays, block
        self._checks = checks
        self._kernel = _Kernel(text, arrays, block)
        self._simplified: dict[object, _Kernel] = {}
        self.parameters = self._kernel.parameters

    def first_access(self, number: int) -> int | None:
        """How the first access of a range is described, by its line; None if there is none."""
        calls = self._kernel.by_range.get(number, ())
        return calls[0].how if calls else None

    @property
    def written(self) -> frozenset[int]:
        """The ranges that threads write, or may write."""
        known = self._kernel
        if any(call.item.callee != READ for call in known.by_range.get(check.NO_RANGE, ())):
            return frozenset(range(len(known.bases)))
        return frozenset(
            number
            for number, calls in known.by_range.items()
            if any(call.item.callee != READ for call in calls)
        )

    @property
    def strays(self) -> bool:
        """Whether threads access memory that may be in any range, or in none."""
        return check.NO_RANGE in self._kernel.by_range

    def of(self, values: Mapping[str, int], grid: tuple[int, int, int], kept: Set[int]) -> Dropped:
        """What need not be checked in a launch whose integers have these values; the ranges `kept`
        are to be checked in any case, as they overlap others or were written in part."""
        first = self._proven(self._kernel, values, grid, kept)
        ranges = set(range(len(self._kernel.bases))) - kept
        shared = {call.how for call in self._kernel.shared_calls}
        if ranges <= first.ranges and shared <= first.shared:
            return first
        key = tuple(values.values()), grid
        if key not in self._simplified:
            if len(self._simplified) == _MOST_SIMPLIFIED:
                return first
            text = self._with_numbers(values, grid)
            self._simplified[key] = _Kernel(text, self._arrays, self._block)
        other = self._proven(self._simplified[key], values, grid, kept)
        sorts = first.sorts if other.sorts is None else other.sorts
        return Dropped(first.ranges | other.ranges, first.shared | other.shared, sorts)

    def _with_numbers(self, values: Mapping[str, int], grid: tuple[int, int, int]) -> str:
        """The kernel's text, simplified with the numbers of a launch."""
        numbers = dict(values)
        for of, sizes in (("blockDim", self._block), ("gridDim", grid)):
            numbers |= {f"%{of}.{a}": size for a, size in zip(AXES, sizes, strict=True)}
        start = definition_start(self._text, KERNEL)
        body, end = self._text.index("{\n", start), self._text.index("\n}", start)
        inside = _NAME.sub(lambda found: str(numbers.get(found[0], found[0])), self._text[body:end])
        return _optimised(self._text[:body] + inside + self._text[end:], self._target)

    def _proven(
        self, known: _Kernel, values: Mapping[str, int], grid: tuple[int, int, int], kept: Set[int]
    ) -> Dropped:
        launch = Launch(known.forms, values, grid, self._block)
        others = known.by_range.get(check.NO_RANGE, ())
        found = set()
        for number, base in enumerate(known.bases):
            if number in kept or any(call.item.callee != READ for call in others):
                continue
            calls = known.by_range.get(number, [])
            kinds = {call.item.callee for call in calls}
            if "race" in self._checks and kinds & known.ordering:
                continue
            if (
                "race" not in self._checks
                or kinds <= {READ}
                or (not others and (kinds == {ATOMIC} or self._are_private(launch, calls, base)))
            ):
                found.add(number)
        prover = Prover(launch, known.analyses, known.shared)
        proven = prover.proven(races="race" in self._checks, unwritten="init" in self._checks)
        left = {
            call.how
            for call in known.shared_calls
            if call not in proven or call.item.callee in known.ordering
        }
        shared = {call.how for call in known.shared_calls} - left
        sorts: tuple[tuple[int, int, int], ...] | None = None
        if (
            found >= set(known.by_range) - {check.NO_RANGE}
            and not others
            and not known.tells_of_own
        ):
            kept_calls = [
                (label, item)
                for label, item in known.calls
                if item.callee not in ACCESSES or Call(item, label).how in left
            ]
            sorts = Alike(known.analyses, kept_calls).sorts(launch, grid) if kept_calls else ()
        return Dropped(frozenset(found), frozenset(shared), sorts)

    def is_atomic(self, number: int) -> bool:
        """Whether threads make nothing but atomic operations in a range."""
        known = self._kernel.by_range
        kinds = {call.item.callee for call in known.get(number, ())}
        return kinds == {ATOMIC} and not known.get(check.NO_RANGE)

    def touched(
        self, number: int, values: Mapping[str, int], grid: tuple[int, int, int]
    ) -> tuple[float, float] | None:
        """The bytes of a range that the threads of such a launch access, at most: from the first
        number on, and before the second; None if that is not known."""
        known = self._kernel
        if known.by_range.get(check.NO_RANGE):
            return None
        launch = Launch(known.forms, values, grid, self._block)
        found = []
        for call in known.by_range.get(number, ()):
            offset = launch.offset(call.item.operands[1], known.bases[number], call.label)
            if offset is None:
                return None
            found.append(launch.extent(Access(offset, call.nbytes, call.label)))
        if not found:
            return 0, 0
        return min(low for low, _ in found), max(high for _, high in found)

    def _are_private(self, launch: Launch, calls: Iterable[Call], base: str) -> bool:
        """Whether no two threads access a common byte, if one of them writes it."""
        accesses = []
        for call in calls:
            offset = launch.offset(call.item.operands[1], base, call.label)
            if offset is None:
                return False
            accesses.append((Access(offset, call.nbytes, call.label), call.item.callee != READ))
        return are_private(launch, accesses, (*OF_THREAD, *OF_BLOCK))


_NAME = re.compile(r'%"[^"]*"|%[-\w.$]+')


def without(text: str, target: Target, dropped: Dropped | None) -> str:
    """A cleaned-up kernel without the calls that need not be made; None: without any but those
    behind tests of local arrays."""
    function = reader.read(text, KERNEL)

    def is_dropped(item: Instruction) -> bool:
        if (item.callee or "").startswith(LINTS):
            return dropped is None
        if not (item.callee or "").startswith(CHECKS) or item.callee in (THREAD, UNWRITTEN):
            return False
        if dropped is None or item.callee not in ACCESSES:
            return dropped is None
        call = Call(item, "")
        return call.how in dropped.shared if call.is_shared else call.range in dropped.ranges

    def drop(unneeded: Callable[[Instruction], bool]) -> None:
        for block in function.blocks.values():
            block.body = [item for item in block.body if not unneeded(item)]

    drop(is_dropped)
    accesses = [item for item in function.instructions() if item.callee in ACCESSES]
    if not any(Call(item, "").is_shared for item in accesses):
        drop(lambda item: item.callee == ARRAY)
    # A thread that is told of nothing need not be known.
    begin = next(item for item in function.instructions() if item.callee == THREAD)
    if not any(begin.result in item.uses for item in function.instructions()):
        drop(lambda item: item is begin)
    start = definition_start(text, KERNEL)
    body, end = text.index("{\n", start) + 2, text.index("\n}", start)
    return _optimised(text[:body] + writer.listing(function) + text[end:], target)


def _optimised(text: str, target: Target) -> str:
    with llvm.LOCK:
        module = llvm.parse(text)
        llvm.optimise(module, target, 2, widen=False)
        llvm.run_passes(module, target, "lower_switch", "instruction_namer")
        return str(module)
