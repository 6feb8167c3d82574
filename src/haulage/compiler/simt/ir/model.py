"""LLVM functions as objects: blocks, instructions with typed operands, and who uses which value.

`reader` makes them of LLVM's text, and `writer` text of them. Instructions are never changed, but
replaced in their block by others. Names of local values and labels carry their `%`, those of
functions and globals their `@`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import chain
from operator import attrgetter
from typing import Any

from haulage.compiler.simt.ir import writer
from haulage.compiler.simt.ir.types import TERMINATORS


# Not frozen, nor are instructions and parameters: to make one would take six times as long.
@dataclass(slots=True, unsafe_hash=True)
class Operand:
    """A value where it is used: its type, its name or constant as LLVM writes it, and, as an
    argument of a call, its attributes."""

    type: str
    text: str
    attributes: str = ""

    @property
    def is_local(self) -> bool:
        """Whether it is a parameter or a result, and no constant."""
        return self.text[0] == "%"

    @property
    def number(self) -> int | None:
        """The number that an integer constant is; of an i1 0 or 1."""
        return None if self.text[0] == "%" else _number(self.text)


@cache
def _number(constant: str) -> int | None:
    if constant.removeprefix("-").isdigit():
        return int(constant)
    return {"true": 1, "false": 0}.get(constant)


@dataclass(slots=True, eq=False)
class Instruction:
    """One instruction, which is no other than itself.

    `type` is that of its result ("void" without one), `operands` all values that it takes, in
    LLVM's order: of a store the value and then the address, of a phi what it takes from each of
    `sources`, of a call the arguments. `predicate` is the test of a comparison or the operation of
    an `atomicrmw`, `flags` the words between opcode and type, `targets` a terminator's labels.

    `source_type` is the type that a `getelementptr` counts in, what an `alloca` makes, or what a
    call's function has for a type; `callee` the name of a called function without its `@`.
    `indices` are those of `extractvalue` and `insertvalue`, or the cases of a `switch`; `ordering`
    is an atomic access's, with its `syncscope`; `metadata` has (kind, node) pairs; `convention` and
    `attributes` are what a call has before the type and behind its arguments.
    """

    opcode: str
    type: str
    result: str | None = None
    operands: tuple[Operand, ...] = ()
    predicate: str = ""
    flags: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    source_type: str = ""
    callee: str | None = None
    called: str = ""
    indices: tuple[int, ...] = ()
    ordering: str = ""
    align: int = 0
    convention: str = ""
    attributes: str = ""
    metadata: tuple[tuple[str, str], ...] = ()
    # What is worked out when it is asked for.
    _text: str | None = field(default=None, init=False)
    _uses: tuple[str, ...] | None = field(default=None, init=False)

    def changed(self, **changes: Any) -> "Instruction":
        """With other values for some of its fields, as `dataclasses.replace` makes it, but soon."""
        made = Instruction(*_given(self))
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    def as_written(self, text: str) -> "Instruction":
        """The instruction, just read from its text as LLVM wrote it."""
        self._text = text
        return self

    @property
    def text(self) -> str:
        """The instruction as LLVM writes it."""
        if self._text is None:
            self._text = writer.written(self)
        return self._text

    @property
    def uses(self) -> tuple[str, ...]:
        """The local values that it uses, in order."""
        if self._uses is None:
            used = [operand.text for operand in self.operands if operand.text[0] == "%"]
            if self.called[:1] == "%":
                used.append(self.called)
            self._uses = tuple(used)
        return self._uses

    @property
    def is_phi(self) -> bool:
        return self.opcode == "phi"

    @property
    def incoming(self) -> tuple[tuple[str, str], ...]:
        """(value, label) for each source of a phi."""
        return tuple(zip([operand.text for operand in self.operands], self.sources, strict=False))

    @property
    def address(self) -> Operand | None:
        """Where a load, a store or an atomic operation is made; None for all else."""
        if self.opcode in ("load", "atomicrmw", "cmpxchg"):
            return self.operands[0]
        return self.operands[1] if self.opcode == "store" else None

    @property
    def accessed_type(self) -> str:
        """The type of what a load, a store or an atomic operation reads or writes."""
        if self.opcode == "load":
            return self.type
        return self.operands[0 if self.opcode == "store" else 1].type

    @property
    def is_ordered(self) -> bool:
        """Whether a load or a store is atomic or volatile."""
        return "atomic" in self.flags or "volatile" in self.flags

    @property
    def is_foretold(self) -> bool:
        """Whether LLVM was told how likely the ways of a branch are."""
        return any(kind == "prof" for kind, _ in self.metadata)

    @property
    def stays(self) -> bool:
        """Whether it is an access of memory that has to be made as often as the program says, one
        thread after the other, and that can give each of them another value."""
        return self.opcode in ("atomicrmw", "cmpxchg") or (
            self.opcode in ("load", "store") and self.is_ordered
        )

    def renamed(self, names: Mapping[str, str]) -> "Instruction":
        """With local values, its result and labels among them, replaced as `names` says."""
        if names.keys().isdisjoint((*self.uses, self.result, *self.targets, *self.sources)):
            return self
        return self.changed(
            result=self.result and names.get(self.result, self.result),
            operands=tuple(
                Operand(operand.type, names[operand.text], operand.attributes)
                if operand.text in names
                else operand
                for operand in self.operands
            ),
            called=names.get(self.called, self.called),
            targets=tuple(names.get(label, label) for label in self.targets),
            sources=tuple(names.get(label, label) for label in self.sources),
        )

    def with_uses(self, names: Mapping[str, str]) -> "Instruction":
        """With other values for those that it uses; its result keeps its name."""
        made = self.renamed(names)
        return made if made.result == self.result else made.changed(result=self.result)

    def without(self, flags: frozenset[str]) -> "Instruction":
        """Without some of its flags."""
        if flags.isdisjoint(self.flags):
            return self
        return self.changed(flags=tuple(flag for flag in self.flags if flag not in flags))


# What an instruction was made with, in order.
_given = attrgetter(*(each.name for each in fields(Instruction) if each.init))


@dataclass(frozen=True)
class RegionEnd:
    """Where a region ends: control goes on in `target` once every thread has come so far.

    `reason` is "barrier" (of the block), "grid", "warp", "loop" or "apart" (around accesses that
    stay); `place` the barrier's fault number.
    """

    target: str
    reason: str
    place: int = 0


@dataclass
class Block:
    """A basic block: phis, other instructions, and a terminator or a cut."""

    label: str
    phis: list[Instruction] = field(default_factory=list)
    body: list[Instruction] = field(default_factory=list)
    terminator: Instruction | RegionEnd | None = None

    @property
    def successors(self) -> tuple[str, ...]:
        """Labels that control can go to, over a cut too."""
        if isinstance(self.terminator, RegionEnd):
            return (self.terminator.target,)
        assert self.terminator is not None
        return self.terminator.targets

    @property
    def condition(self) -> str | None:
        """What a branch with two arms goes by; None for any other end."""
        end = self.terminator
        if isinstance(end, Instruction) and end.opcode == "br" and end.operands:
            return end.operands[0].text
        return None

    @property
    def returned(self) -> str | None:
        """What its `ret` gives back; None if it has none."""
        end = self.terminator
        if isinstance(end, Instruction) and end.opcode == "ret":
            return end.operands[0].text
        return None

    def instructions(self) -> list[Instruction]:
        """Phis, body and terminator, in order."""
        end = self.terminator
        ends = (end,) if isinstance(end, Instruction) else ()
        return [*self.phis, *self.body, *ends]

    def add(self, item: Instruction) -> None:
        """An instruction behind others of its sort."""
        if item.opcode in TERMINATORS:
            self.terminator = item
        else:
            (self.phis if item.opcode == "phi" else self.body).append(item)

    def change(self, changed: Callable[[Instruction], Instruction]) -> None:
        """Put what `changed` makes of each instruction in its place."""
        self.phis = [changed(item) for item in self.phis]
        self.body = [changed(item) for item in self.body]
        if isinstance(self.terminator, Instruction):
            self.terminator = changed(self.terminator)


@dataclass(slots=True, unsafe_hash=True)
class Parameter:
    """A parameter of the function: its LLVM type with attributes, and its name."""

    type: str
    name: str


@dataclass
class Function:
    """A function: parameters and blocks by label, the entry first; what it returns, and what its
    definition says besides."""

    parameters: tuple[Parameter, ...]
    blocks: dict[str, Block]
    name: str = ""
    result: str = "void"
    attributes: str = ""
    linkage: str = "internal"

    @property
    def entry(self) -> str:
        return next(iter(self.blocks))

    def instructions(self) -> Iterator[Instruction]:
        """All instructions, block by block."""
        return chain.from_iterable(block.instructions() for block in self.blocks.values())

    def definitions(self) -> dict[str, tuple[str, Instruction]]:
        """For each result: the label of its block, and its instruction."""
        return {
            item.result: (block.label, item)
            for block in self.blocks.values()
            for item in block.instructions()
            if item.result is not None
        }

    def items(self) -> dict[str, Instruction]:
        """For each result its instruction."""
        return {item.result: item for item in self.instructions() if item.result is not None}

    def users(self) -> dict[str, list[Instruction]]:
        """For each local value the instructions that use it."""
        found: dict[str, list[Instruction]] = {}
        for item in self.instructions():
            for name in dict.fromkeys(item.uses):
                found.setdefault(name, []).append(item)
        return found

    def made_from(self, names: Iterable[str]) -> set[str]:
        """The values that are made from some, these among them."""
        users, found, waiting = self.users(), set[str](), list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += [item.result for item in users.get(name, ()) if item.result is not None]
        return found

    def successors(self) -> dict[str, tuple[str, ...]]:
        """The control-flow graph: for each label those that control can go to."""
        return {label: block.successors for label, block in self.blocks.items()}

    def within(self, labels: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """The part of the graph of some blocks, without what goes on behind the ends of regions."""
        return {
            label: () if isinstance(block.terminator, RegionEnd) else block.successors
            for label in labels
            for block in (self.blocks[label],)
        }

    def results(self, labels: Iterable[str]) -> set[str]:
        """The values that some blocks make."""
        items = chain.from_iterable(self.blocks[label].instructions() for label in labels)
        return {item.result for item in items if item.result is not None}

    def copy(self) -> "Function":
        """A copy whose blocks can be changed."""
        blocks = {
            label: Block(label, list(block.phis), list(block.body), block.terminator)
            for label, block in self.blocks.items()
        }
        return replace(self, blocks=blocks)

    def rename(self, names: Mapping[str, str]) -> None:
        """Replace local values everywhere, as `names` says."""
        if names:
            for block in self.blocks.values():
                block.change(lambda item: item.renamed(names))

    def split(self, label: str, index: int, new_label: str, cut: Instruction | RegionEnd) -> None:
        """End the block `label` with `cut` before body instruction `index`.

        The rest becomes a new block, to which `cut` leads.
        """
        head = self.blocks[label]
        tail = Block(new_label, [], head.body[index:], head.terminator)
        head.body, head.terminator = head.body[:index], cut
        blocks = [*self.blocks.values()]
        blocks.insert([*self.blocks].index(label) + 1, tail)
        self.blocks = {block.label: block for block in blocks}
        for successor in tail.successors:
            follower = self.blocks[successor]
            follower.phis = [phi.renamed({label: new_label}) for phi in follower.phis]


def value_name(name: str, suffix: str) -> str:
    """The name of something that belongs to the value `name`."""
    # LLVM itself makes names with a dot; one value may have its `x.in` already.
    return '%"' + name[1:].strip('"') + f'/{suffix}"'
