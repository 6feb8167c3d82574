"""Writes a cut body as a block function: for each piece, a loop over the threads of the block.

The block function is a machine whose states are the pieces. In each state the piece's function,
which is always inlined, runs for every thread; LLVM's loop vectoriser then widens that loop. Where
to go next is the same for all threads, so the last thread's answer is taken. If some may have left
for good, their state is -1; one of the others, the leader, says where they are and what they
have in common.
"""

from dataclasses import dataclass
from functools import cached_property
from math import prod

from haulage.compiler.simt import grids
from haulage.compiler.simt.block_function import (
    Metadata,
    open_block,
    private_pointers,
    private_rooms,
    shared_rooms,
)
from haulage.compiler.simt.body import Body
from haulage.compiler.simt.loop_nest import LoopNest, looped_axes
from haulage.compiler.simt.model import Cut, value_name
from haulage.compiler.simt.piece_call import piece_call, stays
from haulage.compiler.simt.piece_function import DONE, PieceFunctions, SlotParameter
from haulage.compiler.simt.pieces import Piece, Pieces


def write(
    body: Body,
    pieces: Pieces,
    block: tuple[int, int, int],
    order: str,
    metadata: Metadata,
    cooperative: bool,
) -> str:
    """LLVM text of `@haulage.block` and its pieces for one block size (x, y, z), with the loops
    over its axes in an order (outermost first); `cooperative` if it may be suspended, as `grids.py`
    says."""
    functions = PieceFunctions(body, pieces)
    machine = _Machine(body, pieces, functions, block, order, metadata, cooperative)
    return "\n\n".join([*map(functions.text, pieces.pieces), machine.block_function()])


@dataclass(frozen=True)
class _Machine:
    body: Body
    pieces: Pieces
    functions: PieceFunctions
    block: tuple[int, int, int]
    order: str
    metadata: Metadata
    cooperative: bool

    @property
    def threads(self) -> int:
        return prod(self.block)

    def block_function(self) -> str:
        opening = open_block(self.body)
        if self.cooperative:
            opening = grids.open_block(self.body, self.threads)
        lines = [
            *opening,
            "  %ret = alloca ptr",
            *(["  %fault = alloca i32", "  store i32 0, ptr %fault"] if self.body.may_fail else []),
            *shared_rooms(self.body, self.threads),
            *private_rooms(self.body, self.threads),
        ]
        for slot in self.pieces.slots.values():
            each = slot.varying or self.pieces.masked
            room = f"[{self.threads} x {slot.type}]" if each else slot.type
            lines.append(f"  {value_name(slot.value, 'room')} = alloca {room}, align 64")
        if self.pieces.masked:
            lines += [
                f"  %states = alloca [{self.threads} x i32], align 64",
                "  %leader = alloca i32",
                "  store i32 0, ptr %leader",
            ]
        lines.append("  br label %state.0")
        for piece in self.pieces.pieces:
            lines += self._state(piece)
        lines.append("done:")
        result = "0"
        if self.body.may_fail:
            lines.append("  %result = load i32, ptr %fault")
            result = "%result"
        if self.cooperative:
            lines += grids.close_block(self.body, self.threads, result)
        else:
            lines += [f"  ret i32 {result}", "}"]
        return "\n".join(lines)

    def _state(self, piece: Piece) -> list[str]:
        k = piece.number
        lines = []
        place = self._grid_barriers.get(piece.entry)
        if place is not None:
            lines += [f"grid.{k}:", *grids.wait(f"grid.{k}.wait", str(place), f"state.{k}")]
        lines.append(f"state.{k}:")
        given = []
        for parameter in self.functions.slot_parameters(piece):
            room = value_name(parameter.value, "room")
            if parameter.role == "in":
                value = value_name(parameter.value, f"in.{k}")
                if self.pieces.masked:
                    room = value_name(parameter.value, f"leader.{k}")
                    lines += self._of_leader(parameter, room)
                lines.append(f"  {value} = load {parameter.type}, ptr {room}")
                given.append((parameter.type, value))
            else:
                given.append(("ptr", room))
        nest = self._nest(k)
        x, y, z = nest.thread()
        lines += nest.opening()
        private, pointers = private_pointers(self.body, f"%thread.{k}", f".{k}")
        lines += private
        given += [("ptr", "%states")] if self.pieces.masked else []
        note = "" if stays(self.pieces.function, piece) else self.metadata.access()
        lines.append(piece_call(self.body, self.block, k, (x, y, z), pointers, given, note))
        if not self.pieces.masked:
            lines.append(f"  %next.{k} = extractvalue {{ i32, i32 }} %both.{k}, 0")
        if self.body.may_fail:
            lines.append(f"  %fault.this.{k} = extractvalue {{ i32, i32 }} %both.{k}, 1")
        lines += nest.closing(self.metadata.thread_loop(nest.innermost_size))
        lines += self._go_on(piece, nest.last_label)
        return lines

    @cached_property
    def _grid_barriers(self) -> dict[str, int]:
        """Labels of the pieces behind barriers of the grid, with the barriers' fault numbers."""
        ends = [block.terminator for block in self.pieces.function.blocks.values()]
        return {
            end.target: end.place for end in ends if isinstance(end, Cut) and end.reason == "grid"
        }

    def _way_to(self, state: int) -> str:
        """The label by which a state is entered."""
        waits = self.pieces.pieces[state].entry in self._grid_barriers
        return f"%grid.{state}" if waits else f"%state.{state}"

    def _of_leader(self, parameter: SlotParameter, address: str) -> list[str]:
        """Lines that find the leader's element of a slot."""
        number = value_name(parameter.value, "number" + address[1:].strip('"').rsplit(".", 1)[1])
        return [
            f"  {number} = load i32, ptr %leader",
            f"  {address} = getelementptr inbounds {parameter.type}, "
            f"ptr {value_name(parameter.value, 'room')}, i32 {number}",
        ]

    def _nest(self, k: int) -> LoopNest:
        axes = looped_axes(self.block, self.order)
        return LoopNest(k, f"state.{k}", self.block, axes, self.body.may_fail)

    def _follow_leader(self, k: int, before: str) -> list[str]:
        """Find a thread that has not left; the kernel goes on where that one is.

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
            f"  %leader.more.{k} = icmp ult i32 %leader.after.{k}, {self.threads}",
            f"  br i1 %leader.more.{k}, label %look.{k}, label %done",
            f"looked.{k}:",
            f"  store i32 %leader.{k}, ptr %leader",
        ]

    def _go_on(self, piece: Piece, before: str) -> list[str]:
        k = piece.number
        lines: list[str] = []
        if self.body.may_fail:
            lines += [
                f"  %fault.old.{k} = load i32, ptr %fault",
                f"  %fault.new.{k} = call i32 @llvm.umax.i32"
                f"(i32 %fault.old.{k}, i32 %fault.now.{k})",
                f"  store i32 %fault.new.{k}, ptr %fault",
            ]
        states = [self.functions.numbers[label] for label in piece.exits]
        if not states:
            return [*lines, "  br label %done"]
        if len(states) == 1 and not piece.returns and not self.pieces.masked:
            return [*lines, f"  br label {self._way_to(states[0])}"]
        if self.pieces.masked:
            lines += self._follow_leader(k, before)
        ends = piece.returns or self.pieces.masked
        default = "%done" if ends else self._way_to(states.pop())
        cases = " ".join(f"i32 {state}, label {self._way_to(state)}" for state in states)
        return [*lines, f"  switch i32 %next.{k}, label {default} [ {cases} ]"]
