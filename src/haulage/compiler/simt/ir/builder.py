"""Writes a function block by block: what emitters make, as instructions rather than as text."""

from collections.abc import Iterable, Sequence

from haulage.compiler.simt.ir import build
from haulage.compiler.simt.ir.model import Block, Function, Instruction, Operand, Parameter
from haulage.compiler.simt.ir.reader import read_lines
from haulage.compiler.simt.ir.types import TERMINATORS

# (type, name or constant) of a value.
Typed = tuple[str, str]
# (kind, node) pairs.
MetadataPairs = tuple[tuple[str, str], ...]


class Builder:
    """A function that grows at its end.

    Each method that makes a value returns its name. A name that is asked for with its `%` is used
    as it is; one without is a hint, and gets a number if it is taken (as LLVM's IRBuilder does it);
    `stem` is what others begin with.
    """

    def __init__(
        self,
        name: str,
        parameters: Iterable[Typed],
        result: str = "void",
        attributes: str = "",
        *,
        linkage: str = "internal",
        stem: str = "v",
    ) -> None:
        listed = tuple(Parameter(kind, each) for kind, each in parameters)
        self.function = Function(listed, {}, name, result, attributes, linkage)
        self.current = ""
        self._stem = stem
        self._count = 0
        self._hints: dict[str, int] = {}
        self._taken = {each.name for each in listed}

    # ---- blocks -----------------------------------------------------------------------------

    def block(self, label: str) -> None:
        """Begin a block; `label` has its `%`."""
        assert label not in self.function.blocks, label
        self.function.blocks[label] = Block(label)
        self._taken.add(label)
        self.current = label

    def add(self, item: Instruction) -> str:
        """An instruction at the end of the current block; the name of its result, or ""."""
        block = self.function.blocks[self.current]
        assert block.terminator is None, f"{item.text} stands behind the end of {block.label}"
        if item.is_phi:
            block.phis.append(item)
        elif item.opcode in TERMINATORS:
            block.terminator = item
        else:
            block.body.append(item)
        if item.result is None:
            return ""
        self._taken.add(item.result)
        return item.result

    def extend(self, items: Iterable[Instruction]) -> None:
        """Several instructions at the end of the current block."""
        for item in items:
            self.add(item)

    def lines(self, lines: Iterable[str]) -> None:
        """Lines of LLVM's text, labels among them."""
        for label, item in read_lines(lines):
            if label is not None:
                self.block(label)
            elif item is not None:
                self.add(item)

    def fresh(self, kind: str | None = None) -> str:
        """A new name."""
        self._count += 1
        return f"%{self._stem}.{kind}.{self._count}" if kind else f"%{self._stem}.{self._count}"

    def name(self, hint: str) -> str:
        """A new name for a value or a block, from a hint."""
        name = f"%{hint}"
        while name in self._taken:
            self._hints[hint] = number = self._hints.get(hint, 0) + 1
            name = f"%{hint}{number}"
        self._taken.add(name)
        return name

    def _named(self, name: str | None) -> str:
        if name is None:
            return self.fresh()
        return name if name[0] == "%" else self.name(name)

    # ---- instructions -----------------------------------------------------------------------

    def binary(
        self, opcode: str, kind: str, left: str, right: str, *flags: str, name: str | None = None
    ) -> str:
        """An arithmetic operation on two values of one type."""
        return self.add(build.binary(self._named(name), opcode, kind, left, right, *flags))

    def compare(
        self, predicate: str, kind: str, left: str, right: str, name: str | None = None
    ) -> str:
        """A comparison of two values of one type."""
        return self.add(build.compare(self._named(name), predicate, kind, left, right))

    def select(
        self, condition: str, kind: str, one: str, other: str, name: str | None = None
    ) -> str:
        """One value where a condition holds, else the other."""
        return self.add(build.select(self._named(name), condition, kind, one, other))

    def cast(self, opcode: str, kind: str, value: str, made: str, name: str | None = None) -> str:
        """A value of the type `kind` as one of the type `made`."""
        return self.add(build.cast(self._named(name), opcode, kind, value, made))

    def allocate(self, kind: str, align: int = 0, name: str | None = None) -> str:
        """Memory on the stack for a value of a type."""
        item = Instruction("alloca", "ptr", self._named(name), source_type=kind, align=align)
        return self.add(item)

    def load(self, kind: str, address: str, align: int = 0, name: str | None = None) -> str:
        """A plain load."""
        return self.add(build.load(self._named(name), kind, address, align))

    def store(self, kind: str, value: str, address: str, align: int = 0) -> None:
        """A plain store."""
        self.add(build.store(kind, value, address, align))

    def element(
        self,
        kind: str,
        base: str,
        index: str,
        *flags: str,
        by: str = "i64",
        name: str | None = None,
    ) -> str:
        """The address of an element, counted from `base` by an index of the type `by`."""
        return self.add(build.element(self._named(name), kind, base, index, *flags, by=by))

    def call(
        self,
        kind: str,
        callee: str,
        arguments: Sequence[Typed],
        name: str | None = None,
        metadata: MetadataPairs = (),
    ) -> str:
        """A call of a function."""
        result = None if kind == "void" else self._named(name)
        return self.add(build.call(result, kind, callee, arguments, metadata))

    def extremum(self, which: str, kind: str, one: str, other: str, name: str | None = None) -> str:
        """The smaller or larger one of two integers; `which` is umin, umax, smin or smax."""
        return self.call(kind, f"llvm.{which}.{kind}", ((kind, one), (kind, other)), name)

    def phi(self, kind: str, incoming: Iterable[Typed], name: str | None = None) -> str:
        """A phi of (value, label) pairs."""
        return self.add(build.phi(self._named(name), kind, incoming))

    def extract(self, kind: str, aggregate: str, index: int, name: str | None = None) -> str:
        """A place of a structure of the type `kind`."""
        return self.add(build.extract_value(self._named(name), (kind, aggregate), index))

    def insert(
        self, kind: str, aggregate: str, value: Typed, index: int, name: str | None = None
    ) -> str:
        """A structure of the type `kind` with a value in one of its places."""
        return self.add(build.insert_value(self._named(name), (kind, aggregate), value, index))

    # ---- ends -------------------------------------------------------------------------------

    def jump(self, label: str) -> None:
        """Go on in another block."""
        self.add(build.jump(label))

    def branch(self, condition: str, label: str, other: str, metadata: MetadataPairs = ()) -> None:
        """Go on in `label` where a condition holds, else in `other`."""
        self.add(build.branch(condition, label, other, metadata))

    def switch(self, kind: str, value: str, default: str, cases: Sequence[tuple[int, str]]) -> None:
        """Go on in the block of the case that a value is, or in `default`."""
        targets = (default, *(label for _, label in cases))
        numbers = tuple(number for number, _ in cases)
        operands = (Operand(kind, value),)
        self.add(Instruction("switch", "void", None, operands, targets=targets, indices=numbers))

    def ret(self, kind: str = "void", value: str = "") -> None:
        """End the function."""
        operands = () if kind == "void" else (Operand(kind, value),)
        self.add(Instruction("ret", "void", None, operands))
