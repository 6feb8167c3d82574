"""The scheduler of a block whose threads are coroutines, and that of its wavefronts.

In each round wavefronts settle and those that gave way go on, until none can do more by itself.
What is left has ended or is at a barrier of the block or the grid: all go on, the block waits for
the grid (`cooperative_grid.py`), or it ends. If some wait at a barrier that misses others which
have ended (`exits.py`), those can never go on: that is the barrier's fault.

A wavefront of 64 threads, which may be two warps, is run until it can do no more. A thread waits
for the lanes of a mask: once all of these that have not ended wait for the same mask, they are
resumed. So a wavefront waits at more barriers than another, or at none. When no mask is complete,
the threads that wait without one (mask 0: for whoever comes to this place) have met all that can
come, and those at the first such place, in the order of `barriers.in_order`, go on: they converge
there. What is left in the end waits for something else, or for threads that never come.
"""

from dataclasses import replace
from math import prod
from typing import NamedTuple

from haulage.compiler.numbers import BITS
from haulage.compiler.simt.analysis.barriers import WAVE_BARRIERS, barriers
from haulage.compiler.simt.analysis.kernel import Body, Storage
from haulage.compiler.simt.coroutines import spin_loops
from haulage.compiler.simt.coroutines.cooperative_grid import OWNED_AT, YIELDS, Frame
from haulage.compiler.simt.emit.block_function import (
    allocate_private,
    allocate_shared,
    block_parameters,
    clear,
    heap_free,
    thread_arguments,
)
from haulage.compiler.simt.emit.loop_nest import index_of
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Function
from haulage.compiler.simt.ir.writer import definition
from haulage.targets.cpu import PAUSE, WAVE_SIZE

THREAD = "haulage.thread"
_WAVE = "haulage.wave"

# A thread's state: negative when a fault ended it (minus the fault's number), zero when it ended,
# positive where it waits: the fault number of a barrier of the block; with a mark that of one of
# the grid or of a wavefront; or `YIELDED` where it gave way.
GRID_MARK = 1 << BITS
WAVE_MARK = 2 * GRID_MARK
YIELDED = 3 * GRID_MARK
_LIVING = 1

# Where a block goes on that waited for the grid, or gave way to others: states of its frame.
_AT_GRID, _GAVE_WAY = 1, 2


class _Word(NamedTuple):
    """A word that a thread leaves as `own` for the scheduler, which has all of them in an array."""

    own: str
    type: str
    nbytes: int
    all: str


_STATE = _Word("%state", "i32", 4, "%states")
# The lanes that a thread waits for, and the rank of the place that it waits at.
_LANES = _Word("%lanes", "i64", 8, "%all.lanes")
_RANK = _Word("%rank", "i64", 8, "%ranks")
_HANDLE = _Word("", "ptr", 8, "%handles")


_WORDS = (_HANDLE, _STATE, _LANES, _RANK)

# Masks of a block: of the barriers that miss a thread, and of those at which others wait now.
_MASKS = "{ i64, i64 }"
WAITING_AT = 8
_MASK_BYTES = 16

# The parameters by which a thread is given places for what it leaves.
THREAD_PARAMETERS = (*(("ptr", word.own) for word in _WORDS if word.own), ("ptr", "%participation"))


def leave(b: Builder, state: str) -> None:
    """Leave a thread's state."""
    b.store("i32", state, _STATE.own)


def wait_for(b: Builder, lanes: str, rank: int) -> None:
    """Leave which lanes, a mask, a thread waits for at the place of a rank."""
    b.store("i64", lanes, _LANES.own)
    b.store("i64", str(rank), _RANK.own)


def write(body: Body, block: tuple[int, int, int], cooperative: bool) -> list[str]:
    """LLVM text of the block function, and of what belongs to it."""
    scheduler = _Scheduler(body, block, cooperative)
    made = [f"declare i32 @{PAUSE}()", definition(scheduler.function())]
    if barriers(body.function, WAVE_BARRIERS):
        made.append(definition(_wave()))
    return [*made, scheduler.frame.text()] if scheduler.frame else made


class _Scheduler:
    """Writes the block function."""

    def __init__(self, body: Body, block: tuple[int, int, int], cooperative: bool) -> None:
        self._body = body
        self._block = block
        self._threads = prod(block)
        # What the scheduler keeps stands beside the block's shared arrays, for whole wavefronts.
        self._room = -(-self._threads // WAVE_SIZE) * WAVE_SIZE
        own = [
            *(Storage(each.all, self._room * each.nbytes, 64) for each in _WORDS),
            Storage("%participation", _MASK_BYTES, 8),
        ]
        self._memory = replace(body, shared=(*body.shared, *own))
        self.frame = Frame(self._memory, self._threads) if cooperative else None
        parameters = self.frame.parameters() if self.frame else block_parameters(body)
        self._b = Builder("haulage.block", parameters, "i32", "noinline")

    def function(self) -> Function:
        b, body = self._b, self._body
        b.block("%block.start")
        b.allocate("ptr", name="%ret")
        if self.frame is None:
            b.allocate("ptr", name="%frames")
            allocate_shared(b, self._memory, self._threads)
            allocate_private(b, self._memory, self._threads)
        else:
            b.at("i8", "%frame", OWNED_AT, "%frames")
            self.frame.fixed(b, ())
            self.frame.resume(b, [(_AT_GRID, "%round"), (_GAVE_WAY, "%schedule")])
        _open_masks(b)
        self._start()
        b.jump("%schedule")
        b.block("%schedule")
        if barriers(body.function, WAVE_BARRIERS):
            self._run_waves()
        first, last = self._states()
        place = b.binary("and", "i32", last, str(GRID_MARK - 1))
        if spin_loops.has_yields(body.function):
            self._resume_yielded(first, last)
        self._judge(first, last, place)
        b.block("%round")
        self._resume_from(_LIVING)
        b.jump("%schedule")
        b.block("%finish")
        # A missed barrier is only the echo of what stopped a thread.
        has_failed = b.compare("slt", "i32", first, "0")
        result = b.select(has_failed, "i32", b.binary("sub", "i32", "0", first), place)
        if self.frame is None:
            heap_free(b, b.load("ptr", "%frames"))
        b.ret("i32", result)
        return b.function

    def _start(self) -> None:
        """Run every thread to its first barrier."""
        b, body = self._b, self._body
        if self._room > self._threads:
            # Threads that a wavefront lacks have ended.
            rest = self._room - self._threads
            clear(b, b.at("i32", _STATE.all, self._threads), 0, 4 * rest)
        with b.loop("thread", self._threads) as loop:
            linear = loop.index
            handle_at, *places = self._words_of(linear)
            index = index_of(b, self._block, b.cast("trunc", "i64", linear, "i32"))
            arguments = [
                *thread_arguments(b, body, self._block, index, linear),
                ("i64", linear),
                ("ptr", "%frames"),
                *(("ptr", place) for place in places),
                ("ptr", "%participation"),
            ]
            b.store("ptr", b.call("ptr", THREAD, arguments), handle_at)

    def _run_waves(self) -> None:
        """Run each wavefront until it can do no more by itself."""
        b = self._b
        with b.loop("wave", self._room, step=WAVE_SIZE) as loop:
            b.call("void", _WAVE, [("ptr", place) for place in self._words_of(loop.index)])

    def _words_of(self, index: str) -> list[str]:
        """Where the words of the thread with an index are."""
        return [self._b.at(word.type, word.all, index) for word in _WORDS]

    def _states(self) -> tuple[str, str]:
        """The smallest and the largest state of the threads, or 0 if they are on one side of it."""
        b = self._b
        with b.loop("each", self._threads) as loop:
            first, last = loop.carry("i32", "0", "first"), loop.carry("i32", "0", "last")
            state = b.load("i32", b.at("i32", _STATE.all, loop.index))
            first = loop.set(first, b.extremum("smin", "i32", first, state))
            last = loop.set(last, b.extremum("smax", "i32", last, state))
        return first, last

    def _resume_from(self, state: int) -> str:
        """Resume all threads that are in a state or a larger one; whether any is no more."""
        b = self._b
        with b.loop("resume", self._threads) as loop:
            moves = loop.carry("i1", "false", "moves")
            state_at = b.at("i32", _STATE.all, loop.index)
            is_in = b.compare("sge", "i32", b.load("i32", state_at), str(state))
            with b.when(is_in, "resume.thread"):
                _resume(b, loop.index)
            has_left = b.compare("slt", "i32", b.load("i32", state_at), str(state))
            moves = loop.set(moves, b.select(is_in, "i1", has_left, moves))
        return moves

    def _resume_yielded(self, first: str, last: str) -> None:
        """Resume those that gave way, round by round until none does any more.

        If none of them came any further in such a round, only another block can help, or a thread
        that runs on another core: then the core is given away, or in a grid whose blocks are
        suspended the whole block gives way. If a thread has failed by then, nobody is waited for
        any more.
        """
        b = self._b
        b.branch(b.compare("eq", "i32", last, str(YIELDED)), "%yielded", "%judge")
        b.block("%yielded")
        b.branch(self._resume_from(YIELDED), "%schedule", "%none.moves")
        b.block("%none.moves")
        b.branch(b.compare("slt", "i32", first, "0"), "%finish", "%idle")
        b.block("%idle")
        if self.frame:
            self.frame.wait(b, _GAVE_WAY, YIELDS)
        else:
            b.call("i32", PAUSE, [])
            b.jump("%schedule")
        b.block("%judge")

    def _judge(self, first: str, last: str, place: str) -> None:
        """All go on if they wait at barriers of the block that miss nobody. The block waits for the
        grid if all do that have not ended; if only some do, it can never go on."""
        b = self._b
        waiting, missed = _look(b)
        if self.frame:
            beyond = b.binary("sub", "i32", last, str(GRID_MARK))
            for_grid = b.compare("ult", "i32", beyond, str(WAVE_MARK - GRID_MARK))
            none_before = b.compare("eq", "i64", waiting, "0")
            all_wait = b.binary("and", "i1", for_grid, none_before)
            b.branch(all_wait, "%all.for.grid", "%none.for.grid")
            b.block("%all.for.grid")
            self.frame.wait(b, _AT_GRID, place)
            b.block("%none.for.grid")
        goes_on = b.compare("ult", "i32", last, str(GRID_MARK))
        for condition in (
            b.compare("sgt", "i32", last, "0"),
            b.compare("sge", "i32", first, "0"),
            b.compare("eq", "i64", missed, "0"),
        ):
            goes_on = b.binary("and", "i1", goes_on, condition)
        b.branch(goes_on, "%round", "%finish")


def _open_masks(b: Builder) -> None:
    """The masks of a block: nobody waits at first and nobody has ended."""
    b.store(_MASKS, "zeroinitializer", "%participation")


def _look(b: Builder) -> tuple[str, str]:
    """(the barriers at which threads of a block wait, those of them that miss a thread); from then
    on nobody waits at any."""
    waiting_at = b.at("i8", "%participation", WAITING_AT)
    missing, waiting = b.load("i64", "%participation"), b.load("i64", waiting_at)
    b.store("i64", "0", waiting_at)
    return waiting, b.binary("and", "i64", missing, waiting)


# ---- a wavefront --------------------------------------------------------------------------------


def _wave() -> Function:
    """The function that runs one wavefront until it can do no more by itself.

    Sets of its threads are numbers with a bit for each.
    """
    b = Builder(_WAVE, [("ptr", word.all) for word in _WORDS])
    b.block("%start")
    b.jump("%look")
    b.block("%look")
    states, lanes, ranks = (
        b.load(f"<{WAVE_SIZE} x {word.type}>", word.all, 64) for word in (_STATE, _LANES, _RANK)
    )
    living = _set(b, "sge", "i32", states, str(_LIVING))
    beyond = _set(b, "sge", "i32", states, str(YIELDED))
    waiting = b.binary("xor", "i64", _set(b, "sge", "i32", states, str(WAVE_MARK)), beyond)
    b.branch(b.compare("eq", "i64", waiting, "0"), "%done", "%group")

    # Threads that wait for one mask are a group; complete ones go on.
    b.block("%group")
    with b.repeat("groups") as loop:
        left, ready = loop.carry("i64", waiting, "left"), loop.carry("i64", "0", "ready")
        mask = b.load("i64", b.at("i64", _LANES.all, _first(b, left)))
        group = b.binary("and", "i64", left, _set(b, "eq", "i64", lanes, mask))
        others = b.binary("xor", "i64", group, "-1")
        missing = b.binary("and", "i64", b.binary("and", "i64", mask, living), others)
        has_mask = b.compare("ne", "i64", mask, "0")
        is_complete = b.binary("and", "i1", has_mask, b.compare("eq", "i64", missing, "0"))
        complete = b.select(is_complete, "i64", group, "0")
        ready = loop.set(ready, b.binary("or", "i64", ready, complete))
        left = loop.set(left, b.binary("and", "i64", left, others))
        loop.more = b.compare("ne", "i64", left, "0")

    # Where no mask is complete those at the first place that has none converge.
    without = b.binary("and", "i64", waiting, _set(b, "eq", "i64", lanes, "0"))
    bits = b.cast("bitcast", "i64", b.binary("xor", "i64", without, "-1"), f"<{WAVE_SIZE} x i1>")
    vector = f"<{WAVE_SIZE} x i64>"
    last = b.cast("sext", f"<{WAVE_SIZE} x i1>", bits, vector)
    places = b.binary("or", vector, ranks, last)
    place = b.call("i64", f"llvm.vector.reduce.umin.v{WAVE_SIZE}i64", [(vector, places)])
    met = b.binary("and", "i64", without, _set(b, "eq", "i64", places, place))
    going = b.select(b.compare("eq", "i64", ready, "0"), "i64", met, ready)
    b.branch(b.compare("eq", "i64", going, "0"), "%done", "%resume")

    b.block("%resume")
    with b.repeat("next", "%again") as loop:
        left = loop.carry("i64", going, "going")
        _resume(b, _first(b, left))
        lower = b.binary("sub", "i64", left, "1")
        left = loop.set(left, b.binary("and", "i64", left, lower))
        loop.more = b.compare("ne", "i64", left, "0")
    b.jump("%look")
    b.block("%done")
    b.ret()
    return b.function


def _resume(b: Builder, index: str) -> None:
    """Resume the thread with an index."""
    handle = b.load("ptr", b.at("ptr", _HANDLE.all, index))
    b.call("void", "llvm.coro.resume", [("ptr", handle)])


def _set(b: Builder, predicate: str, kind: str, values: str, number: str) -> str:
    """The set of the threads whose value compares to a number."""
    vector = f"<{WAVE_SIZE} x {kind}>"
    compared = b.compare(predicate, vector, values, b.splat(WAVE_SIZE, kind, number))
    return b.cast("bitcast", f"<{WAVE_SIZE} x i1>", compared, "i64")


def _first(b: Builder, threads: str) -> str:
    """The lowest thread of a set that is not empty."""
    return b.call("i64", "llvm.cttz.i64", [("i64", threads), ("i1", "true")])
