"""Coroutine lowering: a block function that runs every thread as an LLVM coroutine.

This takes any placement of barriers. The block's scheduler resumes the threads in turn, each until
its next barrier or its end; when all that have not ended wait, the next round begins. If some wait
at a barrier that misses others which have ended (`exits.py`), those can never go on: that is
the barrier's fault. Barriers of wavefronts and warps are passed in between (`wavefronts.py`), and
threads that wait for a write of another one let others go first (`spin_loops.py`).

Where all threads of the block wait for the grid, the block does (`cooperative_grid.py`).
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from math import prod

from haulage.compiler import llvm
from haulage.compiler.simt.analysis import exits
from haulage.compiler.simt.analysis.barriers import (
    BARRIERS,
    GRID_BARRIERS,
    WAVE_BARRIERS,
    barriers,
    in_order,
    lanes_of,
    place_of,
)
from haulage.compiler.simt.analysis.exits import is_observable, return_code
from haulage.compiler.simt.analysis.kernel import Body, Storage
from haulage.compiler.simt.coroutines import participation, spin_loops, wavefronts
from haulage.compiler.simt.coroutines.cooperative_grid import OWNED_AT, YIELDS, Frame
from haulage.compiler.simt.emit.block_function import (
    HEAP_ALIGN,
    allocate_private,
    allocate_shared,
    block_parameters,
    heap_allocate,
    heap_free,
    thread_arguments,
)
from haulage.compiler.simt.emit.loop_nest import index_of
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Block, Function, Instruction
from haulage.compiler.simt.ir.writer import definition
from haulage.compiler.simt.loops.block_atomics import expanded
from haulage.targets.base import Target
from haulage.targets.cpu import BARRIER, GRID_BARRIER, PAUSE, YIELD
from haulage.targets.cpu_lanes import COLLECTIVES
from haulage.targets.cpu_lanes import definition as collective

# A thread's state: positive at a barrier (its fault number, at one of a wavefront with
# `wavefronts.MARK`, at one of the grid with `GRID_MARK`) or where it gave way (`YIELDED`),
# zero when it ended, negative when a fault ended it (minus the fault's number).
GRID_MARK = 1 << 29
YIELDED = wavefronts.BEYOND
_MOST = 2**31 - 1

# Where a block goes on that waited for the grid, or gave way to others: states of its frame.
_AT_GRID, _GAVE_WAY = 1, 2

_THREAD = "haulage.thread"
# Labels: where a coroutine has ended, and where it returns to who called or resumed it.
_FINAL, _SUSPENDED = "%coroutine.final", "%coroutine.suspended"
_ID, _HANDLE = "%coroutine.id", "%coroutine"
_DECLARATION = f"declare i32 @{PAUSE}()"


def without_collectives(text: str, target: Target) -> str:
    """A cleaned-up module whose warp collectives are written out for lanes that come to them one
    by one, as coroutines do: they wait for each other at barriers of warps
    (`targets/cpu_lanes.py`)."""
    names = [name for name in sorted(COLLECTIVES) if f"@{name}(" in text]
    if not names:
        return text
    module = llvm.parse(text)
    for name in names:
        module.link_in(llvm.parse(collective(target, name)))
        module.get_function(name).linkage = "internal"
    llvm.run_passes(module, target, "always_inliner", "instruction_combine", "instruction_namer")
    return str(module)


def write(body: Body, block: tuple[int, int, int], cooperative: bool) -> str:
    """LLVM text of `@haulage.block` and its thread coroutine for one block size (x, y, z);
    `cooperative` if it may be suspended as a whole, as `cooperative_grid.py` says."""
    kept = participation.of(body.function, body.has_ends)
    texts = [_DECLARATION, *([kept.table()] if kept else [])]
    texts.append(definition(_Thread(body, prod(block), cooperative, kept).function()))
    if barriers(body.function, WAVE_BARRIERS):
        texts.append(definition(wavefronts.scheduler()))
    return "\n\n".join([*texts, *_Scheduler(body, block, cooperative, kept is not None).texts()])


# ---- the function of a thread -------------------------------------------------------------------


class _Thread:
    """Writes the coroutine of one thread, which leaves its state in memory when it is suspended."""

    def __init__(
        self, body: Body, threads: int, cooperative: bool, kept: participation.Participation | None
    ) -> None:
        self._body = body
        self._threads = threads
        self._cooperative = cooperative
        self._kept = kept
        self._ranks = {label: rank for rank, label in enumerate(in_order(body.function))}
        parameters = [
            *((parameter.type, parameter.name) for parameter in body.function.parameters),
            *(("ptr", array.name) for array in (*body.shared, *body.private)),
            ("i64", "%thread"),
            ("ptr", "%frames"),
            ("ptr", "%state"),
            *([("ptr", "%wait")] if barriers(body.function, WAVE_BARRIERS) else []),
            *([("ptr", "%participation")] if kept else []),
        ]
        self._b = Builder(_THREAD, parameters, "ptr", "presplitcoroutine", stem="coroutine")

    def function(self) -> Function:
        b, blocks = self._b, self._body.function.blocks
        self._begin()
        last: dict[str, str] = {}
        for block in blocks.values():
            b.block(block.label)
            b.extend(block.phis)
            self._write(block)
            last[block.label] = b.current
        self._end()
        for label in blocks:
            made = b.function.blocks[label]
            made.phis = [
                replace(phi, sources=tuple(last[source] for source in phi.sources))
                for phi in made.phis
            ]
        return b.function

    def _begin(self) -> None:
        """Begin the coroutine. The frames of all threads are one allocation, since only here it is
        known how large they are: thread 0 makes it and stores its address, and the block frees it.
        """
        b = self._b
        b.block("%coroutine.start")
        b.call("token", "llvm.coro.id", [("i32", "0"), *[("ptr", "null")] * 3], _ID)
        size = b.call("i64", "llvm.coro.size.i64", (), "coroutine.size")
        stride = b.round_up(size, HEAP_ALIGN, "coroutine.stride")
        with b.when(b.compare("eq", "i64", "%thread", "0"), "coroutine.first"):
            nbytes = b.binary("mul", "i64", stride, str(self._threads))
            frames = heap_allocate(b, HEAP_ALIGN, nbytes, owned=not self._cooperative)
            b.store("ptr", frames, "%frames")
        own = b.binary("mul", "i64", stride, "%thread")
        frame = b.at("i8", b.load("ptr", "%frames"), own)
        b.call("ptr", "llvm.coro.begin", [("token", _ID), ("ptr", frame)], _HANDLE)
        if self._kept:
            self._kept.begin(b)
        b.jump(self._body.function.entry)

    def _end(self) -> None:
        """The last blocks: nobody resumes a thread that has ended, and its frame is the block's."""
        b = self._b
        b.block(_FINAL)
        self._suspend("%coroutine.never", final=True)
        b.unreachable()
        b.block(_SUSPENDED)
        b.call("void", "llvm.coro.end", [("ptr", _HANDLE), ("i1", "false"), ("token", "none")])
        b.ret("ptr", _HANDLE)

    def _suspend(self, resumed: str, *, final: bool = False) -> None:
        """Return to who called or resumed the coroutine; it goes on in the block `resumed`."""
        b = self._b
        given = ("token", "none"), ("i1", str(final).lower())
        outcome = b.call("i8", "llvm.coro.suspend", given)
        b.switch("i8", outcome, _SUSPENDED, [(0, resumed), (1, _SUSPENDED)])
        b.block(resumed)

    def _write(self, block: Block) -> None:
        """What a block does behind its phis."""
        b, kept = self._b, self._kept
        told = False
        for number, item in enumerate(block.body):
            if item.callee == YIELD:
                self._wait_in(YIELDED)
            elif item.callee in BARRIERS:
                self._wait(item, block.label, number)
                told = told and item.callee != BARRIER
            else:
                b.extend(expanded(item))
                if kept and not told and is_observable(self._body.function, item):
                    kept.did(b)
                    told = True
        code = return_code(block)
        if code is not None:
            self._leave(code)
            return
        assert isinstance(block.terminator, Instruction)
        if kept:
            kept.step(b, block)
        b.add(block.terminator)

    def _wait(self, barrier: Instruction, label: str, number: int) -> None:
        """Wait at a barrier, the instruction with a number in the block `label`."""
        mark = GRID_MARK if barrier.callee == GRID_BARRIER else 0
        if barrier.callee in WAVE_BARRIERS:
            mark = wavefronts.MARK
            rank = self._ranks[label] * wavefronts.MOST_IN_BLOCK + number
            wavefronts.wait_for(self._b, "%wait", lanes_of(barrier), rank)
        if self._kept and barrier.callee == BARRIER:
            self._kept.wait(self._b, label)
        self._wait_in(mark + place_of(barrier))

    def _wait_in(self, state: int) -> None:
        self._b.store("i32", str(state), "%state")
        self._suspend(self._b.name("coroutine.resumed"))

    def _leave(self, code: str) -> None:
        """End the thread with a code."""
        b = self._b
        if self._kept:
            self._kept.leave(b, code)
            code, counted = exits.fault_of(code, b.fresh("fault"))
            b.extend(counted)
        b.store("i32", b.binary("sub", "i32", "0", code), "%state")
        b.jump(_FINAL)


# ---- the scheduler of a block -------------------------------------------------------------------


class _Scheduler:
    """Writes the block function, which runs its threads round by round.

    In each round the threads run, wavefronts settle, and those that gave way go on. Then they are
    counted by their states, and judged: all go on, the block waits for the grid, or it ends.
    """

    def __init__(
        self, body: Body, block: tuple[int, int, int], cooperative: bool, may_miss: bool
    ) -> None:
        self._body = body
        self._block = block
        self._threads = prod(block)
        self._may_miss = may_miss
        self._has_waves = bool(barriers(body.function, WAVE_BARRIERS))
        self._has_grid = bool(barriers(body.function, GRID_BARRIERS))
        self._yields = spin_loops.has_yields(body.function)
        # What the scheduler keeps stands beside the block's shared arrays.
        own = [
            Storage("%handles", 8 * self._threads, 64),
            Storage("%states", 4 * self._threads, 64),
            *([Storage("%waits", 16 * self._threads, 64)] if self._has_waves else []),
            *([Storage("%participation", participation.BYTES, 8)] if may_miss else []),
        ]
        self._memory = replace(body, shared=(*body.shared, *own))
        self._frame = Frame(self._memory, self._threads) if cooperative else None
        parameters = self._frame.parameters() if self._frame else block_parameters(body)
        self._b = Builder("haulage.block", parameters, "i32", "noinline")

    def texts(self) -> list[str]:
        """LLVM text of the block function, and of what belongs to its frame."""
        frame = [self._frame.text()] if self._frame else []
        return [*frame, definition(self._function())]

    def _function(self) -> Function:
        b, threads = self._b, self._threads
        b.block("%block.start")
        b.allocate("ptr", name="%ret")
        if self._frame is None:
            b.allocate("ptr", name="%frames")
            allocate_shared(b, self._memory, threads)
            allocate_private(b, self._memory, threads)
        else:
            b.at("i8", "%frame", OWNED_AT, "%frames")
            self._frame.fixed(b, ())
            self._frame.resume(b, [(_AT_GRID, "%round"), (_GAVE_WAY, "%schedule")])
        if self._may_miss:
            participation.open_block(b)
        self._start()
        b.jump("%schedule")
        b.block("%schedule")
        if self._has_waves:
            wavefronts.run_all(b, threads)
        if self._yields:
            self._resume_yielded()
        else:
            b.jump("%count")
        b.block("%count")
        first, place = self._judge()
        b.block("%round")
        self._round()
        b.jump("%schedule")
        self._end(first, place)
        return b.function

    def _start(self) -> None:
        """Run every thread to its first barrier."""
        b, body = self._b, self._body
        with b.loop("thread", self._threads) as loop:
            linear = loop.index
            index = index_of(b, self._block, b.cast("trunc", "i64", linear, "i32"))
            arguments = [
                *thread_arguments(b, body, self._block, index, linear),
                ("i64", linear),
                ("ptr", "%frames"),
                ("ptr", b.at("i32", "%states", linear)),
            ]
            if self._has_waves:
                arguments.append(("ptr", b.at(wavefronts.WAIT, "%waits", linear)))
            if self._may_miss:
                arguments.append(("ptr", "%participation"))
            handle = b.call("ptr", _THREAD, arguments)
            b.store("ptr", handle, b.at("ptr", "%handles", linear))

    def _resume_yielded(self) -> None:
        """Resume those that gave way, round by round until none does any more; what is left has
        ended or is at a barrier.

        If none of them came any further in such a round, only another block can help, or a thread
        that runs on another core: then the core is given away, or in a grid whose blocks are
        suspended the whole block gives way. If a thread has failed by then, nobody is waited for
        any more.
        """
        b = self._b
        with b.loop("yielded", self._threads) as loop:
            yields, moves = (loop.carry("i1", "false", name) for name in ("yields", "moves"))
            failed = loop.carry("i32", "0", "yielded.failed")
            state_at = b.at("i32", "%states", loop.index)
            state = b.load("i32", state_at)
            failed = loop.set(failed, b.extremum("smin", "i32", failed, state))
            has_yielded = b.compare("eq", "i32", state, str(YIELDED))
            yields = loop.set(yields, b.binary("or", "i1", yields, has_yielded))
            with b.when(has_yielded, "yielded.resume"):
                wavefronts.resume(b, "%handles", loop.index)
            came_on = b.compare("ne", "i32", b.load("i32", state_at), str(YIELDED))
            came_on = b.binary("and", "i1", has_yielded, came_on)
            moves = loop.set(moves, b.binary("or", "i1", moves, came_on))
        b.branch(yields, "%some.yield", "%count")
        b.block("%some.yield")
        b.branch(moves, "%schedule", "%none.moves")
        b.block("%none.moves")
        b.branch(b.compare("slt", "i32", failed, "0"), "%count", "%idle")
        b.block("%idle")
        if self._frame:
            self._frame.wait(b, _GAVE_WAY, YIELDS)
        else:
            b.call("i32", PAUSE, [])
            b.jump("%schedule")

    def _judge(self) -> tuple[str, str]:
        """Go on to another round if all that wait are at barriers of the block and no thread is
        missed, else to the end; returns the smallest state of the threads, and the fault number of
        the barrier where some wait.

        If only some of the threads that have not ended wait for the grid, the block can never go
        on.
        """
        b = self._b
        with b.loop("each", self._threads) as loop:
            last, first = loop.carry("i32", "0", "last"), loop.carry("i32", str(_MOST), "first")
            state = b.load("i32", b.at("i32", "%states", loop.index))
            last = loop.set(last, b.extremum("smax", "i32", last, state))
            first = loop.set(first, b.extremum("smin", "i32", first, state))
            if self._has_grid:
                waiting = loop.carry("i32", str(_MOST), "waiting")
                has_ended = b.compare("sle", "i32", state, "0")
                state = b.select(has_ended, "i32", str(_MOST), state)
                waiting = loop.set(waiting, b.extremum("smin", "i32", waiting, state))
        if self._may_miss:
            goes_on = participation.judge(b, last, first)
        else:
            goes_on = b.compare("sgt", "i32", first, "0")
        place = b.binary("and", "i32", last, str(GRID_MARK - 1))
        if self._has_waves or self._has_grid:
            of_block = b.compare("slt", "i32", last, str(GRID_MARK))
            goes_on = b.binary("and", "i1", goes_on, of_block)
        if self._frame and self._has_grid:
            none_before = b.compare("sge", "i32", waiting, str(GRID_MARK))
            beyond = b.binary("sub", "i32", last, str(GRID_MARK))
            none_behind = b.compare("ult", "i32", beyond, str(wavefronts.MARK - GRID_MARK))
            all_wait = b.binary("and", "i1", none_before, none_behind)
            b.branch(all_wait, "%all.for.grid", "%none.for.grid")
            b.block("%all.for.grid")
            self._frame.wait(b, _AT_GRID, place)
            b.block("%none.for.grid")
        b.branch(goes_on, "%round", "%finish")
        return first, place

    def _round(self) -> None:
        """Resume every thread, or where some may have ended those that have not."""
        b = self._b
        with b.loop("resume", self._threads) as loop:
            living: AbstractContextManager[None] = nullcontext()
            if self._has_grid or self._may_miss:
                state = b.load("i32", b.at("i32", "%states", loop.index))
                living = b.when(b.compare("sgt", "i32", state, "0"), "resume.living")
            with living:
                wavefronts.resume(b, "%handles", loop.index)

    def _end(self, first: str, place: str) -> None:
        """End the block: with what stopped a thread, else with the place of the barrier where some
        wait in vain, or 0. A missed barrier is only the echo of a fault."""
        b = self._b
        b.block("%finish")
        has_failed = b.compare("slt", "i32", first, "0")
        fault = b.binary("sub", "i32", "0", first)
        result = b.select(has_failed, "i32", fault, place)
        if self._frame is None:
            heap_free(b, b.load("ptr", "%frames"))
        b.ret("i32", result)
