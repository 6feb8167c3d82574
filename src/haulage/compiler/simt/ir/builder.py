"""Writes a function block by block: what emitters make, as instructions rather than as text."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from haulage.compiler.simt.ir import build
from haulage.compiler.simt.ir.model import Block, Function, Instruction, Operand, Parameter
from haulage.compiler.simt.ir.types import TERMINATORS, element_type

# (type, name or constant) of a value.
Typed = tuple[str, str]
# (kind, node) pairs.
MetadataPairs = tuple[tuple[str, str], ...]


class Loop:
    """A loop that `Builder.repeat` or `Builder.loop` is writing.

    Its body sets `more`, an i1: whether there is another iteration. A counted loop has an `index`,
    which grows by `step`.
    """

    def __init__(self, builder: "Builder") -> None:
        self.more = self.index = ""
        self.step = "1"
        self._builder = builder
        self._carried: dict[str, tuple[str, str]] = {}
        self._next: dict[str, str] = {}

    def carry(self, kind: str, first: str, hint: str) -> str:
        """A value that is `first` in the first iteration, and later what `set` says."""
        name = self._builder.name(hint)
        self._carried[name] = kind, first
        return name

    def set(self, name: str, value: str) -> str:
        """Make a carried value another one in the next iteration; returns that one."""
        self._next[name] = value
        return value

    def phis(self, before: str) -> list[Instruction]:
        """The carried values of a loop that is entered from `before` and ends in this block."""
        return [
            build.phi(name, kind, [(first, before), (self._next[name], self._builder.current)])
            for name, (kind, first) in self._carried.items()
        ]


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

    def freeze(self, kind: str, value: str, name: str | None = None) -> str:
        """A value, or any one of its type where it is undefined."""
        return self.add(Instruction("freeze", kind, self._named(name), (Operand(kind, value),)))

    def extract_element(self, kind: str, vector: str, index: str) -> str:
        """An element of a vector of the type `kind`, by an i32."""
        operands = Operand(kind, vector), Operand("i32", index)
        made = element_type(kind, (0,))
        return self.add(Instruction("extractelement", made, self.fresh(), operands))

    def shuffle(self, kind: str, vector: str, places: Sequence[int]) -> str:
        """A vector of the elements of another one, of the type `kind`, at constant places."""
        listed = ", ".join(f"i32 {place}" for place in places)
        count = f"<{len(places)} x "
        operands = (
            Operand(kind, vector),
            Operand(kind, "poison"),
            Operand(f"{count}i32>", f"<{listed}>" if any(places) else "zeroinitializer"),
        )
        made = f"{count}{element_type(kind, (0,))}>"
        return self.add(Instruction("shufflevector", made, self.fresh(), operands))

    def splat(self, count: int, kind: str, value: str) -> str:
        """A vector of `count` times one value."""
        vector = f"<{count} x {kind}>"
        operands = Operand(vector, "poison"), Operand(kind, value), Operand("i32", "0")
        first = self.add(Instruction("insertelement", vector, self.fresh(), operands))
        return self.shuffle(vector, first, [0] * count)

    def allocate(
        self, kind: str, align: int = 0, name: str | None = None, count: Typed | None = None
    ) -> str:
        """Memory on the stack for a value of a type, or for `count` of them."""
        operands = () if count is None else (Operand(*count),)
        result = self._named(name)
        item = Instruction("alloca", "ptr", result, operands, source_type=kind, align=align)
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

    def at(
        self, kind: str, base: str, index: str | int, name: str | None = None, by: str = "i64"
    ) -> str:
        """The address of an element of memory that `base` points into."""
        return self.element(kind, base, str(index), "inbounds", name=name, by=by)

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
        """The smaller or larger of two integers; `which` is "umin", "umax", "smin" or "smax"."""
        return self.call(kind, f"llvm.{which}.{kind}", ((kind, one), (kind, other)), name)

    def atomic(self, operation: str, kind: str, address: str, value: str, ordering: str) -> str:
        """An `atomicrmw`; returns what was there before."""
        return self.add(build.atomic(self.fresh(), operation, kind, address, value, ordering))

    def round_up(self, value: str, multiple: str, name: str | None = None) -> str:
        """An i64 rounded up to a multiple of a power of two."""
        over = self.binary("add", "i64", value, self.binary("sub", "i64", multiple, "1"))
        return self.binary("and", "i64", over, self.binary("sub", "i64", "0", multiple), name=name)

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

    def unreachable(self) -> None:
        """End where control never comes."""
        self.add(Instruction("unreachable", "void"))

    # ---- structured control flow -----------------------------------------------------------

    @contextmanager
    def when(self, condition: str, hint: str) -> Iterator[None]:
        """What is written within happens where a condition holds; control goes on behind it."""
        label, behind = self.name(hint), self.name(f"{hint}.on")
        self.branch(condition, label, behind)
        self.block(label)
        yield
        self.jump(behind)
        self.block(behind)

    @contextmanager
    def repeat(
        self, hint: str, out: str | None = None, metadata: MetadataPairs = ()
    ) -> Iterator[Loop]:
        """A loop that is run once at least and while its `more` holds; control goes on in `out`."""
        label, out = self.name(hint), out or self.name(f"{hint}.out")
        before, loop = self.current, Loop(self)
        self.jump(label)
        self.block(label)
        yield loop
        self.function.blocks[label].phis += loop.phis(before)
        self.branch(loop.more, label, out, metadata)
        self.block(out)

    @contextmanager
    def loop(
        self,
        hint: str,
        count: str | int,
        out: str | None = None,
        *,
        kind: str = "i64",
        first: str = "0",
        step: int = 1,
        metadata: MetadataPairs = (),
    ) -> Iterator[Loop]:
        """A loop whose `index` goes from `first` up to `count`, which is more."""
        with self.repeat(hint, out, metadata) as loop:
            loop.step = str(step)
            loop.index = loop.carry(kind, first, f"{hint}.index")
            yield loop
            after = self.binary("add", kind, loop.index, loop.step, "nuw", "nsw")
            loop.set(loop.index, after)
            loop.more = self.compare("ult", kind, after, str(count))
