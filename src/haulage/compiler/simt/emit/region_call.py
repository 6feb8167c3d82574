"""Writes the call of a region's function for one thread, and how a block goes on after it.

Where threads may have left for good, their state is -1. The block or the warp then goes on where
its leader is, a thread that has not left. What all the others have in common is the same in the
leader's elements of the context arrays and in those of any other of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.emit.block_function import user_parameters
from haulage.compiler.simt.emit.region_function import DONE, RESULT, RegionFunctions
from haulage.compiler.simt.ir.axes import AXES
from haulage.compiler.simt.ir.builder import Builder, MetadataPairs, Typed
from haulage.compiler.simt.ir.model import value_name
from haulage.compiler.simt.regions.parallel_regions import Region


@dataclass(frozen=True)
class Thread:
    """A thread in the block function: its indices (x, y, z), its linear index in the block, an
    i64, and the addresses of its private arrays."""

    index: tuple[str, str, str]
    linear: str
    private: Sequence[str] = ()


def thread_arguments(body: Body, block: tuple[int, int, int], thread: Thread) -> list[Typed]:
    """What the function of a thread, or of a region of it, is called with first."""
    return [
        ("ptr", "%ret"),
        *(("i32", value) for value in thread.index),
        *(("i32", f"%blockIdx.{axis}") for axis in AXES),
        *(("i32", str(size)) for size in block),
        *(("i32", f"%gridDim.{axis}") for axis in AXES),
        ("ptr", "%dynamicShared"),
        ("i64", "%dynamicSharedBytes"),
        *user_parameters(body, attributes=False),
        *(("ptr", array.name) for array in body.shared),
        *(("ptr", address) for address in thread.private),
        ("i64", thread.linear),
    ]


def call_region(
    builder: Builder,
    body: Body,
    block: tuple[int, int, int],
    callee: str,
    thread: Thread,
    given: Sequence[Typed],
    metadata: MetadataPairs = (),
) -> str:
    """Call the function of a region; `given` is what it gets of the context and behind that."""
    arguments = [*thread_arguments(body, block, thread), *given]
    return builder.call(RESULT, callee, arguments, "outcome", metadata)


def context_arguments(
    builder: Builder, functions: RegionFunctions, region: Region, storage: str
) -> tuple[list[Typed], dict[str, str]]:
    """What a region is given of the context, which is kept in the `storage` of each value; and the
    names of the uniform values, which are loaded here."""
    given: list[Typed] = []
    loaded: dict[str, str] = {}
    for parameter in functions.context_parameters(region):
        value, kind = parameter.value, parameter.type
        address = value_name(value, storage)
        if parameter.role != "in":
            given.append(("ptr", address))
            continue
        if functions.regions.masked:
            leader = builder.load("i32", "%leader", name="leader.index")
            address = builder.element(kind, address, leader, "inbounds", by="i32", name="leader.at")
        loaded[value] = builder.load(kind, address, name=value_name(value, f"in.{region.number}"))
        given.append((kind, loaded[value]))
    return given, loaded


def follow_leader(builder: Builder, threads: str, nobody: str) -> str:
    """Look for one of `threads` threads that has not left for good, and go to `nobody` if there is
    none; returns the leader's state. The search goes up only, since nobody comes back."""
    look, again, found = map(builder.name, ("leader.look", "leader.left", "leader.found"))
    following = builder.name("leader.next")
    before = builder.current
    old = builder.load("i32", "%leader", name="leader.old")
    builder.jump(look)
    builder.block(look)
    leader = builder.phi("i32", [(old, before), (following, again)], "leader.index")
    at = builder.element("i32", "%states", leader, "inbounds", by="i32", name="leader.at")
    state = builder.load("i32", at, name="leader.state")
    has_left = builder.compare("eq", "i32", state, str(DONE), "leader.gone")
    builder.branch(has_left, again, found)
    builder.block(again)
    builder.binary("add", "i32", leader, "1", "nuw", "nsw", name=following)
    more = builder.compare("ult", "i32", following, threads, "leader.more")
    builder.branch(more, look, nobody)
    builder.block(found)
    builder.store("i32", leader, "%leader")
    return state


def keep_largest_fault(builder: Builder, fault: str) -> None:
    """Keep the larger of a region's largest fault and of those before it."""
    old = builder.load("i32", "%fault", name="fault.old")
    new = builder.extremum("umax", "i32", old, fault, "fault.new")
    builder.store("i32", new, "%fault")
