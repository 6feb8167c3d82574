"""How the lanes of a warp exchange values in OpenCL: a warp is a sub-group of a required size.

Lanes of a sub-group that come to a word by one and the same place in the code are there together.
Ballots are OpenCL's function for it. Values go by way of the block's memory: Intel's compiler for
processors takes a shuffle of more lanes than a register has apart, which takes ten times as long.
"""

from typing import Any

from haulage.targets.base import REGISTER_RANGES
from haulage.targets.gpu_ir import SHARED_PREFIX, SHARED_SPACE
from haulage.targets.opencl_ir import (
    ACQUIRE_RELEASE_ALL,
    CONTROL_BARRIER,
    IN_SUB_GROUP,
    SUB_GROUP,
    mangled,
    pure,
    together,
)

_ROOM = f"{SHARED_PREFIX}lanes"
# Threads of a block, and bytes of a value.
_MOST_THREADS = REGISTER_RANGES["threadIdx.x"][1]
_WIDEST = 8


class Lanes:
    """Writes the words for warps of `warp` lanes."""

    def __init__(self, builder: Any, warp: int) -> None:
        from llvmlite import ir

        self.builder, self.warp = builder, warp
        self._i1, self._i32, self._i64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
        self._mask = ir.IntType(warp)

    def own(self) -> Any:
        """The number of the thread in its warp, 32 bits."""
        return pure(self.builder, mangled(f"get_{SUB_GROUP}_local_id"), self._i32, [])

    def wait(self) -> None:
        """A barrier of the warp."""
        from llvmlite import ir

        how = (IN_SUB_GROUP, IN_SUB_GROUP, ACQUIRE_RELEASE_ALL)
        arguments = [self._i32(number) for number in how]
        together(self.builder, CONTROL_BARRIER, ir.VoidType(), arguments)

    def ballot(self, truth: Any) -> Any:
        """The lanes of the warp that are here and where `truth` is true."""
        from llvmlite import ir

        builder = self.builder
        name = mangled(f"{SUB_GROUP}_ballot", "i32")
        four = ir.VectorType(self._i32, 4)
        found = together(builder, name, four, [builder.zext(truth, self._i32)])
        low = builder.extract_element(found, self._i32(0))
        if self.warp == self._i32.width:
            return low
        high = builder.zext(builder.extract_element(found, self._i32(1)), self._i64)
        return builder.or_(
            builder.zext(low, self._i64), builder.shl(high, self._i64(self._i32.width))
        )

    def here(self) -> Any:
        """The lanes of the warp that are here."""
        return self.ballot(self._i1(1))

    def vote(self, mask: Any, kind: str, truth: Any) -> Any:
        """See `Target.vote`."""
        builder, none = self.builder, self._mask(0)
        if kind == "all":
            against = self.ballot(builder.not_(truth))
            return builder.icmp_unsigned("==", builder.and_(against, mask), none)
        given = builder.and_(self.ballot(truth), mask)
        if kind == "ballot":
            return given
        if kind == "any":
            return builder.icmp_unsigned("!=", given, none)
        is_all = builder.icmp_unsigned("==", given, builder.and_(self.here(), mask))
        return builder.or_(is_all, builder.icmp_unsigned("==", given, none))

    def shuffle(self, value: Any, kind: str, number: Any) -> Any:
        """See `Target.shuffle`."""
        builder, last = self.builder, self._i32(self.warp - 1)
        number = builder.and_(number, last)
        if kind == "lane":
            return self.value_of(value, number)
        own = self.own()
        if kind == "xor":
            return self.value_of(value, builder.xor(own, number))
        if kind == "up":
            source = builder.sub(own, number)
            there = builder.icmp_unsigned(">=", own, number)
        else:
            source = builder.add(own, number)
            there = builder.icmp_unsigned("<=", source, last)
        return self.value_of(value, builder.select(there, source, own))

    def value_of(self, value: Any, lane: Any) -> Any:
        """What the lane of that number has as `value`, of 32 or 64 bits."""
        room = self._told(value)
        found = self._from(room, value.type, lane)
        # The room may be written again when all have read.
        self.wait()
        return found

    def _told(self, value: Any) -> Any:
        """Where the lanes' values are, one after the other, once all have written theirs."""
        builder, place = self.builder, self._thread()
        room = self._room(value.type)
        builder.store(value, self._at(room, place, value.type))
        self.wait()
        first = builder.and_(place, self._i64(-self.warp))
        return self._at(room, first, value.type)

    def _from(self, room: Any, kind: Any, lane: Any) -> Any:
        return self.builder.load(self._at(room, self.builder.zext(lane, self._i64), kind), typ=kind)

    def _at(self, room: Any, number: Any, kind: Any) -> Any:
        return self.builder.gep(room, [number], source_etype=kind)

    def _thread(self) -> Any:
        """The number of the thread in its block, whose threads are in a row."""
        return pure(self.builder, "_Z12get_local_idj", self._i64, [self._i32(0)])

    def _room(self, kind: Any) -> Any:
        from llvmlite import ir

        module = self.builder.module
        room = module.globals.get(_ROOM)
        if room is None:
            whole = ir.ArrayType(ir.IntType(8), _WIDEST * _MOST_THREADS)
            room = ir.GlobalVariable(module, whole, _ROOM, addrspace=SHARED_SPACE)
            room.linkage = "linkonce_odr"
            room.initializer = ir.Constant(whole, ir.Undefined)
            room.align = _WIDEST
        return self.builder.bitcast(room, ir.PointerType(kind, SHARED_SPACE))

    def match_any(self, mask: Any, value: Any) -> Any:
        """See `Target.match_any`."""
        builder = self.builder
        room = self._told(value)
        before = builder.basic_block
        look, end = (builder.append_basic_block(f"lanes.{part}") for part in ("look", "end"))
        builder.branch(look)
        builder.position_at_end(look)
        # All lanes make the same turns.
        lane, found = builder.phi(self._i32), builder.phi(self._mask)
        is_like = builder.icmp_unsigned("==", self._from(room, value.type, lane), value)
        wide = lane if lane.type == self._mask else builder.zext(lane, self._mask)
        now = builder.or_(found, builder.shl(builder.zext(is_like, self._mask), wide))
        following = builder.add(lane, self._i32(1))
        for phi, first, next_ in (
            (lane, self._i32(0), following),
            (found, self._mask(0), now),
        ):
            phi.add_incoming(first, before)
            phi.add_incoming(next_, builder.basic_block)
        is_last = builder.icmp_unsigned("==", following, self._i32(self.warp))
        builder.cbranch(is_last, end, look)
        builder.position_at_end(end)
        self.wait()
        return builder.and_(builder.and_(now, self.here()), mask)

    def match_all(self, mask: Any, value: Any) -> tuple[Any, Any]:
        """See `Target.match_all`."""
        builder, none = self.builder, self._mask(0)
        there = builder.and_(self.here(), mask)
        first = builder.cttz(there, self._i1(0))
        if first.type != self._i32:
            first = builder.trunc(first, self._i32)
        known = self.value_of(value, builder.and_(first, self._i32(self.warp - 1)))
        same = self.vote(mask, "all", builder.icmp_unsigned("==", value, known))
        return builder.select(same, there, none), same
