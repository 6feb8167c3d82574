"""Writes what a cut block function keeps its values in while the block waits for its grid: a frame.

A cut block function is a machine of few states, so it needs no coroutine to be suspended: it leaves
its state in the frame and returns, and begins there when it is called again, with its arguments in
registers as always. What lives over a barrier of the grid is in two rooms that each block has:

    %frame  the state to begin in, other words, and from byte 64 on slots. Nothing but the block
            function has an address in it, so it is `noalias`
    %rooms  shared arrays and the threads' own. Slots may hold addresses in it

`i32 @haulage.block(..., ptr noalias %frame, ptr %rooms)` gives `WAITS` plus the fault number of the
barrier where the block waits, or what it ended with. `ptr @haulage.frame.make()` gives memory for a
frame and the rooms behind it, whose offset is what `i64 @haulage.frame.bytes()` says.
"""

from collections.abc import Iterable, Sequence

from haulage.compiler.simt.analysis.kernel import Body
from haulage.compiler.simt.emit.block_function import (
    BLOCK_PARAMETERS,
    Typed,
    cleared_rooms,
    parameter_list,
    private_align,
    private_layout,
    private_places,
    user_parameters,
)

WAITS = 1 << 30
_CLEARED = 64

_BEGINNING = f"[{_CLEARED} x i8]"
_ALIGN = 64


class Frame:
    """The frame of one block function, with the names of what was put in it."""

    def __init__(self, body: Body, threads: int) -> None:
        self._body = body
        self._threads = threads
        self._types = [_BEGINNING]
        # Of the rooms too, which begin at a multiple of it.
        self._align = max(_ALIGN, private_align(body), *(room.align for room in body.shared))

    def parameters(self) -> list[Typed]:
        """The parameters of the block function."""
        align = f"align {self._align}"
        rooms = [(f"ptr noalias {align}", "%frame"), (f"ptr {align}", "%rooms")]
        return [*BLOCK_PARAMETERS, *user_parameters(self._body), *rooms]

    def open(self) -> list[str]:
        """The first lines of the block function, up to where its rooms are made."""
        return [
            f"define internal i32 @haulage.block({parameter_list(self.parameters())}) noinline {{",
            "block.start:",
        ]

    def fixed(self, words: Sequence[str]) -> list[str]:
        """Lines that find an i32 for each of the names `words`, at most 15, and all arrays of the
        block and its threads."""
        return [
            *(
                f"  {name} = getelementptr inbounds i8, ptr %frame, i64 {4 * number}"
                for number, name in enumerate(words, 1)
            ),
            *private_places(self._body, self._threads, "%rooms"),
            *(
                f"  {room.name} = getelementptr inbounds i8, ptr %rooms, i64 {offset}"
                for room, offset in zip(self._body.shared, self._shared_layout()[0], strict=True)
            ),
        ]

    def _shared_layout(self) -> tuple[list[int], int]:
        """Offsets of the shared arrays in the rooms, and the bytes of the rooms in all."""
        offsets: list[int] = []
        _, end = private_layout(self._body, self._threads)
        for room in self._body.shared:
            offsets.append(-(-end // room.align) * room.align)
            end = offsets[-1] + room.nbytes
        return offsets, end

    def place(self, name: str, kind: str) -> str:
        """The line that finds room in the frame for the LLVM type `kind`, as `name`."""
        self._types.append(kind)
        number = len(self._types) - 1
        return f"  {name} = getelementptr inbounds %haulage.frame, ptr %frame, i32 0, i32 {number}"

    def resume(self, states: Iterable[tuple[int, str]]) -> list[str]:
        """Lines that go to the label of the state that is due, and begin `begin`, for a block that
        has just begun."""
        cases = " ".join(f"i32 {number}, label {label}" for number, label in states)
        return [
            "  %due = load i32, ptr %frame",
            f"  switch i32 %due, label %begin [ {cases} ]",
            "begin:",
            *cleared_rooms(self._body, self._threads),
        ]

    def wait(self, state: int, place: int) -> list[str]:
        """Lines that wait for the grid at the barrier of fault number `place`, and go on in
        `state`."""
        return [f"  store i32 {state}, ptr %frame", f"  ret i32 {WAITS | place}"]

    def text(self) -> str:
        """LLVM text of the frame's type and of the functions that make a frame with its rooms and
        say where they begin."""
        align = self._align
        _, rooms = self._shared_layout()
        return "\n".join(
            [
                f"%haulage.frame = type {{ {', '.join(self._types)} }}",
                "define internal i64 @haulage.frame.bytes() alwaysinline {",
                "  %end = getelementptr %haulage.frame, ptr null, i32 1",
                "  %size = ptrtoint ptr %end to i64",
                f"  %over = add i64 %size, {align - 1}",
                f"  %bytes = and i64 %over, {-align}",
                "  ret i64 %bytes",
                "}",
                "",
                "define internal ptr @haulage.frame.make() {",
                "  %frame.bytes = call i64 @haulage.frame.bytes()",
                f"  %bytes = add i64 %frame.bytes, {-(-rooms // align) * align}",
                f"  %frame = call ptr @haulage_alloc(i64 {align}, i64 %bytes, i1 false)",
                f"  call void @llvm.memset.p0.i64(ptr %frame, i8 0, i64 {_CLEARED}, i1 false)",
                "  ret ptr %frame",
                "}",
            ]
        )
