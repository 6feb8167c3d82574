"""Writes one instruction for all lanes of a chunk."""

from dataclasses import replace

from haulage.compiler.mathematics.definitions import DIVISIONS, has_branch, is_mathematics
from haulage.compiler.simt.ir.model import Instruction
from haulage.compiler.simt.ir.types import BINARY, CASTS
from haulage.compiler.simt.loops.block_atomics import expanded
from haulage.compiler.simt.vectorize.likely import LikelySteps
from haulage.compiler.simt.vectorize.operations import (
    BYTES,
    Operation,
    elementwise,
    is_scalar,
    parse,
)
from haulage.compiler.simt.vectorize.text import Text
from haulage.compiler.simt.vectorize.values import Values

# What a step may pass without the promises that hold only in lanes that are on.
_WRAPPING = {"or": "add"}


class Widening:
    """Writes instructions for the lanes that are on."""

    def __init__(self, text: Text, values: Values, likely: LikelySteps) -> None:
        self._text = text
        self._values = values
        self._likely = likely

    def write(self, item: Instruction, mask: str) -> None:
        """Write an instruction and define its result; `mask` are the lanes that are on."""
        operation = parse(item)
        if operation is None:
            self._one_by_one(item, mask)
            return
        shape = self._values.result_shape(item.result) if item.result else None
        if shape is None and _is_long_division(operation):
            # Written out for each lane it would be many times the code, and no faster.
            self._one_by_one(item, mask)
            return
        if item.opcode == "load":
            value = self._load(operation, mask)
        elif item.opcode == "store":
            self._store(operation, mask)
            return
        elif shape is not None:
            value = self._scalar(item, operation)
        else:
            value = self._vector(item, operation, mask)
        assert item.result is not None
        self._values.define(item.result, value, mask)

    def _scalar(self, item: Instruction, operation: Operation) -> str:
        names = {name: self._values.scalar(name) for name in item.uses}
        shapes = [self._values.shape(text) for _, text in operation.operands]
        if not any(shapes):
            return self._text.add(replace(item.with_uses(names), result=None).text)
        opcode = _WRAPPING.get(item.opcode, item.opcode)
        pairs = [(kind, names.get(value, value)) for kind, value in operation.operands]
        return self._text.add(_line(opcode, operation, pairs))

    def _vector(self, item: Instruction, operation: Operation, mask: str) -> str:
        text, values = self._text, self._values
        if item.opcode == "call":
            return self._intrinsic(item, operation, mask)
        if item.opcode == "getelementptr":
            pairs = [
                (kind, values.scalar(value))
                if values.shape(value) == 0
                else (text.vector_type(kind), values.vector(kind, value))
                for kind, value in operation.operands
            ]
            return text.add(_line(operation.words, operation, pairs))
        if item.opcode == "select" and values.shape(operation.operands[0][1]) == 0:
            (_, condition), *others = operation.operands
            pairs = [("i1", values.scalar(condition))]
            pairs += [(text.vector_type(kind), values.vector(kind, each)) for kind, each in others]
            return text.add(_line(operation.words, operation, pairs))
        pairs = [(text.vector_type(kind), values.vector(kind, v)) for kind, v in operation.operands]
        return text.add(_line(operation.words, operation, pairs, text.vector_type(operation.type)))

    def _intrinsic(self, item: Instruction, operation: Operation, mask: str) -> str:
        text, values = self._text, self._values
        assert item.callee is not None
        last = len(operation.operands) - (elementwise(item.callee) or 0)
        pairs = [
            (text.vector_type(kind), values.vector(kind, value))
            for kind, value in operation.operands[:last]
        ]
        if is_mathematics(item.callee) and has_branch(item.callee):
            # What lanes that are off hold may be anything, which no branch may ask about.
            pairs = [
                (kind, text.choose(mask, whole, value, "zeroinitializer"))
                for (kind, value), (whole, _) in zip(pairs, operation.operands, strict=True)
            ]
        pairs += operation.operands[last:]
        name, _, suffix = item.callee.rpartition(".")
        made = text.vector_type(operation.type)
        return text.call(made, f"{name}.v{text.width}{suffix}", pairs, operation.words)

    def _load(self, operation: Operation, mask: str) -> str:
        text, values = self._text, self._values
        kind, align = operation.type, operation.align
        address = operation.operands[0][1]
        shape = values.shape(address)
        if shape == 0:
            return text.add(f"load {kind}, ptr {values.scalar(address)}, align {align}")
        if shape == BYTES[kind]:
            return text.load_lanes(kind, values.scalar(address), mask, align)
        addresses = values.vector("ptr", address)
        if not self._may_be_neighbours(kind, address):
            return text.gather(kind, addresses, mask, align)
        first, apart, row, far, end = self._try_neighbours(kind, addresses, mask)
        text.do(f"br i1 {apart}, label {far}, label {row}")
        text.label(row, inside=True)
        near = text.load_lanes(kind, first, mask, align)
        text.do(f"br label {end}")
        text.label(far, inside=True)
        scattered = text.gather(kind, addresses, mask, align)
        text.do(f"br label {end}")
        text.label(end, inside=True)
        return text.add(f"phi {text.vector_type(kind)} [ {near}, {row} ], [ {scattered}, {far} ]")

    def _may_be_neighbours(self, kind: str, address: str) -> bool:
        return self._likely.of(address, self._values.label) == BYTES[kind]

    def _try_neighbours(
        self, kind: str, addresses: str, mask: str
    ) -> tuple[str, str, str, str, str]:
        """(the first lane's address, whether the others do not follow it, three new labels)."""
        text = self._text
        vector = text.vector_type("ptr")
        first = text.add(f"extractelement {vector} {addresses}, i64 0")
        row = text.steps("ptr", first, BYTES[kind])
        differs = text.add(f"icmp ne {vector} {addresses}, {row}")
        apart = text.any_lane(text.both(mask, differs))
        return first, apart, text.fresh("row"), text.fresh("far"), text.fresh("met")

    def _store(self, operation: Operation, mask: str) -> None:
        text, values = self._text, self._values
        kind, align = operation.type, operation.align
        (_, value), (_, address) = operation.operands
        shape = values.shape(address)
        if shape == 0:
            one = values.scalar(value)
            if values.shape(value) != 0:
                # The last thread's is what is left.
                one = text.of_last_lane(kind, values.vector(kind, value), mask)
            text.do(f"store {kind} {one}, ptr {values.scalar(address)}, align {align}")
            return
        whole = values.vector(kind, value)
        if shape == BYTES[kind]:
            text.store_lanes(kind, whole, values.scalar(address), mask, align)
            return
        addresses = values.vector("ptr", address)
        if not self._may_be_neighbours(kind, address):
            text.scatter(kind, whole, addresses, mask, align)
            return
        first, apart, row, far, end = self._try_neighbours(kind, addresses, mask)
        text.do(f"br i1 {apart}, label {far}, label {row}")
        text.label(row, inside=True)
        text.store_lanes(kind, whole, first, mask, align)
        text.do(f"br label {end}")
        text.label(far, inside=True)
        text.scatter(kind, whole, addresses, mask, align)
        text.do(f"br label {end}")
        text.label(end, inside=True)

    def _one_by_one(self, item: Instruction, mask: str) -> None:
        """The instruction itself for each lane in turn."""
        text, values = self._text, self._values
        whole = f"i{text.width}"
        vectors = {
            name: (values.type(name), values.vector(values.type(name), name))
            for name in dict.fromkeys(item.uses)
            if values.shape(name) != 0
        }
        names = {name: values.scalar(name) for name in item.uses if name not in vectors}
        made = text.vector_type(item.type) if item.result else ""
        head, turn, end = (text.fresh(word) for word in ("each", "lane", "done"))
        start, room = text.bits(mask), text.fresh("made")
        before = text.current
        text.do(f"br label {turn}")
        text.label(turn, inside=True)
        left, new = text.fresh("left"), text.fresh("made")
        text.do(f"{left} = phi {whole} [ {start}, {before} ], [ {head}.left, {turn} ]")
        if made:
            text.do(f"{room} = phi {made} [ poison, {before} ], [ {new}, {turn} ]")
        lane = text.call(whole, f"llvm.cttz.{whole}", [(whole, left), ("i1", "true")])
        for name, (kind, vector) in vectors.items():
            names[name] = text.add(
                f"extractelement {text.vector_type(kind)} {vector}, {whole} {lane}"
            )
        # It may be several lines, with names of its own that belong to its result's.
        text.do("\n  ".join(each.text for each in expanded(item.with_uses(names))))
        if made:
            one = f"{item.type} {item.result}"
            text.do(f"{new} = insertelement {made} {room}, {one}, {whole} {lane}")
        less = text.add(f"sub {whole} {left}, 1")
        text.do(f"{head}.left = and {whole} {left}, {less}")
        more = text.add(f"icmp ne {whole} {head}.left, 0")
        text.do(f"br i1 {more}, label {turn}, label {end}")
        text.label(end, inside=True)
        if item.result:
            values.define(item.result, new, mask)


def is_one_by_one(operation: Operation | None) -> bool:
    """Whether an instruction whose lanes differ takes one lane after the other."""
    if operation is None or operation.words.split(" ", 1)[0] == "frem":
        return True
    return _is_long_division(operation)


def can_write(item: Instruction) -> bool:
    """Whether an instruction, other than a phi, has a form here."""
    if parse(item) is not None:
        return True
    return item.result is None or is_scalar(item.type)


def _line(
    words: str, operation: Operation, pairs: list[tuple[str, str]], made: str | None = None
) -> str:
    opcode = words.split(" ", 1)[0]
    if opcode in BINARY or opcode in ("icmp", "fcmp"):
        (kind, first), (_, second) = pairs
        return f"{words} {kind} {first}, {second}"
    if opcode in CASTS:
        ((kind, value),) = pairs
        return f"{words} {kind} {value} to {made or operation.type}"
    listed = ", ".join(f"{kind} {value}" for kind, value in pairs)
    if opcode == "getelementptr":
        return f"{words} {operation.element}, {listed}"
    return f"{words} {listed}"


def _is_long_division(operation: Operation) -> bool:
    """Whether it is a division that a vector takes one element after the other for."""
    if operation.words.split(" ", 1)[0] not in DIVISIONS:
        return False
    kind, divisor = operation.operands[1]
    if not _is_number_but_0(divisor):
        return True
    return kind == "i64" and int(divisor) & (int(divisor) - 1) != 0


def _is_number_but_0(text: str) -> bool:
    return text.lstrip("-").isdigit() and int(text) not in (0, -1)
