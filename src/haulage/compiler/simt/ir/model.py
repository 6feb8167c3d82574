"""A small model of an LLVM function: blocks, instructions, and which value uses which.

Instructions keep LLVM's text, from which they are written again, beside what the analyses need
(opcode, result, operands, phi sources). Names of values and labels carry their `%`. `reader.py`
makes models.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

# What matches the name of a local value.
NAME = r'%(?:"[^"]*"|[-a-zA-Z$._0-9]+)'

_NAME = re.compile(NAME)

_STAYING = ("load atomic", "load volatile", "store atomic", "store volatile")


def renamed(text: str, names: Mapping[str, str]) -> str:
    """LLVM text with local values replaced as `names` says."""
    return _NAME.sub(lambda found: names.get(found[0], found[0]), text)


@dataclass(frozen=True)
class Instruction:
    """One instruction; `result` is None where it has none, `callee` where it calls nothing known.

    `operands` are local values (parameters and results), `incoming` a phi's (value text, label)
    pairs, `targets` a terminator's labels.
    """

    text: str
    opcode: str
    type: str
    result: str | None = None
    operands: tuple[str, ...] = ()
    callee: str | None = None
    incoming: tuple[tuple[str, str], ...] = ()
    targets: tuple[str, ...] = ()

    @property
    def is_phi(self) -> bool:
        return self.opcode == "phi"

    @property
    def stays(self) -> bool:
        """Whether it is an access of memory that has to be made as often as the program says, one
        thread after the other, and that can give each of them another value."""
        return self.opcode in ("atomicrmw", "cmpxchg") or (
            self.opcode in ("load", "store") and any(kind in self.text for kind in _STAYING)
        )

    def renamed(self, names: dict[str, str]) -> str:
        """The text with local values replaced as `names` says."""
        return renamed(self.text, names)


@dataclass(frozen=True)
class Cut:
    """Where a piece ends: control goes on in `target` once every thread has come so far.

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
    terminator: Instruction | Cut | None = None

    @property
    def successors(self) -> tuple[str, ...]:
        """Labels that control can go to, over a cut too."""
        if isinstance(self.terminator, Cut):
            return (self.terminator.target,)
        assert self.terminator is not None
        return self.terminator.targets

    def instructions(self) -> Iterator[Instruction]:
        """Phis, body and terminator, in order."""
        yield from self.phis
        yield from self.body
        if isinstance(self.terminator, Instruction):
            yield self.terminator


@dataclass(frozen=True)
class Parameter:
    """A parameter of the function: its LLVM type with attributes, and its name."""

    type: str
    name: str


@dataclass
class Function:
    """A function: parameters and blocks by label, the entry first."""

    parameters: tuple[Parameter, ...]
    blocks: dict[str, Block]

    @property
    def entry(self) -> str:
        return next(iter(self.blocks))

    def definitions(self) -> dict[str, tuple[str, Instruction]]:
        """For each result: the label of its block, and its instruction."""
        return {
            instruction.result: (block.label, instruction)
            for block in self.blocks.values()
            for instruction in block.instructions()
            if instruction.result is not None
        }

    def predecessors(self) -> dict[str, list[str]]:
        """For each label the labels of the blocks that go there."""
        found: dict[str, list[str]] = {label: [] for label in self.blocks}
        for block in self.blocks.values():
            for target in block.successors:
                if block.label not in found[target]:
                    found[target].append(block.label)
        return found

    def copy(self) -> "Function":
        """A copy whose blocks can be changed."""
        blocks = {
            label: Block(label, list(block.phis), list(block.body), block.terminator)
            for label, block in self.blocks.items()
        }
        return Function(self.parameters, blocks)

    def rename(self, names: dict[str, str]) -> None:
        """Replace local values everywhere, as `names` says."""
        if not names:
            return
        for block in self.blocks.values():
            block.phis = [_renamed(item, names) for item in block.phis]
            block.body = [_renamed(item, names) for item in block.body]
            if isinstance(block.terminator, Instruction):
                block.terminator = _renamed(block.terminator, names)

    def split(self, label: str, index: int, new_label: str, cut: Cut) -> None:
        """End the block `label` with `cut` before body instruction `index`.

        The rest becomes a new block, whose label is `cut.target`.
        """
        head = self.blocks[label]
        tail = Block(new_label, [], head.body[index:], head.terminator)
        head.body, head.terminator = head.body[:index], cut
        ordered: dict[str, Block] = {}
        for block in self.blocks.values():
            ordered[block.label] = block
            if block is head:
                ordered[new_label] = tail
        self.blocks = ordered
        for successor in tail.successors:
            follower = self.blocks[successor]
            follower.phis = [_from_other_block(phi, label, new_label) for phi in follower.phis]


def _from_other_block(phi: Instruction, old: str, new: str) -> Instruction:
    incoming = tuple((value, new if label == old else label) for value, label in phi.incoming)
    return replace(phi, incoming=incoming)


def _renamed(item: Instruction, names: dict[str, str]) -> Instruction:
    return replace(
        item,
        text=item.renamed(names),
        operands=tuple(names.get(name, name) for name in item.operands),
        incoming=tuple((names.get(value, value), label) for value, label in item.incoming),
    )


def value_name(name: str, suffix: str) -> str:
    """The name of something that belongs to the value `name`."""
    # LLVM itself makes names with a dot; one value may have its `x.in` already.
    return '%"' + name[1:].strip('"') + f'/{suffix}"'


def phi_text(phi: Instruction, sources: tuple[tuple[str, str], ...]) -> str:
    """A phi with other (value, label) sources."""
    listed = ", ".join(f"[ {value}, {label} ]" for value, label in sources)
    return f"{phi.result} = phi {phi.type} {listed}"
