"""Turns loops such as `for i in range(cuda.grid(1), n, cuda.gridsize(1))` outside the loop over the
threads, though not all threads need make the same number of turns.

As long as the thread that begins last is below the end, all threads make the turn. So the turns
that all make become a loop of their own, which counts by what all threads have in common, and in
which the index is a common value plus the thread's own distance from it. What is left of the
original loop comes behind: one turn for some threads of the block that the end lies in, none for
any other block, which goes round it.

    left = n - start of the last thread         # common
    while left > 0: ...; left -= step           # all threads are in it
    if left + spread > 0:                       # some thread has another turn
        the original loop, from where this one came to
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.affine import AvailableForms, Form
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.analysis.value_ranges import ValueRanges
from haulage.compiler.simt.ir import build
from haulage.compiler.simt.ir.model import Block, Function, Instruction, Operand, value_name
from haulage.compiler.simt.ir.reader import read_instruction
from haulage.compiler.simt.loops.grid_stride_loop import StridedLoop, find, results_of


@dataclass(frozen=True)
class Turned:
    """A function, the headers of the loops in it that are what was left of others, with the labels
    to cut at in front of them, and the labels of all blocks of these loops and on the way there."""

    function: Function
    rests: Mapping[str, str]
    labels: frozenset[str]


def turn(function: Function, flow: Uniformity, block: tuple[int, int, int]) -> Turned:
    """Turn the loops of a kernel for blocks of one size (x, y, z).

    `flow` is what all threads have in common.
    """
    successors = {label: each.successors for label, each in function.blocks.items()}
    loops = control_flow.natural_loops(successors, function.entry)
    candidates = [
        loop
        for loop in loops
        if loop.header in flow.divergent and not any(o.labels < loop.labels for o in loops)
    ]
    if not candidates:
        return Turned(function, {}, frozenset())
    ranges = ValueRanges(function)
    rests: dict[str, str] = {}
    labels: set[str] = set()
    for loop in candidates:
        found = find(function, loop, flow)
        if found is None:
            continue
        form = _start(function, found, flow, ranges)
        if form is None or not ranges.is_nonnegative(found.step):
            continue
        spread = sum(step * (size - 1) for step, size in zip(form.steps, block, strict=True))
        if found.step.isdigit() and int(found.step) <= spread:
            # Neighbours make turns in numbers that differ by more than one.
            continue
        writer = _Writer(function, found, form, spread, len(rests))
        function = writer.write()
        rests[loop.header] = writer.rest
        labels |= {*loop.labels, *found.chain, writer.rest}
    return Turned(function, rests, frozenset(labels))


def _start(
    function: Function, found: StridedLoop, flow: Uniformity, ranges: ValueRanges
) -> Form | None:
    """What the index begins with, if it does not go down along the block and is not negative."""
    if not ranges.is_nonnegative(found.start):
        return None
    successors = {label: each.successors for label, each in function.blocks.items()}
    closest = control_flow.immediate_dominators(successors, function.entry)
    items = function.definitions()
    at_hand = {each.name for each in function.parameters} | {
        name
        for name, (label, _) in items.items()
        if name not in flow.varying
        and label in closest
        and control_flow.dominates(closest, label, found.guard)
    }
    instructions = {name: item for name, (_, item) in items.items()}
    forms = AvailableForms(instructions, flow.varying, at_hand, ranges)
    form = forms.of(Operand("i64", found.start))
    if form is None or form.products or min(form.steps) < 0:
        return None
    return form


class _Writer:
    """Writes one loop anew. `spread` is how far the starts of a block's threads are apart."""

    def __init__(
        self, function: Function, loop: StridedLoop, form: Form, spread: int, number: int
    ) -> None:
        self._function = function.copy()
        self._loop = loop
        self._form = form
        self._spread = spread
        self._number = number
        self.rest = self._new("rest")
        # In the loop of all threads, and between that and the rest.
        self._inside = {name: value_name(name, "together") for name in self._cloned()}
        self._behind = {phi.result: self._new(f"{k}.behind") for k, phi in enumerate(loop.phis)}

    def _new(self, what: str) -> str:
        return f'%"strided.{self._number}/{what}"'

    def _cloned(self) -> list[str]:
        names: list[str] = []
        for label in (*self._loop.chain, *sorted(self._loop.labels)):
            names.append(label)
            for item in self._function.blocks[label].instructions():
                names += results_of(item)
        return names

    def write(self) -> Function:
        blocks = self._function.blocks
        guard = blocks[self._loop.guard]
        rest = Block(self.rest, [], [], guard.terminator)
        asked = self._questions()
        common = self._common(guard)
        made = [self._before(), *self._turns(), self._between(), rest]
        self._rewrite_rest(rest, asked)
        self._rewrite_end()
        before, between = made[0].label, self._new("between")
        guard.terminator = read_instruction(f"br i1 {common}, label {before}, label {between}")
        ordered: dict[str, Block] = {}
        for block in blocks.values():
            ordered[block.label] = block
            if block is guard:
                ordered |= {each.label: each for each in made}
        self._function.blocks = ordered
        return self._function

    def _add(self, block: Block, what: str, text: str) -> str:
        name = self._new(what)
        block.body.append(read_instruction(f"{name} = {text}"))
        return name

    def _common(self, guard: Block) -> str:
        """Work out, at the guard, where the threads begin and how much is left for all."""
        total = str(self._form.constant)
        for number, (term, factor) in enumerate(self._form.terms):
            cast = "sext" if term.signed else "zext"
            wide = f"{cast} {term.type} {term.value} to i128"
            value = self._add(guard, f"{number}.wide", wide)
            value = self._add(guard, f"{number}.times", f"mul i128 {value}, {factor}")
            total = self._add(guard, f"{number}.sum", f"add i128 {total}, {value}")
        first = self._add(guard, "first", f"add i128 {total}, 0")
        self._add(guard, "begin", f"trunc i128 {first} to i64")
        own = f"sub i64 {self._loop.start}, {self._new('begin')}"
        self._add(guard, "own", own)
        end = self._add(guard, "end", f"sext i64 {self._loop.end} to i128")
        last = self._add(guard, "last", f"add i128 {first}, {self._spread}")
        exact = self._add(guard, "exact", f"sub i128 {end}, {last}")
        # Starts are not negative, so this is no more than the end.
        least = -self._spread
        small = self._add(guard, "small", f"icmp slt i128 {exact}, {least}")
        kept = self._add(guard, "kept", f"select i1 {small}, i128 {least}, i128 {exact}")
        self._add(guard, "left", f"trunc i128 {kept} to i64")
        return self._add(guard, "any", f"icmp sgt i64 {self._new('left')}, 0")

    def _before(self) -> Block:
        """What stands between the guard and the loop, for all threads."""
        block = Block(self._new("before"))
        for label in self._loop.chain:
            block.body += [self._clone(item) for item in self._function.blocks[label].body]
        header = self._inside[self._loop.header]
        block.terminator = read_instruction(f"br label {header}")
        return block

    def _turns(self) -> list[Block]:
        """The loop that all threads are in."""
        loop = self._loop
        made: list[Block] = []
        for label in self._function.blocks:
            if label not in loop.labels:
                continue
            old = self._function.blocks[label]
            dropped = {loop.count_next, loop.condition} - {None}
            body = [self._clone(item) for item in old.body if item.result not in dropped]
            phis = [self._clone(phi) for phi in old.phis]
            block = Block(self._inside[label], phis, body, None)
            if label == loop.header:
                self._open(block)
            if label == loop.latch:
                self._close(block)
            else:
                assert isinstance(old.terminator, Instruction)
                block.terminator = self._clone(old.terminator)
            made.append(block)
        return made

    def _open(self, header: Block) -> None:
        before, latch = self._new("before"), self._inside[self._loop.latch]
        phis = [
            self._phi(
                "i64", self._new("u"), (self._new("begin"), before), (self._new("u+"), latch)
            ),
            self._phi(
                "i64", self._new("now"), (self._new("left"), before), (self._new("now-"), latch)
            ),
        ]
        for phi in self._loop.phis:
            if phi.result in (self._loop.index, self._loop.count):
                continue
            initial, following = self._loop.sources(phi)
            phis.append(
                self._phi(
                    phi.type,
                    self._inside[phi.result or ""],
                    (initial, before),
                    (self._inside.get(following, following), latch),
                )
            )
        header.phis = phis
        index = self._inside[self._loop.index]
        text = f"{index} = add i64 {self._new('u')}, {self._new('own')}"
        header.body.insert(0, read_instruction(text))

    def _close(self, latch: Block) -> None:
        step = self._inside.get(self._loop.step, self._loop.step)
        self._add(latch, "u+", f"add i64 {self._new('u')}, {step}")
        after = self._add(latch, "now-", f"sub nsw i64 {self._new('now')}, {step}")
        more = self._add(latch, "more", f"icmp sgt i64 {after}, 0")
        header = self._inside[self._loop.header]
        between = self._new("between")
        latch.terminator = read_instruction(f"br i1 {more}, label {header}, label {between}")

    def _between(self) -> Block:
        """Behind the turns that all make: whether anybody has another one."""
        loop = self._loop
        block = Block(self._new("between"))
        latch = self._inside[loop.latch]
        block.phis = [
            self._phi(
                "i64", self._new("m"), (self._new("begin"), loop.guard), (self._new("u+"), latch)
            ),
            self._phi(
                "i64",
                self._new("over"),
                (self._new("left"), loop.guard),
                (self._new("now-"), latch),
            ),
        ]
        for phi in loop.phis:
            if phi.result in (loop.index, loop.count):
                continue
            initial, following = loop.sources(phi)
            block.phis.append(
                self._phi(
                    phi.type,
                    self._behind[phi.result],
                    (initial, loop.guard),
                    (self._inside.get(following, following), latch),
                )
            )
        index = self._behind[loop.index]
        sum_ = f"{index} = add i64 {self._new('m')}, {self._new('own')}"
        block.body.append(read_instruction(sum_))
        some = self._add(block, "some", f"add nsw i64 {self._new('over')}, {self._spread}")
        asked = self._add(block, "asked", f"icmp sgt i64 {some}, 0")
        ways = f"label {self.rest}, label {loop.after}"
        block.terminator = read_instruction(f"br i1 {asked}, {ways}")
        return block

    def _questions(self) -> dict[str, str]:
        """What the conditions of the rest are called, which begins where the turns came to."""
        names = {name: value_name(name, "rest") for name in self._loop.asked}
        return {**names, self._loop.start: self._behind[self._loop.index]}

    def _rewrite_rest(self, rest: Block, names: Mapping[str, str]) -> None:
        """Ask anew whether a thread goes into the original loop, and begin it."""
        loop = self._loop
        asked: Set[str] = set(loop.asked)
        items = self._function.definitions()
        for name in loop.asked:
            label, item = items[name]
            clone = item.renamed(names)
            place = self._function.blocks[label] if label in loop.chain else rest
            place.body.append(clone)
        for block in (rest, *(self._function.blocks[label] for label in loop.chain)):
            assert isinstance(block.terminator, Instruction)
            wanted = {name: names[name] for name in block.terminator.uses if name in asked}
            block.terminator = block.terminator.renamed(wanted)
        last = loop.chain[-1] if loop.chain else rest.label
        header = self._function.blocks[loop.header]
        phis = []
        for phi in header.phis:
            _, following = loop.sources(phi)
            if phi.result == loop.count:
                begun = names[loop.sources(phi)[0]]
            else:
                begun = self._behind[phi.result]
            assert phi.result is not None
            phis.append(self._phi(phi.type, phi.result, (begun, last), (following, loop.latch)))
        header.phis = phis

    def _rewrite_end(self) -> None:
        """Come to what is behind the loop with what the turns have made."""
        loop = self._loop
        after = self._function.blocks[loop.after]
        earlier = {loop.guard, *loop.chain}
        phis = []
        for phi in after.phis:
            assert phi.result is not None
            made = loop.results[phi.result]
            value = self._behind[made] if made.startswith("%") and made in self._behind else made
            sources = [
                (value if label in earlier else each, self.rest if label == loop.guard else label)
                for each, label in phi.incoming
            ]
            sources.append((value, self._new("between")))
            phis.append(self._phi(phi.type, phi.result, *sources))
        after.phis = phis

    def _phi(self, kind: str, name: str, *sources: tuple[str, str]) -> Instruction:
        return build.phi(name, kind, sources)

    def _clone(self, item: Instruction) -> Instruction:
        return item.renamed(self._inside)
