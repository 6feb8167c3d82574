"""Makes instructions, alone or at the end of a function that is written block by block."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar, overload

from haulage.compiler.simt.ir.model import Block, Function, Instruction, Operand, Parameter
from haulage.compiler.simt.ir.types import element_type, like

# (type, name or constant) of a value.
Typed = tuple[str, str]
# (kind, node) pairs.
MetadataPairs = tuple[tuple[str, str], ...]

_Given = ParamSpec("_Given")
_Made = TypeVar("_Made")


class _Form(Generic[_Given]):
    """A form of instruction: `Builder.load(...)` makes one, and the method of a builder adds what
    was made, and returns the name of its result."""

    def __init__(self, make: Callable[_Given, Instruction]) -> None:
        def add(builder: "Builder", *args: _Given.args, **kwargs: _Given.kwargs) -> str:
            return builder.add(make(*args, **kwargs))

        self._make, self._add = make, add
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, builder: None, owner: object = None) -> Callable[_Given, Instruction]: ...

    @overload
    def __get__(self, builder: "Builder", owner: object = None) -> Callable[_Given, str]: ...

    def __get__(self, builder: "Builder | None", owner: object = None) -> Callable[..., Any]:
        return self._make if builder is None else MethodType(self._add, builder)


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
            Builder.phi(kind, [(first, before), (self._next[name], self._builder.current)], name)
            for name, (kind, first) in self._carried.items()
        ]


class Builder:
    """A function that grows at its end.

    Each method that makes a value returns its name. A name that is asked for with its `%` is used
    as it is; one without is a hint, and gets a number if it is taken (as LLVM's IRBuilder does it);
    `stem` is what others begin with. The methods for one instruction each can be called without a
    builder, as `Builder.load(...)`, and then return the instruction.
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
        name = item.result
        if name is not None and name[:1] != "%":
            # Just made, it is named in place.
            name = item.result = self.name(name) if name else self.fresh()
        block.add(item)
        if name is None:
            return ""
        self._taken.add(name)
        return name

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

    def names(self, *hints: str) -> tuple[str, ...]:
        """New names, each from a hint."""
        return tuple(map(self.name, hints))

    # ---- one instruction ----------------------------------------------------------------------

    @_Form
    @staticmethod
    def binary(
        opcode: str, kind: str, left: str, right: str, *flags: str, name: str = ""
    ) -> Instruction:
        """An arithmetic operation on two values of one type."""
        operands = Operand(kind, left), Operand(kind, right)
        return Instruction(opcode, kind, name, operands, flags=flags)

    @_Form
    @staticmethod
    def compare(predicate: str, kind: str, left: str, right: str, name: str = "") -> Instruction:
        """A comparison of two integers or addresses, or, with a predicate of those, of floats."""
        opcode = "fcmp" if predicate[0] == "o" or predicate in ("uno", "une") else "icmp"
        operands = Operand(kind, left), Operand(kind, right)
        return Instruction(opcode, like(kind, "i1"), name, operands, predicate=predicate)

    @_Form
    @staticmethod
    def select(condition: str, kind: str, one: str, other: str, name: str = "") -> Instruction:
        """The first value where an i1 holds, else the other."""
        operands = Operand("i1", condition), Operand(kind, one), Operand(kind, other)
        return Instruction("select", kind, name, operands)

    @_Form
    @staticmethod
    def cast(opcode: str, kind: str, value: str, made: str, name: str = "") -> Instruction:
        """A value of the type `kind` as one of the type `made`."""
        return Instruction(opcode, made, name, (Operand(kind, value),))

    @_Form
    @staticmethod
    def freeze(kind: str, value: str, name: str = "") -> Instruction:
        """A value, or any one of its type where it is undefined."""
        return Instruction("freeze", kind, name, (Operand(kind, value),))

    @_Form
    @staticmethod
    def phi(kind: str, incoming: Iterable[Typed], name: str = "") -> Instruction:
        """A phi of (value, label) pairs."""
        pairs = tuple(incoming)
        operands = tuple(Operand(kind, value) for value, _ in pairs)
        return Instruction("phi", kind, name, operands, sources=tuple(label for _, label in pairs))

    @_Form
    @staticmethod
    def allocate(
        kind: str, align: int = 0, name: str = "", count: Typed | None = None
    ) -> Instruction:
        """Memory on the stack for a value of a type, or for `count` of them."""
        operands = () if count is None else (Operand(*count),)
        return Instruction("alloca", "ptr", name, operands, source_type=kind, align=align)

    @_Form
    @staticmethod
    def load(kind: str, address: str, align: int = 0, name: str = "") -> Instruction:
        """A plain load."""
        return Instruction("load", kind, name, (Operand("ptr", address),), align=align)

    @_Form
    @staticmethod
    def store(kind: str, value: str, address: str, align: int = 0) -> Instruction:
        """A plain store."""
        operands = Operand(kind, value), Operand("ptr", address)
        return Instruction("store", "void", None, operands, align=align)

    @_Form
    @staticmethod
    def atomic(
        operation: str, kind: str, address: str, value: str, ordering: str, name: str = ""
    ) -> Instruction:
        """An `atomicrmw`, which gives what was there before."""
        operands = Operand("ptr", address), Operand(kind, value)
        return Instruction(
            "atomicrmw", kind, name, operands, predicate=operation, ordering=ordering
        )

    @_Form
    @staticmethod
    def element(
        kind: str, base: str, index: str, *flags: str, by: str = "i64", name: str = ""
    ) -> Instruction:
        """The address of an element, counted from `base` by an index of the type `by`."""
        operands = Operand("ptr", base), Operand(by, index)
        return Instruction("getelementptr", "ptr", name, operands, flags=flags, source_type=kind)

    @_Form
    @staticmethod
    def extract(kind: str, aggregate: str, index: int, name: str = "") -> Instruction:
        """A place of a structure of the type `kind`."""
        made, operands = element_type(kind, (index,)), (Operand(kind, aggregate),)
        return Instruction("extractvalue", made, name, operands, indices=(index,))

    @_Form
    @staticmethod
    def insert(kind: str, aggregate: str, value: Typed, index: int, name: str = "") -> Instruction:
        """A structure of the type `kind` with a value in one of its places."""
        operands = Operand(kind, aggregate), Operand(*value)
        return Instruction("insertvalue", kind, name, operands, indices=(index,))

    @_Form
    @staticmethod
    def extract_element(kind: str, vector: str, index: Typed, name: str = "") -> Instruction:
        """An element of a vector of the type `kind`."""
        operands = Operand(kind, vector), Operand(*index)
        return Instruction("extractelement", element_type(kind), name, operands)

    @_Form
    @staticmethod
    def insert_element(
        kind: str, vector: str, value: Typed, index: Typed, name: str = ""
    ) -> Instruction:
        """A vector of the type `kind` with a value in one of its places."""
        operands = Operand(kind, vector), Operand(*value), Operand(*index)
        return Instruction("insertelement", kind, name, operands)

    @_Form
    @staticmethod
    def shuffle(kind: str, vector: str, places: Sequence[int], name: str = "") -> Instruction:
        """A vector of the elements of another one, of the type `kind`, at constant places."""
        count = f"<{len(places)} x "
        listed = ", ".join(f"i32 {place}" for place in places)
        mask = Operand(f"{count}i32>", f"<{listed}>" if any(places) else "zeroinitializer")
        operands = Operand(kind, vector), Operand(kind, "poison"), mask
        return Instruction("shufflevector", f"{count}{element_type(kind)}>", name, operands)

    @_Form
    @staticmethod
    def call(
        kind: str,
        callee: str,
        arguments: Sequence[Typed],
        name: str = "",
        metadata: MetadataPairs = (),
    ) -> Instruction:
        """A call of a function."""
        return Instruction(
            "call",
            kind,
            None if kind == "void" else name,
            tuple(Operand(*argument) for argument in arguments),
            source_type=kind,
            callee=callee,
            called=f"@{callee}",
            metadata=metadata,
        )

    @_Form
    @staticmethod
    def jump(label: str) -> Instruction:
        """Go on in another block."""
        return Instruction("br", "void", targets=(label,))

    @_Form
    @staticmethod
    def branch(condition: str, label: str, other: str, metadata: MetadataPairs = ()) -> Instruction:
        """Go on in `label` where an i1 holds, else in `other`."""
        operands, targets = (Operand("i1", condition),), (label, other)
        return Instruction("br", "void", None, operands, targets=targets, metadata=metadata)

    @_Form
    @staticmethod
    def switch(
        kind: str, value: str, default: str, cases: Sequence[tuple[int, str]]
    ) -> Instruction:
        """Go on in the block of the case that a value is, or in `default`."""
        targets = (default, *(label for _, label in cases))
        indices, operands = tuple(number for number, _ in cases), (Operand(kind, value),)
        return Instruction("switch", "void", None, operands, targets=targets, indices=indices)

    @_Form
    @staticmethod
    def ret(kind: str = "void", value: str = "") -> Instruction:
        """End the function."""
        return Instruction("ret", "void", None, () if kind == "void" else (Operand(kind, value),))

    @_Form
    @staticmethod
    def unreachable() -> Instruction:
        """End where control never comes."""
        return Instruction("unreachable", "void")

    # ---- several ------------------------------------------------------------------------------

    def at(self, kind: str, base: str, index: str | int, name: str = "", by: str = "i64") -> str:
        """The address of an element of memory that `base` points into."""
        return self.element(kind, base, str(index), "inbounds", name=name, by=by)

    def extremum(self, which: str, kind: str, one: str, other: str, name: str = "") -> str:
        """The smaller or larger of two integers; `which` is "umin", "umax", "smin" or "smax"."""
        return self.call(kind, f"llvm.{which}.{kind}", ((kind, one), (kind, other)), name)

    def round_up(self, value: str, multiple: str, name: str = "") -> str:
        """An i64 rounded up to a multiple of a power of two."""
        over = self.binary("add", "i64", value, self.binary("sub", "i64", multiple, "1"))
        return self.binary("and", "i64", over, self.binary("sub", "i64", "0", multiple), name=name)

    def splat(self, count: int, kind: str, value: str) -> str:
        """A vector of `count` times one value."""
        vector = f"<{count} x {kind}>"
        first = self.insert_element(vector, "poison", (kind, value), ("i32", "0"))
        return self.shuffle(vector, first, [0] * count)

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

    def either(
        self,
        condition: str,
        labels: Sequence[str],
        one: Callable[[], _Made],
        other: Callable[[], _Made],
    ) -> list[tuple[_Made, str]]:
        """Write `one` for where a condition holds and `other` for where it does not; `labels` are
        those of their blocks and of what follows. Returns what each made and the block that it
        ended in."""
        then, otherwise, behind = labels
        self.branch(condition, then, otherwise)
        made = []
        for label, write in ((then, one), (otherwise, other)):
            self.block(label)
            made.append((write(), self.current))
            self.jump(behind)
        self.block(behind)
        return made

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
