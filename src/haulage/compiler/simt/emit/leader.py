"""What `region_call.py` does, as lines of text, for what does not use a builder yet.

Threads that have left keep the state -1. What all the others have in common is the same in the
leader's slots and in those of any other of them.
"""

from collections.abc import Sequence

from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.emit.block_function import Typed, argument_list, user_parameters
from haulage.compiler.simt.emit.region_function import DONE, ContextParameter, RegionFunctions
from haulage.compiler.simt.ir.model import value_name
from haulage.compiler.simt.regions.parallel_regions import Region


def slots_of(functions: RegionFunctions, region: Region, lines: list[str]) -> list[tuple[str, str]]:
    """The arguments, with their types, that a region is given of the slots; appends the lines that
    load what its threads have in common, as `%in.NUMBER` of each value."""
    given = []
    for parameter in functions.context_parameters(region):
        room = value_name(parameter.value, "room")
        if parameter.role != "in":
            given.append(("ptr", room))
            continue
        value = value_name(parameter.value, f"in.{region.number}")
        if functions.regions.masked:
            room = value_name(parameter.value, f"leader.{region.number}")
            lines += _of_leader(parameter, room, region.number)
        lines.append(f"  {value} = load {parameter.type}, ptr {room}")
        given.append((parameter.type, value))
    return given


def _of_leader(parameter: ContextParameter, address: str, k: int) -> list[str]:
    number = value_name(parameter.value, f"number.{k}")
    return [
        f"  {number} = load i32, ptr %leader",
        f"  {address} = getelementptr inbounds {parameter.type}, "
        f"ptr {value_name(parameter.value, 'room')}, i32 {number}",
    ]


def follow(k: int, before: str, threads: int | str, nobody: str) -> list[str]:
    """Lines behind the block `before` that look for a thread of `threads` that has not left region
    `k` for good and make `%next.K`, its state; they go to `nobody` if there is none.

    The search goes up only, since nobody comes back.
    """
    return [
        f"  %leader.old.{k} = load i32, ptr %leader",
        f"  br label %look.{k}",
        f"look.{k}:",
        f"  %leader.{k} = phi i32 [ %leader.old.{k}, %{before} ], "
        f"[ %leader.after.{k}, %look.on.{k} ]",
        f"  %leader.at.{k} = getelementptr inbounds i32, ptr %states, i32 %leader.{k}",
        f"  %next.{k} = load i32, ptr %leader.at.{k}",
        f"  %left.{k} = icmp eq i32 %next.{k}, {DONE}",
        f"  br i1 %left.{k}, label %look.on.{k}, label %looked.{k}",
        f"look.on.{k}:",
        f"  %leader.after.{k} = add nuw nsw i32 %leader.{k}, 1",
        f"  %leader.more.{k} = icmp ult i32 %leader.after.{k}, {threads}",
        f"  br i1 %leader.more.{k}, label %look.{k}, label %{nobody}",
        f"looked.{k}:",
        f"  store i32 %leader.{k}, ptr %leader",
    ]


def largest_fault(k: int, of_threads: str) -> list[str]:
    """Lines that keep the larger of a region's largest fault and of those before it."""
    return [
        f"  %fault.old.{k} = load i32, ptr %fault",
        f"  %fault.new.{k} = call i32 @llvm.umax.i32(i32 %fault.old.{k}, i32 {of_threads})",
        f"  store i32 %fault.new.{k}, ptr %fault",
    ]


def region_call(
    body: Body,
    block: tuple[int, int, int],
    number: int,
    index: tuple[str, str, str],
    pointers: Sequence[str],
    given: Sequence[Typed],
    note: str,
    suffix: str | None = None,
    function: str | None = None,
) -> str:
    """The line that calls region `number`, or another `function` of it, which makes `%both.SUFFIX`,
    or `%both.NUMBER`.

    `index` is the thread's (x, y, z), `pointers` its own rooms, `given` what it gets of the slots
    and, if it is masked, of the states; its number in these is `%thread.SUFFIX`.
    """
    suffix = str(number) if suffix is None else suffix
    arguments = argument_list(
        [
            ("ptr", "%ret"),
            *(("i32", value) for value in index),
            *(("i32", f"%blockIdx.{axis}") for axis in "xyz"),
            *(("i32", str(size)) for size in block),
            *(("i32", f"%gridDim.{axis}") for axis in "xyz"),
            ("ptr", "%dynamicShared"),
            ("i64", "%dynamicSharedBytes"),
            *user_parameters(body, attributes=False),
            *(("ptr", room.name) for room in body.shared),
            *(("ptr", pointer) for pointer in pointers),
            ("i64", f"%thread.{suffix}"),
            *given,
        ]
    )
    name = function or f"haulage.region.{number}"
    return f"  %both.{suffix} = call {{ i32, i32 }} @{name}({arguments}){note}"
