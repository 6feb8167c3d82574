"""Writes the instructions of a region for the lanes of a mask.

A uniform or strided value is one scalar, that of the first lane; a varying one is a vector. What
another block uses is kept in stack slots, which LLVM's `mem2reg` makes registers again.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from haulage.compiler.mathematics.definitions import has_branch, is_mathematics
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Instruction, Operand
from haulage.compiler.simt.ir.types import FAST_MATH
from haulage.compiler.simt.loops.atomics import expanded
from haulage.compiler.simt.vectorize.builder import (
    BYTES,
    ZERO,
    VectorBuilder,
    elementwise,
    is_scalarized,
)
from haulage.compiler.simt.vectorize.shapes import Shape, Shapes, any_stride

_Made = TypeVar("_Made")


class Values:
    """Defines and finds the values of one region.

    `types` are those of all names, `crossing` the values that are used in other blocks than they
    are defined in, `outliving` those used behind a divergent loop.
    """

    def __init__(
        self,
        builder: VectorBuilder,
        shapes: Shapes,
        types: Mapping[str, str],
        crossing: Iterable[str],
        outliving: Iterable[str],
    ) -> None:
        self._builder = builder
        self._shapes = shapes
        self._types = types
        # The values that are live when the region begins, each as its shape is.
        self.live_in: dict[str, str] = {}
        self._slots = {name: builder.slot(self._kind(name)) for name in sorted(crossing)}
        # What each lane had of a value in its last iteration of a divergent loop.
        self._last = {
            name: builder.slot(builder.vector_type(types[name])) for name in sorted(outliving)
        }
        # The block that is being written.
        self.label = ""

    def _kind(self, name: str) -> str:
        kind = self._types[name]
        return self._builder.vector_type(kind) if self._shapes.of(name) is None else kind

    def shape(self, value: str) -> Shape:
        """The shape of a value, or constant, in the block that is being written."""
        return self._shapes.at(value, self.label)

    def type(self, name: str) -> str:
        """The type that a value has in one lane."""
        return self._types[name]

    def define(self, name: str, value: str, mask: str) -> None:
        """`value` is now that of `name`, in the lanes of `mask`."""
        builder, kind, shape = self._builder, self._types[name], self._shapes.of(name)
        builder.available[name] = value
        if name in self._last:
            whole = value if shape is None else builder.linear(kind, value, shape)
            vector, slot = builder.vector_type(kind), self._last[name]
            blended = builder.blend(mask, kind, whole, builder.load(vector, slot))
            builder.store(vector, blended, slot)
        if name in self._slots:
            builder.store(self._kind(name), value, self._slots[name])

    def scalar(self, value: str) -> str:
        """The first lane's number of a uniform or strided value, or the constant itself."""
        return self._find(value) if value[0] == "%" else value

    def vector(self, kind: str, value: str) -> str:
        """A value, or constant, with one element for each lane."""
        builder, shape = self._builder, self.shape(value)
        if shape is not None:
            return builder.linear(kind, self.scalar(value), shape)
        if not self._shapes.outlives_loop(value, self.label):
            return self._find(value)
        slot = self._last[value]
        return builder.once(("last", value), lambda: builder.load(builder.vector_type(kind), slot))

    def _find(self, name: str) -> str:
        if name in self.live_in:
            return self.live_in[name]
        builder = self._builder
        return builder.once(name, lambda: builder.load(self._kind(name), self._slots[name]))


class Widening:
    """Writes instructions for the active lanes."""

    def __init__(self, builder: VectorBuilder, values: Values, shapes: Shapes) -> None:
        self._builder = builder
        self._values = values
        self._shapes = shapes

    def write(self, item: Instruction, mask: str) -> None:
        """Write an instruction and define its result; `mask` are the active lanes."""
        shape = self._shapes.of(item.result) if item.result else None
        if shape is None and is_scalarized(item):
            self._scalarize(item, mask)
            return
        if item.opcode == "store":
            self._store(item, mask)
            return
        if item.opcode == "load":
            value = self._load(item, mask)
        elif shape is not None:
            value = self._first_lane(item)
        elif item.opcode == "call":
            value = self._intrinsic(item, mask)
        else:
            value = self._widened(item)
        assert item.result is not None
        self._values.define(item.result, value, mask)

    def _first_lane(self, item: Instruction) -> str:
        """A uniform or strided result."""
        names = {name: self._values.scalar(name) for name in item.uses}
        made = item.with_uses(names).changed(result=self._builder.fresh())
        if any_stride([self._values.shape(operand.text) for operand in item.operands]):
            # Flags promise something of active lanes only, and the first one may be off.
            opcode = "add" if item.opcode == "or" else item.opcode
            made = made.changed(opcode=opcode, flags=(), metadata=())
        return self._builder.add(made)

    def _operand(self, operand: Operand, *, may_be_scalar: bool = False) -> Operand:
        if may_be_scalar and self._values.shape(operand.text) == 0:
            return Operand(operand.type, self._values.scalar(operand.text))
        vector = self._builder.vector_type(operand.type)
        return Operand(vector, self._values.vector(operand.type, operand.text))

    def _widened(self, item: Instruction) -> str:
        builder, opcode = self._builder, item.opcode
        operands = tuple(
            self._operand(
                operand,
                may_be_scalar=opcode == "getelementptr" or (opcode == "select" and not position),
            )
            for position, operand in enumerate(item.operands)
        )
        kind = builder.vector_type(item.type)
        return builder.add(
            item.changed(type=kind, result=builder.fresh(), operands=operands, metadata=())
        )

    def _intrinsic(self, item: Instruction, mask: str) -> str:
        builder, callee = self._builder, item.callee
        assert callee is not None
        last = len(item.operands) - (elementwise(callee) or 0)
        operands = [self._operand(operand) for operand in item.operands[:last]]
        arguments = [(operand.type, operand.text) for operand in operands]
        if is_mathematics(callee) and has_branch(callee):
            # What lanes that are off hold may be anything, which no branch may ask about.
            arguments = [
                (vector, builder.blend(mask, operand.type, value, ZERO))
                for (vector, value), operand in zip(arguments, item.operands, strict=True)
            ]
        arguments += [(operand.type, operand.text) for operand in item.operands[last:]]
        kind = builder.vector_type(item.type)
        name, _, suffix = callee.rpartition(".")
        name = f"{name}.v{builder.width}{suffix}"
        flags = tuple(flag for flag in item.flags if flag in FAST_MATH)
        made = Builder.call(kind, name, arguments, name=builder.fresh())
        return builder.add(made.changed(flags=flags))

    # ---- memory -----------------------------------------------------------------------------

    def _load(self, item: Instruction, mask: str) -> str:
        builder, values = self._builder, self._values
        kind, align, address = item.type, item.align or 1, item.operands[0].text
        if values.shape(address) == 0:
            return builder.load(kind, values.scalar(address), align)
        made = self._access(
            kind,
            address,
            mask,
            lambda first: builder.masked_load(kind, first, mask, align),
            lambda addresses: builder.gather(kind, addresses, mask, align),
        )
        return made[0][0] if len(made) == 1 else builder.phi(builder.vector_type(kind), made)

    def _store(self, item: Instruction, mask: str) -> None:
        builder, values = self._builder, self._values
        stored, address = item.operands[0], item.operands[1].text
        kind, align = stored.type, item.align or 1
        if values.shape(address) == 0:
            one = values.scalar(stored.text)
            if values.shape(stored.text) != 0:
                # The last thread's is what is left.
                one = builder.extract_last(kind, values.vector(kind, stored.text), mask)
            builder.store(kind, one, values.scalar(address), align)
            return
        vector = values.vector(kind, stored.text)
        self._access(
            kind,
            address,
            mask,
            lambda first: builder.masked_store(kind, vector, first, mask, align),
            lambda addresses: builder.scatter(kind, vector, addresses, mask, align),
        )

    def _access(
        self,
        kind: str,
        address: str,
        mask: str,
        consecutive: Callable[[str], _Made],
        scattered: Callable[[str], _Made],
    ) -> list[tuple[_Made, str]]:
        """Write an access by the shape of its address: `consecutive`, which takes that of the first
        lane, or `scattered`, which takes them all. Where they are most likely consecutive, that is
        tested, of the active lanes. Returns what each made and the block that it ended in."""
        builder, values = self._builder, self._values
        if values.shape(address) == BYTES[kind]:
            return [(consecutive(values.scalar(address)), builder.current)]
        addresses = values.vector("ptr", address)
        if self._shapes.likely(address, values.label) != BYTES[kind]:
            return [(scattered(addresses), builder.current)]
        vector = builder.vector_type("ptr")
        # The first lane may be off, and its address poison.
        first = builder.freeze("ptr", builder.extract_element(vector, addresses, ("i32", "0")))
        expected = builder.linear("ptr", first, BYTES[kind])
        differs = builder.compare("ne", vector, addresses, expected)
        apart = builder.any_lane(builder.logical_and(mask, differs))
        return builder.choose(apart, lambda: scattered(addresses), lambda: consecutive(first))

    # ---- scalarisation ----------------------------------------------------------------------

    def _scalarize(self, item: Instruction, mask: str) -> None:
        """Write a loop that does the instruction itself for one active lane after the other."""
        builder, values = self._builder, self._values
        whole = builder.bits_type
        vectors = {
            name: values.vector(values.type(name), name)
            for name in dict.fromkeys(item.uses)
            if values.shape(name) != 0
        }
        names = {name: values.scalar(name) for name in item.uses if name not in vectors}
        active, available = builder.bits(mask), builder.available
        result = ""
        with builder.repeat("lanes.each") as loop:
            left = loop.carry(whole, active, "lanes.left")
            if item.result:
                made = loop.carry(builder.vector_type(item.type), "poison", "lanes.made")
            lane = builder.call(whole, f"llvm.cttz.{whole}", [(whole, left), ("i1", "true")])
            for name, vector in vectors.items():
                names[name] = builder.extract_lane(values.type(name), vector, (whole, lane))
            builder.extend(expanded(item.with_uses(names)))
            if item.result:
                result = builder.insert_lane(item.type, made, item.result, (whole, lane))
                loop.set(made, result)
            less = builder.binary("sub", whole, left, "1")
            rest = loop.set(left, builder.binary("and", whole, left, less))
            loop.more = builder.compare("ne", whole, rest, "0")
        builder.available = available
        if item.result:
            values.define(item.result, result, mask)
