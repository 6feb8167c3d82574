"""Writes the block function: a state machine over a kernel's parallel regions.

Threads go on together in groups: all of a block, or those of a warp (`work_item_loops.py`,
`warp_loops.py`, which say how a group runs a region). A region's function, which is always inlined,
runs for every thread of the group, and what it comes to is kept in words on the stack, which LLVM
takes into registers: where to go next, which is the same for all of them, in `%next`, and the
largest fault in `%worst`. If some may have left for good, their state is -1; one of the others, the
leader, says where they are and what they have in common, which is the same in its elements of the
context arrays and in those of any other of them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager

from haulage.compiler.simt.compilation import SCALAR, Compilation
from haulage.compiler.simt.coroutines.cooperative_grid import Frame
from haulage.compiler.simt.emit.block_function import (
    Metadata,
    allocate_private,
    allocate_shared,
    block_parameters,
    thread_arguments,
)
from haulage.compiler.simt.emit.loop_nest import Index
from haulage.compiler.simt.emit.region_function import DONE, RESULT, RegionFunctions
from haulage.compiler.simt.ir.builder import Builder, MetadataPairs, Typed
from haulage.compiler.simt.ir.model import Function, RegionEnd, value_name
from haulage.compiler.simt.ir.writer import definition
from haulage.compiler.simt.loops.atomics import arrays_of
from haulage.compiler.simt.loops.block_coalescing import WIDTH
from haulage.compiler.simt.regions.parallel_regions import Region
from haulage.forks import cached_property


class StateMachine(ABC):
    """The block function for blocks of at most `threads` threads, but for how groups run regions.

    `waits_at` are the reasons for the end of a region at which a group waits for others, `ended` is
    where it goes on when all of its threads have ended.
    """

    waits_at: tuple[str, ...] = ("grid",)
    ended = "%done"

    def __init__(self, state: Compilation, threads: int) -> None:
        assert state.regions is not None
        self.state = state
        self.body, self.regions = state.body_of_regions, state.regions
        self.metadata = Metadata(state.body.around, parallel=state.taken != SCALAR)
        self.threads = threads
        self.region_functions = RegionFunctions(self.body, self.regions)
        self.frame = Frame(self.body, threads) if state.cooperative else None
        # Of a stride that is a parameter LLVM's vectoriser makes a loop for 1, and leaves others as
        # they are. So the extents of arrays are given as expressions, which change nothing: none is
        # negative, which nobody but them tells LLVM.
        self.extents: dict[str, str] = {}
        sizes = {name for array in arrays_of(self.body.function) for name in array.shape}
        given = block_parameters(self.body) if self.frame is None else self.frame.parameters()
        parameters = [("i64" if name in sizes else kind, name) for kind, name in given]
        if state.wide is not None:
            parameters.append((f"i32 range(i32 1, {state.wide.width + 1})", WIDTH))
        self.b = Builder("haulage.block", parameters, "i32", "noinline", stem="block")
        # How many threads the group has.
        self.group_threads = str(threads)

    # ---- what a kind of group says --------------------------------------------------------------

    def functions(self) -> list[Function]:
        """The functions that the block function calls."""
        return list(map(self.region_functions.function, self.regions.regions))

    @abstractmethod
    def allocate_context(self) -> None:
        """Make or find the context, and what tells where threads are."""

    @abstractmethod
    def groups(self) -> AbstractContextManager[None]:
        """What stands around the regions: each group begins where it is due, and ends."""

    @abstractmethod
    def run(self, region: Region, given: list[Typed], loaded: Mapping[str, str]) -> None:
        """Run a region for the group's threads; `given` is what it gets of the context, `loaded`
        has the names of uniform values."""

    # ---- the function ---------------------------------------------------------------------------

    def texts(self) -> list[str]:
        """LLVM texts of the block function and of all that it needs."""
        made = [*map(definition, self.functions()), definition(self._function())]
        # What is in a frame is known once all is written.
        frame = [] if self.frame is None else [self.frame.text()]
        return [*frame, *made, self.metadata.text()]

    def _function(self) -> Function:
        b = self.b
        b.block("%block.start")
        for name, kind in (("%ret", "ptr"), ("%next", "i32"), ("%worst", "i32")):
            b.allocate(kind, name=name)
        if self.frame is None:
            for name in self.words:
                b.allocate("i32", name=name)
            allocate_shared(b, self.body, self.threads)
            allocate_private(b, self.body, self.threads)
        else:
            self.frame.fixed(b, self.words)
        for array in arrays_of(self.body.function):
            for name in array.shape:
                self.extents[name] = b.extremum("smax", "i64", name, "0", "extent")
        self.allocate_context()
        with self.groups():
            for region in self.regions.regions:
                self._region(region)
        b.block("%done")
        b.ret("i32", b.load("i32", "%fault", name="result") if self.body.may_fail else "0")
        return b.function

    @property
    def words(self) -> list[str]:
        """Where the block keeps the largest fault, if there may be any; it begins as 0."""
        return ["%fault"] if self.body.may_fail else []

    def clear_words(self) -> None:
        """Make the block's words 0."""
        for name in self.words:
            self.b.store("i32", "0", name)

    def place(self, name: str, kind: str) -> None:
        """Make storage that lives as long as the block."""
        if self.frame is None:
            self.b.allocate(kind, 64, name)
        else:
            self.frame.place(self.b, name, kind)

    @cached_property
    def waits(self) -> dict[int, RegionEnd]:
        """The regions behind ends at which the group waits, with these."""
        return self.region_functions.behind(*self.waits_at)

    @cached_property
    def grid_waits(self) -> dict[int, RegionEnd]:
        """Those at which it waits for the whole grid."""
        return self.region_functions.behind("grid")

    @cached_property
    def lasting(self) -> frozenset[str]:
        """The values that live while the group waits."""
        return frozenset(
            name for end in self.waits.values() for name in self.regions.live[end.target]
        )

    # ---- regions --------------------------------------------------------------------------------

    def _region(self, region: Region) -> None:
        """Run a region, and go on to the next, by what its threads came to."""
        b = self.b
        b.block(f"%region.{region.number}")
        if self.body.may_fail:
            b.store("i32", "0", "%worst")
        self.run(region, *self._context(region))
        if self.body.may_fail:
            self._keep_largest(b.load("i32", "%worst"), "%fault")
        exits = [self.region_functions.numbers[label] for label in region.exits]
        labels = [f"%wait.{k}" if k in self.waits else f"%region.{k}" for k in exits]
        may_end = not exits or region.returns or self.regions.masked
        default = self.ended if may_end else labels.pop()
        if not labels:
            b.jump(default)
            return
        if self.regions.masked:
            following = follow_leader(b, self.group_threads, self.ended)
        else:
            following = b.load("i32", "%next")
        b.switch("i32", following, default, list(zip(exits, labels, strict=False)))

    def _context(self, region: Region) -> tuple[list[Typed], dict[str, str]]:
        """What a region is given of the context; and the names of the uniform values, which are
        loaded here."""
        b, masked = self.b, self.regions.masked
        given: list[Typed] = []
        loaded: dict[str, str] = {}
        for parameter in self.region_functions.context_parameters(region):
            value, kind = parameter.value, parameter.type
            address = value_name(value, "context")
            if parameter.role != "live-in":
                given.append(("ptr", address))
                continue
            if masked:
                leader = b.load("i32", "%leader", name="leader.index")
                address = b.element(kind, address, leader, "inbounds", by="i32", name="leader.at")
            loaded[value] = b.load(kind, address, name=value_name(value, f"in.{region.number}"))
            given.append((kind, loaded[value]))
        return given + ([("ptr", "%states")] if masked else []), loaded

    def call(
        self,
        region: Region,
        index: Index,
        linear: str,
        given: list[Typed],
        *,
        callee: str | None = None,
        in_block: str | None = None,
        access: MetadataPairs = (),
    ) -> None:
        """Call a region's function, or another one for it, for the thread with an index, and a
        `linear` one in its group, and `in_block`, if that is another; `given` comes last."""
        b, callee = self.b, callee or f"haulage.region.{region.number}"
        arguments = thread_arguments(b, self.body, self.state.block, index, in_block or linear)
        arguments = [(kind, self.extents.get(name, name)) for kind, name in arguments]
        both = b.call(RESULT, callee, [*arguments, ("i64", linear), *given], "outcome", access)
        if not self.regions.masked:
            b.store("i32", b.extract(RESULT, both, 0, "next"), "%next")
        if self.body.may_fail:
            self._keep_largest(b.extract(RESULT, both, 1, "fault"), "%worst")

    def _keep_largest(self, fault: str, word: str) -> None:
        """Make a word the larger one of what it is and a fault."""
        old = self.b.load("i32", word)
        self.b.store("i32", self.b.extremum("umax", "i32", old, fault), word)


def follow_leader(b: Builder, threads: str, nobody: str) -> str:
    """Look for one of `threads` threads that has not left for good, and go to `nobody` if there is
    none; returns the leader's state. The search goes up only, since nobody comes back."""
    look, again, found = map(b.name, ("leader.look", "leader.left", "leader.found"))
    following = b.name("leader.next")
    before = b.current
    old = b.load("i32", "%leader", name="leader.old")
    b.jump(look)
    b.block(look)
    leader = b.phi("i32", [(old, before), (following, again)], "leader.index")
    at = b.element("i32", "%states", leader, "inbounds", by="i32", name="leader.at")
    state = b.load("i32", at, name="leader.state")
    b.branch(b.compare("eq", "i32", state, str(DONE), "leader.gone"), again, found)
    b.block(again)
    b.binary("add", "i32", leader, "1", "nuw", "nsw", name=following)
    b.branch(b.compare("ult", "i32", following, threads, "leader.more"), look, nobody)
    b.block(found)
    b.store("i32", leader, "%leader")
    return state
