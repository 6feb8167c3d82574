"""The ways through a function's bytecode, and which lines and arcs Python's tracing tells of on
them.

An arc is a pair of lines, of which a thread did the second one after the first; -L, of the function
that begins in line L, is its beginning as the first and its end as the second. That is how
coverage.py has them. A line is told when an instruction of another line was done before it, or one
behind it: so which arcs there are follows from the instructions of each block and each way between
two blocks, and how often, from how often threads went the ways that start at a branch.
"""

import dis
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from types import CodeType
from typing import NamedTuple

Arc = tuple[int, int]
# A way from one block to another, by the offsets at which they start.
Way = tuple[int, int]

# Where control comes from as the function begins.
OUTSIDE = -1

_UNCONDITIONAL = ("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE")
_ENDS = ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE")
_JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))


class Step(NamedTuple):
    offset: int
    line: int | None
    name: str
    target: int | None


class _From(NamedTuple):
    """How a thread comes to an instruction: the offset and line of the one before, and the line
    that was told last."""

    offset: int
    line: int | None
    told: int


class Flow:
    """The blocks of a function's bytecode that threads can come to.

    Attributes:
        first: the line that the function begins in.
        blocks: the instructions of each, by the offset at which it starts.
        counted: the ways that are to be counted: the one into the function, and those from
            branches.
        arcs: all arcs that there are, in the order of the code.
    """

    def __init__(self, code: CodeType) -> None:
        self.first = code.co_firstlineno
        self.blocks, self._behind_prefixes = _blocks(code)
        self._ways: dict[int, list[Way]] = {0: [(OUTSIDE, 0)]}
        counted = [(OUTSIDE, 0)]
        for label in self.blocks:
            following = self.after(label)
            counted += [(label, each) for each in following if len(following) > 1]
            for each in following:
                self._ways.setdefault(each, []).append((label, each))
        self.counted = tuple(counted)
        self.arcs = tuple(self.arcs_of([0] * len(counted)))

    def block_at(self, offset: int) -> int | None:
        """Where the block starts that an instruction, with its prefixes, is the first of."""
        start = self._behind_prefixes.get(offset, offset)
        return start if start in self.blocks else None

    def after(self, label: int) -> tuple[int, ...]:
        """The blocks behind one, each once."""
        return _after(self.blocks, label)

    @property
    def lines(self) -> frozenset[int]:
        """The lines that threads can be told in."""
        return frozenset(line for _, line in self.arcs if line > 0)

    def arcs_of(self, counts: Sequence[int]) -> dict[Arc, int]:
        """How often each arc was gone; `counts` are those of the `counted` ways."""
        known: dict[Way, int] = dict(zip(self.counted, counts, strict=True))
        found: dict[Arc, int] = {}

        def times(way: Way) -> int:
            if way not in known:
                known[way] = 0  # a loop that nothing leads out of
                known[way] = sum(map(times, self._ways[way[0]]))
            return known[way]

        def told(before: _From, step: Step, count: int) -> _From:
            line = step.line
            if line is None:
                return _From(step.offset, None, before.told)
            if line != before.line or step.offset < before.offset:
                arc = before.told, line
                found[arc] = found.get(arc, 0) + count
            return _From(step.offset, line, line)

        for label, steps in self.blocks.items():
            for way in self._ways.get(label, ()):
                for before, count in self._coming(way, times):
                    for step in steps:
                        before = told(before, step, count)
                    if steps[-1].name in _ENDS:
                        arc = before.told, -self.first
                        found[arc] = found.get(arc, 0) + count
        return found

    def _coming(self, way: Way, times: Callable[[Way], int]) -> Iterator[tuple[_From, int]]:
        """How threads come along a way, and how many of them."""
        source = way[0]
        if source == OUTSIDE:
            yield _From(OUTSIDE, None, -self.first), times(way)
            return
        steps = self.blocks[source]
        lines = [step.line for step in steps if step.line is not None]
        if lines:
            yield _From(steps[-1].offset, steps[-1].line, lines[-1]), times(way)
            return
        # A block without a line leads to one other block only: a branch has a line.
        for each in self._ways[source]:
            for before, count in self._coming(each, times):
                yield _From(steps[-1].offset, None, before.told), count


def flow_of(code: CodeType) -> Flow:
    """The flow of a function."""
    # Code may be equal to other code with other lines.
    return _flow(code, code.co_linetable)


@cache
def _flow(code: CodeType, lines: bytes) -> Flow:
    return Flow(code)


def _blocks(code: CodeType) -> tuple[dict[int, list[Step]], dict[int, int]]:
    """The blocks that control can come to, by the offset at which they start, in the code's order;
    for each prefix of an instruction (EXTENDED_ARG), where that is, which counts as the start."""
    steps: list[Step] = []
    begins: dict[int, int] = {}
    prefixes: list[int] = []
    for each in dis.get_instructions(code):
        if each.opname == "EXTENDED_ARG":
            prefixes.append(each.offset)
            continue
        # A jump to an instruction goes to what stands in front of it.
        begins |= dict.fromkeys(prefixes, each.offset)
        prefixes = []
        line = each.positions.lineno if each.positions else None
        target = each.argval if each.opcode in _JUMPS else None
        steps.append(Step(each.offset, line, each.opname, target))
    steps = [
        step if step.target is None else step._replace(target=begins.get(step.target, step.target))
        for step in steps
    ]
    starts = {0, *(step.target for step in steps if step.target is not None)}
    for step, following in pairwise(steps):
        if step.target is not None or step.name in _ENDS:
            starts.add(following.offset)
    every: dict[int, list[Step]] = {}
    for step in steps:
        if step.offset in starts:
            every[step.offset] = []
        every[max(every)].append(step)
    reached, waiting = set[int](), [0]
    while waiting:
        label = waiting.pop()
        if label not in reached:
            reached.add(label)
            waiting += _after(every, label)
    blocks = {label: every[label] for label in every if label in reached}
    # What stands in front of the first line is told of nowhere.
    begun = next(number for number, step in enumerate(blocks[0]) if step.name == "RESUME")
    blocks[0][: begun + 1] = [step._replace(line=None) for step in blocks[0][: begun + 1]]
    return blocks, begins


def _after(blocks: dict[int, list[Step]], label: int) -> tuple[int, ...]:
    last = blocks[label][-1]
    if last.name in _ENDS:
        return ()
    following = [] if last.target is None else [last.target]
    if last.name not in _UNCONDITIONAL:
        following.insert(0, next(each for each in sorted(blocks) if each > label))
    return tuple(dict.fromkeys(following))
