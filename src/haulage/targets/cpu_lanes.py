"""How the lanes of a warp exchange values on the CPU.

In a kernel's body an exchange is one call of an unknown function, whose name says all about it:

    iB @haulage.shuffle.KIND.B.L(i32 thread, iL mask, iB value, i32 number, i32 place)
    { iL, iL } @haulage.match.B.L(i32 thread, iL mask, iB value, iB wanted, i32 place)
    { iL, iL } @haulage.meet.B.L(i32 thread, iB value, iB wanted, i32 place)

for values of B bits, warps of L lanes, the number of the thread in its block, and a KIND of
`SHUFFLES`; `meet` is `match` without a mask. Where the lanes of a warp come to it together this is
worked out for all of them at once (`compiler/simt/emit/warp_collectives.py`). For coroutines
`definition` gives the function: a lane writes its value to its slot in a room of the block, waits
for the others, reads theirs, and waits again before any of them may write anew. What tells who is
there is a stamp of each lane: the place (never 0) of the exchange that it takes part in, and 0
again behind it. Blocks begin with all stamps 0.
"""

from itertools import product
from typing import Any

from haulage.targets.base import SHUFFLES
from haulage.targets.cpu_ir import SHARED_PREFIX, declare, shared_room

WARP_BARRIER = "haulage.warpbarrier"
# No other shared array has this number.
WARP_ROOM = f"{SHARED_PREFIX}0"
MOST_THREADS = 1024
STAMP_BYTES, ANSWER_BYTES = 4, 8
# Each thread has a stamp, a slot of each width, as lanes of one warp may be at exchanges of both
# widths at one time, and two answers. Stamps and slots begin as 0.
FIRST_SLOT = {4: MOST_THREADS * STAMP_BYTES, 8: MOST_THREADS * (STAMP_BYTES + 4)}
FIRST_ANSWER = FIRST_SLOT[8] + MOST_THREADS * 8
ROOM_BYTES = FIRST_ANSWER + 2 * MOST_THREADS * ANSWER_BYTES
# (offset, bytes for a thread) of what begins as 0.
CLEARED = ((0, STAMP_BYTES), (FIRST_SLOT[4], 4), (FIRST_SLOT[8], 8))


def place_in_warp(target: Any, builder: Any) -> tuple[Any, Any]:
    """(number in the block of the warp's first thread, number of this thread in its warp)."""
    x, y, z, width, height = (
        target.register(builder, name)
        for name in ("threadIdx.x", "threadIdx.y", "threadIdx.z", "blockDim.x", "blockDim.y")
    )
    flags = ("nuw", "nsw")
    rows = builder.add(y, builder.mul(height, z, flags=flags), flags=flags)
    thread = builder.add(x, builder.mul(width, rows, flags=flags), flags=flags)
    return _parts(target.warp_size, builder, thread)


def _parts(warp_size: int, builder: Any, thread: Any) -> tuple[Any, Any]:
    last = thread.type(warp_size - 1)
    return builder.and_(thread, thread.type(~(warp_size - 1))), builder.and_(thread, last)


def wait(target: Any, builder: Any, mask: Any, place: int) -> None:
    """A barrier of the lanes in `mask`; None: as soon as the others of the warp cannot go on."""
    first, lane = place_in_warp(target, builder)
    _wait(builder, first, lane, mask, lane.type(place))


def _wait(builder: Any, first: Any, lane: Any, mask: Any, place: Any) -> None:
    from llvmlite import ir

    i32, i64 = ir.IntType(32), ir.IntType(64)
    if mask is None:
        lanes = i64(0)
    else:
        # The scheduler's masks are those of 64 threads, which may be two warps. A mask of nobody
        # would mean those that are here.
        own = builder.shl(mask.type(1), _resized(builder, lane, mask.type))
        mask = builder.select(builder.icmp_unsigned("==", mask, mask.type(0)), own, mask)
        shift = builder.zext(builder.and_(first, i32(63)), i64)
        lanes = builder.shl(_resized(builder, mask, i64), shift)
    function = declare(builder.module, WARP_BARRIER, ir.FunctionType(ir.VoidType(), [i64, i32]))
    for attribute in ("convergent", "nounwind"):
        function.attributes.add(attribute)
    builder.call(function, [lanes, place])


def shuffle(
    target: Any, builder: Any, mask: Any, value: Any, kind: str, number: Any, place: int
) -> Any:
    """What another lane gives as `value`; `kind` and `number` say which one."""
    name = f"haulage.shuffle.{kind}.{value.type.width}.{target.warp_size}"
    return _exchange(target, builder, name, value.type, (mask, value, number), place)


def match(
    target: Any, builder: Any, mask: Any, value: Any, wanted: Any, place: int
) -> tuple[Any, Any]:
    """(lanes of `mask` whose `value` is this lane's `wanted`, lanes of `mask` that are there); a
    mask that is None stands for the lanes that are here."""
    from llvmlite import ir

    lanes = ir.IntType(target.warp_size)
    word, given = ("meet", ()) if mask is None else ("match", (mask,))
    name = f"haulage.{word}.{value.type.width}.{target.warp_size}"
    both = ir.LiteralStructType((lanes, lanes))
    found = _exchange(target, builder, name, both, (*given, value, wanted), place)
    return builder.extract_value(found, 0), builder.extract_value(found, 1)


def here(target: Any, builder: Any, place: int) -> Any:
    """The lanes that are at this place now."""
    from llvmlite import ir

    zero = ir.IntType(32)(0)
    return match(target, builder, None, zero, zero, place)[1]


def vote(target: Any, builder: Any, mask: Any, kind: str, truth: Any, place: int) -> Any:
    """What the lanes of `mask` make of their truths, by the masks of those that vote for it and of
    those that are there."""
    from llvmlite import ir

    i32 = ir.IntType(32)
    true, there = match(target, builder, mask, builder.zext(truth, i32), i32(1), place)
    if kind == "ballot":
        return true
    if kind == "any":
        return builder.icmp_unsigned("!=", true, true.type(0))
    every = builder.icmp_unsigned("==", true, there)
    if kind == "all":
        return every
    return builder.or_(every, builder.icmp_unsigned("==", true, true.type(0)))


def _exchange(
    target: Any, builder: Any, name: str, result: Any, given: tuple[Any, ...], place: int
) -> Any:
    from llvmlite import ir

    first, lane = place_in_warp(target, builder)
    values = (builder.or_(first, lane), *given, ir.IntType(32)(place))
    kind = ir.FunctionType(result, [value.type for value in values])
    function = declare(builder.module, name, kind)
    for attribute in ("convergent", "nounwind"):
        function.attributes.add(attribute)
    return builder.call(function, values)


# All names of exchanges, those with one lane's answer and those with two masks.
SHUFFLE_NAMES = frozenset(
    f"haulage.shuffle.{kind}.{bits}.{lanes}"
    for kind, bits, lanes in product(SHUFFLES, (32, 64), (32, 64))
)
MATCH_NAMES = frozenset(
    f"haulage.{word}.{bits}.{lanes}"
    for word, bits, lanes in product(("match", "meet"), (32, 64), (32, 64))
)
COLLECTIVES = SHUFFLE_NAMES | MATCH_NAMES


def definition(target: Any, name: str) -> str:
    """A module of LLVM's language that defines the exchange `name` for lanes that come to it one
    by one."""
    from llvmlite import ir

    word, *kind, bits, lanes = name.split(".")[1:]
    module = ir.Module(name)
    module.triple, module.data_layout = target.triple, target.data_layout
    i32, value, mask = ir.IntType(32), ir.IntType(int(bits)), ir.IntType(int(lanes))
    masks = [] if word == "meet" else [mask]
    result = value if word == "shuffle" else ir.LiteralStructType((mask, mask))
    other = i32 if word == "shuffle" else value
    function = ir.Function(module, ir.FunctionType(result, [i32, *masks, value, other, i32]), name)
    function.attributes.add("alwaysinline")
    builder = ir.IRBuilder(function.append_basic_block())
    thread, *given, place = function.args
    warp = _Warp(int(lanes), thread, builder)
    if word == "shuffle":
        builder.ret(_shuffle_alone(warp, given[0], given[1], kind[0], given[2], place))
    else:
        named = None if word == "meet" else given[0]
        equal, here = _match_alone(warp, named, given[-2], given[-1], place)
        both = builder.insert_value(ir.Constant(result, ir.Undefined), equal, 0)
        builder.ret(builder.insert_value(both, here, 1))
    return str(module)


class _Warp:
    """The warp of a thread in a function that is given its number."""

    def __init__(self, warp_size: int, thread: Any, builder: Any) -> None:
        self.warp_size, self.builder = warp_size, builder
        self.first, self.lane = _parts(warp_size, builder, thread)


def _shuffle_alone(warp: _Warp, mask: Any, value: Any, kind: str, number: Any, place: Any) -> Any:
    builder = warp.builder
    first, own = warp.first, warp.lane
    size = own.type(warp.warp_size)
    lane, inside = {
        "lane": lambda: (number, None),
        "xor": lambda: (builder.xor(own, number), None),
        "up": lambda: (builder.sub(own, number), builder.icmp_unsigned(">=", own, number)),
        "down": lambda: (
            chosen := builder.add(own, number),
            builder.icmp_unsigned("<", chosen, size),
        ),
    }[kind]()
    if inside is not None:
        lane = builder.select(inside, lane, own)
    builder.store(value, _slot(builder, first, own, value.type))
    _wait(builder, first, own, mask, place)
    result = builder.load(_slot(builder, first, lane, value.type), typ=value.type)
    _wait(builder, first, own, mask, place)
    return result


def _match_alone(warp: _Warp, mask: Any, value: Any, wanted: Any, place: Any) -> tuple[Any, Any]:
    from llvmlite import ir

    builder, first, own = warp.builder, warp.first, warp.lane
    i32, lanes = ir.IntType(32), ir.IntType(warp.warp_size)
    builder.store(value, _slot(builder, first, own, value.type))
    builder.store(place, _stamp(builder, first, own))
    # Through memory go what the comparison starts from and what comes of it: LLVM would else keep
    # vectors over the barriers, where coroutines have no room for them that is aligned.
    places = [_answer(builder, first, own, number) for number in (0, 1)]
    builder.store(wanted, places[0])
    _wait(builder, first, own, mask, place)
    wanted = builder.load(places[0], typ=wanted.type)
    stamps = builder.load(_stamp(builder, first, i32(0)), align=STAMP_BYTES, typ=_vector(warp, i32))
    if mask is None:
        there = builder.icmp_unsigned("==", stamps, _all_lanes(warp, builder, place))
    else:
        there = builder.icmp_unsigned("!=", stamps, _all_lanes(warp, builder, i32(0)))
    here = builder.bitcast(there, lanes)
    if mask is not None:
        here = builder.and_(here, mask)
    slots = _slot(builder, first, i32(0), value.type)
    values = builder.load(slots, align=value.type.width // 8, typ=_vector(warp, value.type))
    same = builder.icmp_unsigned("==", values, _all_lanes(warp, builder, wanted))
    equal = builder.and_(builder.bitcast(same, lanes), here)
    for answer, at in zip((equal, here), places, strict=True):
        builder.store(answer, at)
    # Those that are here are no more than who came; they go on together.
    _wait(builder, first, own, here if mask is None else mask, place)
    builder.store(i32(0), _stamp(builder, first, own))
    equal, here = (builder.load(at, typ=lanes) for at in places)
    return equal, here


def _resized(builder: Any, value: Any, kind: Any) -> Any:
    return value if value.type == kind else builder.zext(value, kind)


def _vector(warp: _Warp, element: Any) -> Any:
    from llvmlite import ir

    return ir.VectorType(element, warp.warp_size)


def _all_lanes(warp: _Warp, builder: Any, value: Any) -> Any:
    """A vector with `value` for each lane."""
    from llvmlite import ir

    vector = _vector(warp, value.type)
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
    nothing = ir.Constant(_vector(warp, ir.IntType(32)), None)
    return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), nothing)


def _stamp(builder: Any, first: Any, lane: Any) -> Any:
    """The address of a lane's stamp."""
    return _at(builder, builder.mul(builder.add(first, lane), first.type(STAMP_BYTES)))


def _slot(builder: Any, first: Any, lane: Any, kind: Any) -> Any:
    """The address of a lane's slot for a value of `kind`; those of a warp follow one another."""
    width = kind.width // 8
    start = first.type(FIRST_SLOT[width])
    offset = builder.mul(builder.add(first, lane), first.type(width))
    return _at(builder, builder.add(start, offset))


def _answer(builder: Any, first: Any, lane: Any, number: int) -> Any:
    """The address of one of a lane's two answers."""
    thread = builder.add(first, lane)
    start = first.type(FIRST_ANSWER + number * ANSWER_BYTES)
    return _at(builder, builder.add(builder.mul(thread, first.type(2 * ANSWER_BYTES)), start))


def _at(builder: Any, offset: Any) -> Any:
    from llvmlite import ir

    room = shared_room(builder, WARP_ROOM, ROOM_BYTES, 64)
    offset = builder.zext(offset, ir.IntType(64))
    return builder.gep(room, [offset], inbounds=True, source_etype=ir.IntType(8))
