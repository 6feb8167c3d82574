"""How the lanes of a warp exchange values on AMD's GPUs.

All lanes of a wavefront go step by step together, so lanes that come to a word by one and the same
place in the code are there together, and there is nothing to wait for. A warp is a wavefront or, of
32 lanes where those have 64, a half of one. Values go by `ds_bpermute`, which needs no memory; once
loops are unrolled, what is known of the lanes that it reads may make less of it
(`compiler/gpu/amd/shuffles.py`).
"""

from typing import Any

from haulage.targets.amd_architectures import has_halves, version
from haulage.targets.gpu_ir import call

_HALF = 32


class Lanes:
    """Writes the words for warps of `warp` lanes in wavefronts of `wave`."""

    def __init__(self, builder: Any, architecture: str, warp: int, wave: int) -> None:
        from llvmlite import ir

        self.builder, self.warp, self.wave = builder, warp, wave
        self._architecture = architecture
        self._i1, self._i32, self._i64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
        self._mask = ir.IntType(warp)

    def _call(self, name: str, kind: Any, *arguments: Any) -> Any:
        return call(self.builder, f"llvm.amdgcn.{name}", kind, list(arguments))

    def in_wave(self) -> Any:
        """The number of the thread in its wavefront, 32 bits."""
        all_lanes = self._i32(-1)
        below = self._call("mbcnt.lo", self._i32, all_lanes, self._i32(0))
        if self.wave > _HALF:
            below = self._call("mbcnt.hi", self._i32, all_lanes, below)
        return below

    def own(self) -> Any:
        """The number of the thread in its warp, 32 bits."""
        lane = self.in_wave()
        if self.warp < self.wave:
            lane = self.builder.and_(lane, self._i32(self.warp - 1))
        return lane

    def ballot(self, truth: Any) -> Any:
        """The lanes of the warp that are here and where `truth` is true."""
        kind = self._i64 if self.wave > _HALF else self._i32
        found = self._call(f"ballot.i{self.wave}", kind, truth)
        if self.warp == self.wave:
            return found
        half = self.builder.and_(self.in_wave(), self._i32(_HALF))
        shifted = self.builder.lshr(found, self.builder.zext(half, self._i64))
        return self.builder.trunc(shifted, self._mask)

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
        if has_halves(self._architecture, self.wave):
            return self._value_in_any_half(value, lane)
        if self.warp < self.wave:
            half = self.builder.and_(self.in_wave(), self._i32(_HALF))
            lane = self.builder.or_(lane, half)
        return self._by_halves(value, lambda part: self._permuted(part, lane))

    def _permuted(self, value: Any, lane: Any) -> Any:
        # The address of a lane counts bytes.
        place = self.builder.shl(lane, self._i32(2))
        return self._call("ds.bpermute", self._i32, place, value)

    def _value_in_any_half(self, value: Any, lane: Any) -> Any:
        """Where `ds_bpermute` reaches a half only."""
        if version(self._architecture)[0] < 11:
            return self._read_one_by_one(value, lane)
        builder = self.builder
        own = builder.and_(self.in_wave(), self._i32(_HALF))
        inside = builder.or_(builder.and_(lane, self._i32(_HALF - 1)), own)
        is_here = builder.icmp_unsigned("==", builder.and_(lane, self._i32(_HALF)), own)

        def one(part: Any) -> Any:
            # The halves are exchanged with all lanes at work: what one lane has for another may
            # come by one that is not there.
            other = self._permuted(self._call("permlane64.i32", self._i32, part), inside)
            other = self._call("strict.wwm.i32", self._i32, other)
            return builder.select(is_here, self._permuted(part, inside), other)

        return self._by_halves(value, one)

    def _by_halves(self, value: Any, one: Any) -> Any:
        if value.type == self._i32:
            return one(value)
        builder = self.builder
        low = one(builder.trunc(value, self._i32))
        high = one(builder.trunc(builder.lshr(value, self._i64(32)), self._i32))
        shifted = builder.shl(builder.zext(high, self._i64), self._i64(32))
        return builder.or_(builder.zext(low, self._i64), shifted)

    def _read_one_by_one(self, value: Any, lane: Any) -> Any:
        """In each turn the first lane that waits says from which one is read; those that want the
        same are done."""
        from llvmlite import ir

        def turn(found: Any) -> tuple[Any, Any]:
            first = self._call("readfirstlane.i32", self._i32, lane)
            got = self._by_halves(
                value, lambda part: self._call("readlane.i32", self._i32, part, first)
            )
            is_mine = self.builder.icmp_unsigned("==", lane, first)
            return self.builder.select(is_mine, got, found), is_mine

        return self._repeated(ir.Constant(value.type, 0), turn)

    def _repeated(self, start: Any, turn: Any) -> Any:
        """Turns until each lane is done; `turn(found)` gives (found now, whether it is done)."""
        builder = self.builder
        before = builder.basic_block
        look, end = (builder.append_basic_block(f"lanes.{part}") for part in ("look", "end"))
        builder.branch(look)
        builder.position_at_end(look)
        found = builder.phi(start.type)
        found.add_incoming(start, before)
        now, is_done = turn(found)
        found.add_incoming(now, builder.basic_block)
        builder.cbranch(is_done, end, look)
        builder.position_at_end(end)
        return now

    def match_any(self, mask: Any, value: Any) -> Any:
        """See `Target.match_any`."""
        builder = self.builder

        def turn(found: Any) -> tuple[Any, Any]:
            first = self._by_halves(
                value, lambda part: self._call("readfirstlane.i32", self._i32, part)
            )
            is_like = builder.icmp_unsigned("==", value, first)
            return builder.select(is_like, self.ballot(is_like), found), is_like

        return builder.and_(self._repeated(self._mask(0), turn), mask)

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
