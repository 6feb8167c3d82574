"""Writes the call of a region's function for one thread."""

from collections.abc import Sequence

from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.emit.block_function import Typed, argument_list, user_parameters


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
