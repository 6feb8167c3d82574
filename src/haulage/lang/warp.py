"""What the lanes of a warp do together: exchange values, vote, find their like, wait.

Words with a mask wait for the lanes that it names and that have not ended; each of these comes to
the word with the same mask. They are words of `cuda`, with 32 lanes; those of `roc` have no mask
and take the lanes that are there, of 64 in its kernels.
"""

from typing import Any

from haulage.lang.word import Register, Word, word

_LANES = 32


def _read_warp_size(builder: Any, target: Any) -> Any:
    from llvmlite import ir

    return ir.IntType(32)(target.warp_size)


def _read_lane(builder: Any, target: Any) -> Any:
    target.check_lanes("laneid")
    return target.lane(builder)


laneid = Register("laneid", _read_lane)
warpsize = Register("warpsize", _read_warp_size)


class _Lanes:
    """What the code of one use of a word needs; made while it is lowered."""

    def __init__(self, tools: Any, context: Any, builder: Any, name: str, *, masks: bool) -> None:
        self.tools, self.context, self.builder = tools, context, builder
        self.target = context.haulage_target
        if masks and self.target.warp_size != _LANES:
            raise tools.TypingError(
                f"{name} has masks of {_LANES} lanes, and a warp of this kernel has "
                f"{self.target.warp_size}; write it as a kernel of cuda"
            )
        self.target.check_lanes(name)
        where = tools.source_place(builder)
        self.place = context.haulage_faults.lanes(builder.module, *where)

    def mask(self, value: Any, kind: Any) -> Any:
        return self.context.cast(self.builder, value, kind, self.tools.types.uint32)

    def number(self, value: Any, kind: Any) -> Any:
        """An int argument, such as a lane, of which a warp uses the low bits."""
        return self.context.cast(self.builder, value, kind, self.tools.types.int32)

    def low_bits(self, number: Any) -> Any:
        return self.builder.and_(number, number.type(self.target.warp_size - 1))

    def bits(self, value: Any, given: Any, kind: Any) -> Any:
        """A value of `given` type as the bits of one of type `kind`."""
        value = self.context.cast(self.builder, value, given, kind)
        if isinstance(kind, self.tools.types.Float):
            return self.builder.bitcast(value, self.tools.ir.IntType(kind.bitwidth))
        return value

    def of_bits(self, bits: Any, kind: Any) -> Any:
        return self.builder.bitcast(bits, self.context.get_value_type(kind))

    def shuffle(self, mask: Any, value: Any, kind: str, number: Any) -> Any:
        return self.target.shuffle(self.builder, mask, value, kind, number, self.place)

    def here(self) -> Any:
        return self.target.lanes_here(self.builder, self.place)

    def is_in(self, lane: Any, lanes: Any) -> Any:
        shift = lane if lanes.type == lane.type else self.builder.zext(lane, lanes.type)
        return self.builder.trunc(self.builder.lshr(lanes, shift), self.tools.ir.IntType(1))


def _check_int(tools: Any, word_name: str, **given: Any) -> None:
    for name, kind in given.items():
        if not isinstance(kind, tools.types.Integer):
            raise tools.TypingError(f"{word_name}: {name} must be an int; got {kind}")


def _kind(tools: Any, word_name: str, name: str, value: Any) -> Any:
    """The type that a value is exchanged as: its own, or one of 32 bits if that has less."""
    types = tools.types
    kind = types.unliteral(value)
    if isinstance(kind, (types.Integer, types.Boolean)):
        return kind if getattr(kind, "bitwidth", 1) >= 32 else types.int32
    if isinstance(kind, types.Float):
        return kind if kind.bitwidth >= 32 else types.float32
    raise tools.TypingError(f"{word_name}: {name} must be an int or a float; got {value}")


@word("syncwarp")
def syncwarp(tools: Any, mask: Any = None) -> Any:
    """`syncwarp(mask=0xFFFFFFFF)`: wait until the lanes in `mask` are here or have ended.

    What they wrote before is seen by all of them then.
    """
    given = () if mask is None else (mask,)
    if given:
        _check_int(tools, "syncwarp", mask=mask)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lanes = _Lanes(tools, context, builder, "syncwarp", masks=True)
        chosen = lanes.mask(args[0], sig.args[0]) if given else tools.I32(-1)
        lanes.target.warp_barrier(builder, chosen, lanes.place)
        return context.get_dummy_value()

    return tools.signature(tools.types.none, *given), generate


def _shuffle(tools: Any, name: str, which: str, mask: Any, value: Any, number: Any) -> Any:
    """A shuffle; `which` is one of the target's `SHUFFLES`."""
    kind = _kind(tools, name, "value", value)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lanes = _Lanes(tools, context, builder, name, masks=True)
        own = lanes.bits(args[1], sig.args[1], kind)
        chosen = lanes.number(args[2], sig.args[2])
        result = lanes.shuffle(lanes.mask(args[0], sig.args[0]), own, which, chosen)
        return lanes.of_bits(result, kind)

    return kind(mask, value, number), generate


@word("shfl_sync")
def shfl_sync(tools: Any, mask: Any, value: Any, src_lane: Any) -> Any:
    """`shfl_sync(mask, value, src_lane)`: the `value` of the lane `src_lane`.

    For this and the other shuffles: `value` is an int or a float of 32 or 64 bits, which is the
    result's type too; smaller ints become int32 and float16 becomes float32. Of the last argument
    the low five bits count, as in hardware. What a lane gives that is not there is undefined.
    """
    _check_int(tools, "shfl_sync", mask=mask, src_lane=src_lane)
    return _shuffle(tools, "shfl_sync", "lane", mask, value, src_lane)


@word("shfl_up_sync")
def shfl_up_sync(tools: Any, mask: Any, value: Any, delta: Any) -> Any:
    """`shfl_up_sync(mask, value, delta)`: the `value` of the lane `delta` below this one; its own
    in the first `delta` lanes."""
    _check_int(tools, "shfl_up_sync", mask=mask, delta=delta)
    return _shuffle(tools, "shfl_up_sync", "up", mask, value, delta)


@word("shfl_down_sync")
def shfl_down_sync(tools: Any, mask: Any, value: Any, delta: Any) -> Any:
    """`shfl_down_sync(mask, value, delta)`: the `value` of the lane `delta` above this one; its own
    in the last `delta` lanes."""
    _check_int(tools, "shfl_down_sync", mask=mask, delta=delta)
    return _shuffle(tools, "shfl_down_sync", "down", mask, value, delta)


@word("shfl_xor_sync")
def shfl_xor_sync(tools: Any, mask: Any, value: Any, lane_mask: Any) -> Any:
    """`shfl_xor_sync(mask, value, lane_mask)`: the `value` of the lane whose number is this one's
    `^ lane_mask`."""
    _check_int(tools, "shfl_xor_sync", mask=mask, lane_mask=lane_mask)
    return _shuffle(tools, "shfl_xor_sync", "xor", mask, value, lane_mask)


def _vote(name: str, kind: str, says: str, result: str) -> Word:
    """A vote; `kind` is one of the target's `VOTES`."""

    def build(tools: Any, mask: Any, predicate: Any) -> Any:
        _check_int(tools, name, mask=mask)
        boolean = tools.types.boolean
        if not isinstance(predicate, (tools.types.Number, tools.types.Boolean)) or isinstance(
            predicate, tools.types.Complex
        ):
            raise tools.TypingError(
                f"{name}: predicate must be a bool or a number; got {predicate}"
            )

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            lanes = _Lanes(tools, context, builder, name, masks=True)
            truth = context.cast(builder, args[1], sig.args[1], boolean)
            chosen = lanes.mask(args[0], sig.args[0])
            return lanes.target.vote(builder, chosen, kind, truth, lanes.place)

        return getattr(tools.types, result)(mask, predicate), generate

    build.__doc__ = f"`{name}(mask, predicate)`: {says}"
    return word(name)(build)


all_sync = _vote(
    "all_sync",
    "all",
    "whether `predicate` is true in all lanes of `mask` that are there, bool.",
    "boolean",
)
any_sync = _vote(
    "any_sync",
    "any",
    "whether `predicate` is true in any lane of `mask` that is there, bool.",
    "boolean",
)
eq_sync = _vote(
    "eq_sync",
    "equal",
    "whether `predicate` is as true in all lanes of `mask` that are there, bool.",
    "boolean",
)
ballot_sync = _vote(
    "ballot_sync",
    "ballot",
    "the lanes of `mask` that are there with a true `predicate`, a bit for each, int32.",
    "int32",
)


@word("match_any_sync")
def match_any_sync(tools: Any, mask: Any, value: Any) -> Any:
    """`match_any_sync(mask, value)`: the lanes of `mask` with this lane's `value`, int32.

    `value` is an int or a float of 32 or 64 bits; floats are compared by their bits.
    """
    _check_int(tools, "match_any_sync", mask=mask)
    kind = _kind(tools, "match_any_sync", "value", value)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lanes = _Lanes(tools, context, builder, "match_any_sync", masks=True)
        bits = lanes.bits(args[1], sig.args[1], kind)
        mask = lanes.mask(args[0], sig.args[0])
        return lanes.target.match_any(builder, mask, bits, lanes.place)

    return tools.types.int32(mask, value), generate


@word("match_all_sync")
def match_all_sync(tools: Any, mask: Any, value: Any) -> Any:
    """`match_all_sync(mask, value)`: (the lanes of `mask` that are there, True) if all of these
    have the same `value`, else (0, False); int32 and bool.

    `value` is an int or a float of 32 or 64 bits; floats are compared by their bits.
    """
    _check_int(tools, "match_all_sync", mask=mask)
    kind = _kind(tools, "match_all_sync", "value", value)
    result = tools.types.Tuple((tools.types.int32, tools.types.boolean))

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lanes = _Lanes(tools, context, builder, "match_all_sync", masks=True)
        bits = lanes.bits(args[1], sig.args[1], kind)
        mask = lanes.mask(args[0], sig.args[0])
        found = lanes.target.match_all(builder, mask, bits, lanes.place)
        return context.make_tuple(builder, result, found)

    return result(mask, value), generate


@word("activemask")
def activemask(tools: Any) -> Any:
    """`activemask()`: the lanes that come to this place together with this one, uint32.

    All come together that can come before they or the others wait for something else.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _Lanes(tools, context, builder, "activemask", masks=True).here()

    return tools.types.uint32(), generate


@word("lanemask_lt")
def lanemask_lt(tools: Any) -> Any:
    """`lanemask_lt()`: the lanes with lower numbers than this one, a bit for each, uint32."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        target = _Lanes(tools, context, builder, "lanemask_lt", masks=True).target
        return target.lanes_below(builder)

    return tools.types.uint32(), generate


def _check_32_bits(tools: Any, word_name: str, value: Any) -> Any:
    kind = _kind(tools, word_name, "src", value)
    if isinstance(value, tools.types.IntegerLiteral):
        kind = tools.types.int32
    if kind.bitwidth != 32:
        raise tools.TypingError(f"{word_name}: src must have 32 bits; got {value}")
    return kind


@word("ds_permute")
def ds_permute(tools: Any, dest_lane: Any, src: Any) -> Any:
    """`ds_permute(dest_lane, src)`: give `src` to the lane `dest_lane`, and get what was given.

    `src` is an int or a float of 32 bits, which is the result's type too. A lane that nobody gives
    anything gets 0, and one that several do what the last of them gives. Of `dest_lane` the low
    bits count. The lanes that come here together take part.
    """
    _check_int(tools, "ds_permute", dest_lane=dest_lane)
    kind = _check_32_bits(tools, "ds_permute", src)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lanes = _Lanes(tools, context, builder, "ds_permute", masks=False)
        dest = lanes.low_bits(lanes.number(args[0], sig.args[0]))
        givers, here = lanes.target.givers(builder, dest, lanes.place)
        # Where there is none this is not a lane's number.
        zeros = builder.ctlz(givers, tools.ir.IntType(1)(0))
        last = builder.sub(zeros.type(lanes.target.warp_size - 1), zeros)
        none = builder.icmp_unsigned("==", givers, givers.type(0))
        giver = builder.select(none, tools.I32(0), _narrow(tools, builder, last))
        result = lanes.shuffle(here, lanes.bits(args[1], sig.args[1], kind), "lane", giver)
        return lanes.of_bits(builder.select(none, result.type(0), result), kind)

    return kind(dest_lane, src), generate


def _narrow(tools: Any, builder: Any, value: Any) -> Any:
    return value if value.type == tools.I32 else builder.trunc(value, tools.I32)


@word("ds_bpermute")
def ds_bpermute(tools: Any, src_lane: Any, src: Any) -> Any:
    """`ds_bpermute(src_lane, src)`: what the lane `src_lane` has as `src`, 0 if it is not here.

    `src` is an int or a float of 32 bits, which is the result's type too. Of `src_lane` the low
    bits count. The lanes that come here together take part.
    """
    _check_int(tools, "ds_bpermute", src_lane=src_lane)
    kind = _check_32_bits(tools, "ds_bpermute", src)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lanes = _Lanes(tools, context, builder, "ds_bpermute", masks=False)
        source = lanes.low_bits(lanes.number(args[0], sig.args[0]))
        here = lanes.here()
        result = lanes.shuffle(here, lanes.bits(args[1], sig.args[1], kind), "lane", source)
        result = builder.select(lanes.is_in(source, here), result, result.type(0))
        return lanes.of_bits(result, kind)

    return kind(src_lane, src), generate


@word("activelanepermute_wavewidth")
def activelanepermute_wavewidth(
    tools: Any, src: Any, laneid: Any, identity: Any, useidentity: Any
) -> Any:
    """`activelanepermute_wavewidth(src, laneid, identity, useidentity)`: what the lane `laneid`
    has as `src`, or `identity` where `useidentity` is true or that lane is not here.

    `src` is an int or a float of 32 or 64 bits, which is the result's type too; `identity` is a
    number, converted to it. Of `laneid` the low bits count. The lanes that come here together take
    part.
    """
    name = "activelanepermute_wavewidth"
    _check_int(tools, name, laneid=laneid)
    kind = _kind(tools, name, "src", src)
    _kind(tools, name, "identity", identity)
    if not isinstance(useidentity, (tools.types.Integer, tools.types.Boolean)):
        raise tools.TypingError(f"{name}: useidentity must be a bool; got {useidentity}")

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lanes = _Lanes(tools, context, builder, name, masks=False)
        source = lanes.low_bits(lanes.number(args[1], sig.args[1]))
        own, instead = (lanes.bits(args[n], sig.args[n], kind) for n in (0, 2))
        here = lanes.here()
        result = lanes.shuffle(here, own, "lane", source)
        truth = context.cast(builder, args[3], sig.args[3], tools.types.boolean)
        used = builder.or_(truth, builder.not_(lanes.is_in(source, here)))
        return lanes.of_bits(builder.select(used, instead, result), kind)

    return kind(src, laneid, identity, useidentity), generate
