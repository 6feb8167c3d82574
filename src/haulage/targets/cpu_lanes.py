"""How the lanes of a warp exchange values on the CPU: through a room of their block.

A lane writes its value to its slot, waits for the others, reads theirs, and waits again before any
of them may write anew. What tells who is there is a stamp of each lane: the place (never 0) of the
exchange that it takes part in, and 0 again behind it. Blocks begin with all stamps 0.
"""

from typing import Any

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
    last = thread.type(target.warp_size - 1)
    return builder.and_(thread, thread.type(~(target.warp_size - 1))), builder.and_(thread, last)


def wait(target: Any, builder: Any, mask: Any, place: int) -> None:
    """A barrier of the lanes in `mask`; None: as soon as the others of the warp cannot go on."""
    from llvmlite import ir

    i32, i64 = ir.IntType(32), ir.IntType(64)
    first, lane = place_in_warp(target, builder)
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
    builder.call(function, [lanes, i32(place)])


def shuffle(target: Any, builder: Any, mask: Any, value: Any, lane: Any, place: int) -> Any:
    """What the lane numbered `lane` gives as `value`."""
    first, own = place_in_warp(target, builder)
    builder.store(value, _slot(builder, first, own, value.type))
    wait(target, builder, mask, place)
    result = builder.load(_slot(builder, first, lane, value.type), typ=value.type)
    wait(target, builder, mask, place)
    return result


def match(
    target: Any, builder: Any, mask: Any, value: Any, wanted: Any, place: int
) -> tuple[Any, Any]:
    """(lanes of `mask` whose `value` is this lane's `wanted`, lanes of `mask` that are there)."""
    from llvmlite import ir

    i32, lanes = ir.IntType(32), ir.IntType(target.warp_size)
    first, own = place_in_warp(target, builder)
    builder.store(value, _slot(builder, first, own, value.type))
    builder.store(i32(place), _stamp(builder, first, own))
    # Through memory go what the comparison starts from and what comes of it: LLVM would else keep
    # vectors over the barriers, where coroutines have no room for them that is aligned.
    places = [_answer(builder, first, own, number) for number in (0, 1)]
    builder.store(wanted, places[0])
    wait(target, builder, mask, place)
    wanted = builder.load(places[0], typ=wanted.type)
    stamps = builder.load(
        _stamp(builder, first, i32(0)), align=STAMP_BYTES, typ=_vector(target, i32)
    )
    if mask is None:
        there = builder.icmp_unsigned("==", stamps, _all_lanes(target, builder, i32(place)))
    else:
        there = builder.icmp_unsigned("!=", stamps, _all_lanes(target, builder, i32(0)))
    here = builder.bitcast(there, lanes)
    if mask is not None:
        here = builder.and_(here, mask)
    slots = _slot(builder, first, i32(0), value.type)
    values = builder.load(slots, align=value.type.width // 8, typ=_vector(target, value.type))
    same = builder.icmp_unsigned("==", values, _all_lanes(target, builder, wanted))
    equal = builder.and_(builder.bitcast(same, lanes), here)
    for answer, at in zip((equal, here), places, strict=True):
        builder.store(answer, at)
    # Those that are here are no more than who came; they go on together.
    wait(target, builder, here if mask is None else mask, place)
    builder.store(i32(0), _stamp(builder, first, own))
    equal, here = (builder.load(at, typ=lanes) for at in places)
    return equal, here


def _resized(builder: Any, value: Any, kind: Any) -> Any:
    return value if value.type == kind else builder.zext(value, kind)


def _vector(target: Any, element: Any) -> Any:
    from llvmlite import ir

    return ir.VectorType(element, target.warp_size)


def _all_lanes(target: Any, builder: Any, value: Any) -> Any:
    """A vector with `value` for each lane."""
    from llvmlite import ir

    vector = _vector(target, value.type)
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
    nothing = ir.Constant(_vector(target, ir.IntType(32)), None)
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
