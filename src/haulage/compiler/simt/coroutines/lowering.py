"""Coroutine lowering: a block function that runs every thread as an LLVM coroutine.

This takes any placement of barriers. A thread is suspended at a barrier, or where it waits for a
write of another one (`spin_loops.py`), and resumed by the block's scheduler (`scheduler.py`), for
which it leaves where it is and which barriers miss it.

Each thread keeps which barriers of the block it skipped since it last came there, and which of
these miss it when it has ended (`exits.py`): as it did something then that others can see, or as
there is nothing but that barrier. A set of barriers is a mask with a bit for each.
"""

from dataclasses import replace
from math import prod

from haulage.compiler import llvm
from haulage.compiler.ends import LEFT, code_of
from haulage.compiler.simt.analysis import exits
from haulage.compiler.simt.analysis.barriers import (
    BARRIERS,
    in_order,
    lanes_of,
    place_of,
)
from haulage.compiler.simt.analysis.exits import Edge, is_observable
from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.coroutines import scheduler
from haulage.compiler.simt.emit.block_function import HEAP_ALIGN, heap_allocate
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Block, Function, Instruction
from haulage.compiler.simt.ir.writer import definition
from haulage.compiler.simt.loops.atomics import expanded
from haulage.targets.base import Target
from haulage.targets.cpu import BARRIER, GRID_BARRIER, YIELD
from haulage.targets.cpu_lanes import COLLECTIVES
from haulage.targets.cpu_lanes import definition as collective

# Barriers beyond so many share the last bit, and miss threads whatever these did.
MOST = 62
_LAST = 1 << MOST

_TABLE = "@haulage.missing"
_SKIPPED, _MISSED = "%skipped.barriers", "%missed.barriers"
# Labels: where a coroutine has ended, and where it returns to who called or resumed it.
_FINAL, _SUSPENDED = "%coroutine.final", "%coroutine.suspended"
_ID, _HANDLE = "%coroutine.id", "%coroutine"
# A place's rank is that of its block, times this, and its number there.
_MOST_IN_BLOCK = 1 << 20


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
    kept = Participation(body.function)
    thread = _Thread(body, prod(block), cooperative, kept).function()
    made = scheduler.write(body, block, cooperative)
    return "\n\n".join([kept.table(), definition(thread), *made])


# ---- which barriers miss a thread ----------------------------------------------------------------


class Participation:
    """The barriers of a kernel, and which threads they miss.

    `barriers` gives the bit of each block with a barrier of the block. `skipped` gives the barriers
    that each step skips and that miss a thread if it then does something, `alone` those that miss
    it anyway; `missing` those that miss threads at each number of an end.
    """

    def __init__(self, function: Function) -> None:
        analyses = Analyses(function)
        skipping, missed = analyses.get(exits.skipping_edges), analyses.get(exits.missed_ends)
        self.barriers = {label: 1 << min(number, MOST) for number, label in enumerate(missed)}
        self.skipped: dict[Edge, int] = {}
        self.alone: dict[Edge, int] = {}
        for label, bit in self.barriers.items():
            into = self.alone if exits.is_alone(analyses, label) else self.skipped
            for edge in skipping[label] if bit != _LAST else ():
                into[edge] = into.get(edge, 0) | bit
        self.missing = [
            sum({self.barriers[label] for label, those in missed.items() if those >> number & 1})
            for number in range(LEFT + 1)
        ]

    def table(self) -> str:
        """The definition of the constants that `leave` reads."""
        row = ", ".join(f"i64 {mask}" for mask in self.missing)
        return f"{_TABLE} = internal unnamed_addr constant [{len(self.missing)} x i64] [{row}]"

    def begin(self, b: Builder) -> None:
        """What a thread does first."""
        for name, mask in ((_SKIPPED, 0), (_MISSED, _LAST)):
            b.allocate("i64", 8, name)
            b.store("i64", str(mask), name)

    def did(self, b: Builder) -> None:
        """Behind something that others can see."""
        if self.skipped:
            _add(b, _MISSED, b.load("i64", _SKIPPED))

    def wait(self, b: Builder, label: str) -> None:
        """A thread begins to wait at a barrier in the block `label`."""
        bit = self.barriers[label]
        _add(b, b.at("i8", "%participation", scheduler.WAITING_AT), str(bit))
        if bit != _LAST:
            for name in (_SKIPPED, _MISSED):
                others = b.binary("and", "i64", b.load("i64", name), str(~bit))
                b.store("i64", others, name)

    def step(self, b: Builder, block: Block) -> None:
        """In front of the branch at the end of a block."""
        for name, edges in ((_SKIPPED, self.skipped), (_MISSED, self.alone)):
            masks = [edges.get((block.label, target), 0) for target in block.successors]
            if any(masks):
                assert block.condition is not None
                _add(b, name, b.select(block.condition, "i64", *map(str, masks)))

    def leave(self, b: Builder, code: str) -> None:
        """A thread ends with a code."""
        is_end = b.compare("uge", "i32", code, str(code_of(1)))
        has_ended = b.binary("or", "i1", is_end, b.compare("eq", "i32", code, "0"))
        number = b.binary("and", "i32", code, str(LEFT))
        missing = b.load("i64", b.at("i64", _TABLE, number, by="i32"))
        missing = b.binary("and", "i64", missing, b.load("i64", _MISSED))
        _add(b, "%participation", b.select(has_ended, "i64", missing, "0"))


def _add(b: Builder, address: str, mask: str) -> None:
    b.store("i64", b.binary("or", "i64", b.load("i64", address), mask), address)


# ---- the function of a thread -------------------------------------------------------------------


class _Thread:
    """Writes the coroutine of one thread, which leaves its state in memory when it is suspended."""

    def __init__(self, body: Body, threads: int, cooperative: bool, kept: Participation) -> None:
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
            *scheduler.THREAD_PARAMETERS,
        ]
        self._b = Builder(
            scheduler.THREAD, parameters, "ptr", "presplitcoroutine", stem="coroutine"
        )

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
                self._wait_in(scheduler.YIELDED)
            elif item.callee in BARRIERS:
                self._wait(item, block.label, number)
                told = told and item.callee != BARRIER
            else:
                b.extend(expanded(item))
                if not told and is_observable(self._body.function, item):
                    kept.did(b)
                    told = True
        code = block.returned
        if code is not None:
            self._leave(code)
            return
        assert isinstance(block.terminator, Instruction)
        kept.step(b, block)
        b.add(block.terminator)

    def _wait(self, barrier: Instruction, label: str, number: int) -> None:
        """Wait at a barrier, the instruction with a number in the block `label`."""
        b, mark = self._b, 0
        if barrier.callee == BARRIER:
            self._kept.wait(b, label)
        elif barrier.callee == GRID_BARRIER:
            mark = scheduler.GRID_MARK
        else:
            mark = scheduler.WAVE_MARK
            rank = self._ranks[label] * _MOST_IN_BLOCK + number
            scheduler.wait_for(b, lanes_of(barrier), rank)
        self._wait_in(mark + place_of(barrier))

    def _wait_in(self, state: int) -> None:
        scheduler.leave(self._b, str(state))
        self._suspend(self._b.name("coroutine.resumed"))

    def _leave(self, code: str) -> None:
        """End the thread with a code."""
        b = self._b
        self._kept.leave(b, code)
        fault, counted = exits.fault_of(code, b.fresh("fault"))
        b.extend(counted)
        scheduler.leave(b, b.binary("sub", "i32", "0", fault))
        b.jump(_FINAL)
