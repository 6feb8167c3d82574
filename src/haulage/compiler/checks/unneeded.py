"""Drops the checks of accesses that are proven to race with no others in a launch."""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from haulage._core import check
from haulage.compiler import llvm
from haulage.compiler.bounds.inequalities import Inequalities
from haulage.compiler.checks.private import OF_BLOCK, OF_THREAD, Access, Launch
from haulage.compiler.definitions import definition_start
from haulage.compiler.simt.analysis.kernel import KERNEL
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.ir import reader, writer
from haulage.compiler.simt.ir.model import Instruction
from haulage.targets.base import Target

THREAD = "haulage_check_thread"
READ, WRITE, ATOMIC = "haulage_check_read", "haulage_check_write", "haulage_check_atomic"
_CALLS = (READ, WRITE, ATOMIC)


class _Call(NamedTuple):
    """A call in front of an access, and the block that it is in."""

    item: Instruction
    label: str

    @property
    def how(self) -> int:
        number = self.item.operands[2].number
        # LLVM may make one call of two at the ends of two ways.
        return check.NO_RANGE << check.RANGE_AT if number is None else number

    @property
    def range(self) -> int:
        return self.how >> check.RANGE_AT & check.NO_RANGE

    @property
    def is_shared(self) -> bool:
        return bool(self.how & check.SHARED)

    @property
    def nbytes(self) -> int:
        return self.how >> check.SIZE_AT & 255


class Unneeded:
    """Of a cleaned-up checked kernel: which checks a launch need not make.

    `arrays` has, for each range of a launch, the number of the parameter, counted from the last
    one, that is its address.
    """

    def __init__(self, text: str, arrays: Sequence[int], block: tuple[int, int, int]) -> None:
        function = reader.read(text, KERNEL)
        analyses = Analyses(function)
        self._inequalities = Inequalities(analyses, block)
        self._block = block
        self._bases = [function.parameters[at].name for at in arrays]
        self.parameters = tuple(each.name for each in function.parameters)
        calls = [
            _Call(item, label)
            for label, each in function.blocks.items()
            for item in each.body
            if item.callee in _CALLS
        ]
        self._by_range: dict[int, list[_Call]] = {}
        for call in calls:
            if not call.is_shared:
                self._by_range.setdefault(call.range, []).append(call)

    @property
    def written(self) -> frozenset[int]:
        """The ranges that threads write, or may write."""
        if any(call.item.callee != READ for call in self._by_range.get(check.NO_RANGE, ())):
            return frozenset(range(len(self._bases)))
        return frozenset(
            number
            for number, calls in self._by_range.items()
            if any(call.item.callee != READ for call in calls)
        )

    def ranges(
        self, values: Mapping[str, int], grid: tuple[int, int, int], overlapping: Set[int]
    ) -> frozenset[int]:
        """The ranges in which no two accesses race, in a launch whose integers have these values;
        those that overlap ranges that are written are `overlapping`."""
        launch = Launch(self._inequalities, values, grid, self._block)
        found = set()
        for number, base in enumerate(self._bases):
            others = self._by_range.get(check.NO_RANGE, ())
            if number in overlapping or any(call.item.callee != READ for call in others):
                continue
            calls = self._by_range.get(number, [])
            kinds = {call.item.callee for call in calls}
            only_atomic = kinds == {ATOMIC} and not others
            if (
                kinds <= {READ}
                or only_atomic
                or (not others and self._are_private(launch, calls, base))
            ):
                found.add(number)
        return frozenset(found)

    def _are_private(self, launch: Launch, calls: Iterable[_Call], base: str) -> bool:
        accesses = []
        for call in calls:
            offset = launch.offset(call.item.operands[1], base)
            if offset is None:
                return False
            accesses.append(Access(offset, call.nbytes, call.label))
        return launch.separates(accesses, (*OF_THREAD, *OF_BLOCK))


def without(text: str, target: Target, ranges: Set[int]) -> str:
    """A cleaned-up kernel without the calls in front of accesses of some ranges of memory."""
    function = reader.read(text, KERNEL)
    for block in function.blocks.values():
        block.body = [
            item
            for item in block.body
            if item.callee not in _CALLS
            or (call := _Call(item, "")).is_shared
            or call.range not in ranges
        ]
    # A thread that is told of nothing need not be known.
    begin = next(item for item in function.instructions() if item.callee == THREAD)
    if not any(begin.result in item.uses for item in function.instructions()):
        for block in function.blocks.values():
            block.body = [item for item in block.body if item is not begin]
    start = definition_start(text, KERNEL)
    body, end = text.index("{\n", start) + 2, text.index("\n}", start)
    with llvm.LOCK:
        module = llvm.parse(text[:body] + writer.listing(function) + text[end:])
        llvm.optimise(module, target, 2, widen=False)
        llvm.run_passes(module, target, "lower_switch", "instruction_namer")
        return str(module)
