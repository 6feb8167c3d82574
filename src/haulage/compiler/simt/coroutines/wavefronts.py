"""The scheduler of a wavefront: how coroutines pass the barriers of their wavefronts and warps.

Between two barriers of the block each wavefront of 64 threads, which may be two warps, is run until
it can do no more by itself. A thread waits for the lanes of a mask: once all of these that have not
ended wait for the same mask, they are resumed. So a wavefront waits at more barriers than another,
or at none. When no mask is complete, the threads that wait without one (mask 0: for whoever comes
to this place) have met all that can come, and those at the first such place, in the order of
`barriers.in_order`, go on: they converge there. What is left in the end is at a barrier of the
block, has ended, or waits for threads that never come.
"""

from haulage.compiler.numbers import BITS
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Function
from haulage.targets.cpu import WAVE_SIZE

# What a thread waits for: its mask, and the rank of the place that it waits at.
WAIT = "{ i64, i64 }"
_RANK_AT = 8
# A rank is that of the place's block, times this, and the barrier's place there.
MOST_IN_BLOCK = 1 << 20

# Added to the fault number in the state of a thread that waits for its wavefront or for lanes. From
# `BEYOND` on threads wait for something else.
MARK = 1 << 30
BEYOND = MARK + (1 << BITS)

_FUNCTION = "haulage.wave"


def wait_for(b: Builder, wait: str, lanes: str, rank: int) -> None:
    """Note in a thread's `wait` that it waits for lanes, a mask, at the place of a rank."""
    b.store("i64", lanes, wait)
    b.store("i64", str(rank), b.at("i8", wait, _RANK_AT))


def run_all(b: Builder, threads: int) -> None:
    """Run each wavefront of a block, whose threads have `%states`, `%waits` and `%handles`."""
    with b.loop("wave", threads, step=WAVE_SIZE) as loop:
        left = b.binary("sub", "i64", str(threads), loop.index, "nuw", "nsw")
        arrays = [
            ("ptr", b.at(kind, array, loop.index))
            for kind, array in (("i32", "%states"), (WAIT, "%waits"), ("ptr", "%handles"))
        ]
        b.call(
            "void", _FUNCTION, [*arrays, ("i64", b.extremum("umin", "i64", left, str(WAVE_SIZE)))]
        )


def scheduler() -> Function:
    """The function that runs one wavefront until it can do no more.

    Sets of its threads are numbers with a bit for each.
    """
    parameters = [("ptr", "%states"), ("ptr", "%waits"), ("ptr", "%handles"), ("i64", "%threads")]
    b = Builder(_FUNCTION, parameters)
    b.block("%start")
    b.jump("%look")
    b.block("%look")
    with b.loop("count", "%threads") as loop:
        living, waiting = loop.carry("i64", "0", "living"), loop.carry("i64", "0", "waiting")
        state = b.load("i32", b.at("i32", "%states", loop.index))
        is_alive = b.compare("sgt", "i32", state, "0")
        living = loop.set(living, _with(b, living, is_alive, loop.index))
        waiting = loop.set(waiting, _with(b, waiting, _waits(b, state), loop.index))
    b.branch(b.compare("eq", "i64", waiting, "0"), "%done", "%group")

    # Threads that wait for one mask are a group; complete ones go on.
    b.block("%group")
    with b.repeat("groups") as loop:
        left, ready = loop.carry("i64", waiting, "left"), loop.carry("i64", "0", "ready")
        mask = b.load("i64", b.at(WAIT, "%waits", _first(b, left)))
        with b.loop("compare", "%threads") as inner:
            alike = inner.carry("i64", "0", "alike")
            other = b.load("i64", b.at(WAIT, "%waits", inner.index))
            is_same = b.compare("eq", "i64", other, mask)
            alike = inner.set(alike, _with(b, alike, is_same, inner.index))
        group = b.binary("and", "i64", alike, left)
        others = b.binary("xor", "i64", group, "-1")
        missing = b.binary("and", "i64", b.binary("and", "i64", mask, living), others)
        has_mask = b.compare("ne", "i64", mask, "0")
        is_complete = b.binary("and", "i1", has_mask, b.compare("eq", "i64", missing, "0"))
        complete = b.select(is_complete, "i64", group, "0")
        ready = loop.set(ready, b.binary("or", "i64", ready, complete))
        left = loop.set(left, b.binary("and", "i64", left, others))
        loop.more = b.compare("ne", "i64", left, "0")
    chosen = b.current
    b.branch(b.compare("eq", "i64", ready, "0"), "%meet", "%resume")

    # No mask is complete: those at the first place that has none converge.
    b.block("%meet")
    with b.loop("places", "%threads") as loop:
        first, met = loop.carry("i64", "-1", "first"), loop.carry("i64", "0", "met")
        wait = b.at(WAIT, "%waits", loop.index)
        state = b.load("i32", b.at("i32", "%states", loop.index))
        has_none = b.compare("eq", "i64", b.load("i64", wait), "0")
        counts = b.binary("and", "i1", _waits(b, state), has_none)
        place = b.select(counts, "i64", b.load("i64", b.at("i8", wait, _RANK_AT)), "-1")
        is_before = b.compare("ult", "i64", place, first)
        met_so_far = b.select(is_before, "i64", "0", met)
        first = loop.set(first, b.select(is_before, "i64", place, first))
        is_there = b.compare("eq", "i64", place, first)
        joins = b.binary("and", "i1", counts, is_there)
        met = loop.set(met, _with(b, met_so_far, joins, loop.index))
    behind = b.current
    b.branch(b.compare("eq", "i64", met, "0"), "%done", "%resume")

    b.block("%resume")
    going = b.phi("i64", [(ready, chosen), (met, behind)])
    with b.repeat("next", "%again") as loop:
        left = loop.carry("i64", going, "going")
        resume(b, "%handles", _first(b, left))
        lower = b.binary("sub", "i64", left, "1")
        left = loop.set(left, b.binary("and", "i64", left, lower))
        loop.more = b.compare("ne", "i64", left, "0")
    b.jump("%look")
    b.block("%done")
    b.ret()
    return b.function


def resume(b: Builder, handles: str, index: str) -> None:
    """Resume the thread whose coroutine's handle is an element of an array."""
    handle = b.load("ptr", b.at("ptr", handles, index))
    b.call("void", "llvm.coro.resume", [("ptr", handle)])


def _waits(b: Builder, state: str) -> str:
    """Whether a thread in a state waits for its wavefront or for lanes."""
    return b.compare("ult", "i32", b.binary("sub", "i32", state, str(MARK)), str(BEYOND - MARK))


def _with(b: Builder, threads: str, condition: str, index: str) -> str:
    """A set of threads, with one more where a condition holds."""
    bit = b.binary("shl", "i64", b.cast("zext", "i1", condition, "i64"), index, "nuw")
    return b.binary("or", "i64", threads, bit)


def _first(b: Builder, threads: str) -> str:
    """The lowest thread of a set that is not empty."""
    return b.call("i64", "llvm.cttz.i64", [("i64", threads), ("i1", "true")])
