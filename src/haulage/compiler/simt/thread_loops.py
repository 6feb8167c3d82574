"""Writes a cut body as a block function: for each piece, a loop over the threads of the block.

The block function is a machine whose states are the pieces. In each state the piece's function,
which is always inlined, runs for every thread; LLVM's loop vectoriser then widens that loop. Where
to go next is the same for all threads, so the last thread's answer is taken.
"""

from dataclasses import dataclass
from math import prod

from haulage.compiler.simt.block_function import (
    BLOCK_PARAMETERS,
    Metadata,
    argument_list,
    parameter_list,
    private_pointers,
    private_rooms,
    shared_rooms,
    user_parameters,
)
from haulage.compiler.simt.body import Body, return_code
from haulage.compiler.simt.model import Block, Cut, phi_text
from haulage.compiler.simt.pieces import Piece, Pieces, Slot

_DONE = -1


def write(body: Body, pieces: Pieces, block: tuple[int, int, int], metadata: Metadata) -> str:
    """LLVM text of `@haulage.block` and its pieces for one block size (x, y, z)."""
    writer = _Writer(body, pieces, block, metadata)
    parts = [writer.piece_function(piece) for piece in pieces.pieces]
    return "\n\n".join([*parts, writer.block_function()])


@dataclass
class _Writer:
    body: Body
    pieces: Pieces
    block: tuple[int, int, int]
    metadata: Metadata

    def __post_init__(self) -> None:
        self.threads = prod(self.block)
        self.numbers = {piece.entry: piece.number for piece in self.pieces.pieces}
        self.made_in = {
            piece.number: {
                item.result
                for label in piece.labels
                for item in self.pieces.function.blocks[label].instructions()
                if item.result
            }
            for piece in self.pieces.pieces
        }

    # ---- pieces ---------------------------------------------------------------------------

    def _stored(self, piece: Piece) -> list[Slot]:
        """The slots that the piece may write: live behind one of its cuts and made in it."""
        live = {name for label in piece.exits for name in self.pieces.live[label]}
        made = self.made_in[piece.number]
        return [slot for name, slot in self.pieces.slots.items() if name in live and name in made]

    def _slot_parameters(self, piece: Piece) -> list["_SlotParameter"]:
        """What the piece is given of the slots."""
        loaded = [self.pieces.slots[name] for name in piece.loaded]
        stored = self._stored(piece)
        values = [
            _SlotParameter(slot.type, slot.value, "in") for slot in loaded if not slot.varying
        ]
        outs = [_SlotParameter("ptr", slot.value, "out") for slot in stored if not slot.varying]
        both = dict.fromkeys(slot.value for slot in [*loaded, *stored] if slot.varying)
        arrays = [_SlotParameter("ptr noalias", name, "slot") for name in both]
        return values + outs + arrays

    def piece_function(self, piece: Piece) -> str:
        parameters = [
            *((parameter.type, parameter.name) for parameter in self.body.function.parameters),
            *(("ptr noalias", room.name) for room in self.body.shared),
            *(("ptr", room.name) for room in self.body.private),
            ("i64", "%thread"),
            *(
                (given.type, _name(given.value, given.role))
                for given in self._slot_parameters(piece)
            ),
        ]
        made = self.made_in[piece.number]
        arriving = {*piece.loaded, *piece.recomputed}
        in_memory = sorted(arriving & made)
        lines = [
            f"define internal {{ i32, i32 }} @haulage.piece.{piece.number}"
            f"({parameter_list(parameters)}) alwaysinline {{",
            "piece.start:",
        ]
        definitions = self.pieces.function.definitions()
        lines += [
            f"  {_name(name, 'mem')} = alloca {definitions[name][1].type}" for name in in_memory
        ]
        names = self._arrivals(piece, lines)
        for name in in_memory:
            lines.append(
                f"  store {definitions[name][1].type} {names.pop(name)}, ptr {_name(name, 'mem')}"
            )
        lines.append(f"  br label {piece.entry}")
        results: list[tuple[str, str, str]] = []
        memory = _InMemory({name: definitions[name][1].type for name in in_memory}, names)
        inside = set(piece.labels)
        for label in piece.labels:
            block = self.pieces.function.blocks[label]
            lines.append(f"{label[1:]}:")
            lines += self._block_lines(piece, block, memory, inside, results)
        lines += self._piece_end(results)
        return "\n".join([*lines, "}"])

    def _arrivals(self, piece: Piece, lines: list[str]) -> dict[str, str]:
        """Load and work out what the piece starts with; gives the names it has there."""
        names: dict[str, str] = {}
        for name in piece.loaded:
            slot = self.pieces.slots[name]
            arrived = _name(slot.value, "in")
            if slot.varying:
                address = _name(slot.value, "at")
                lines.append(
                    f"  {address} = getelementptr inbounds {slot.type}, "
                    f"ptr {_name(slot.value, 'slot')}, i64 %thread"
                )
                lines.append(f"  {arrived} = load {slot.type}, ptr {address}")
            names[name] = arrived
        for step in piece.steps:
            assert step.result is not None
            arrived = _name(step.result, "in")
            lines.append("  " + step.renamed({**names, step.result: arrived}))
            names[step.result] = arrived
        wanted = {*piece.loaded, *piece.recomputed}
        made = self.made_in[piece.number]
        # Steps on the way to a recomputed value may be made in the piece too, under their own name.
        return {name: new for name, new in names.items() if name in wanted or name not in made}

    def _block_lines(
        self,
        piece: Piece,
        block: Block,
        memory: "_InMemory",
        inside: set[str],
        results: list[tuple[str, str, str]],
    ) -> list[str]:
        lines: list[str] = []
        after_phis: list[str] = []
        for phi in block.phis:
            sources = tuple(
                (memory.loaded_at_end(value, label), label)
                for value, label in phi.incoming
                if label in inside
            )
            lines.append("  " + phi_text(phi, sources))
            after_phis += memory.store(phi.result)
        lines += after_phis
        for item in block.body:
            before, names = memory.load(item.operands)
            lines += before
            lines.append("  " + item.renamed(names))
            lines += memory.store(item.result)
        for successor in block.successors:
            if successor in inside and not isinstance(block.terminator, Cut):
                for phi in self.pieces.function.blocks[successor].phis:
                    for value, label in phi.incoming:
                        if label == block.label:
                            lines += memory.load_at_end(value, label)
        if isinstance(block.terminator, Cut):
            lines += self._stores(piece, block.terminator.target, memory)
            results.append((block.label, str(self.numbers[block.terminator.target]), "0"))
            lines.append("  br label %piece.end")
            return lines
        assert block.terminator is not None
        before, names = memory.load(block.terminator.operands)
        lines += before
        code = return_code(block)
        if code is not None:
            results.append((block.label, str(_DONE), names.get(code, code)))
            lines.append("  br label %piece.end")
        else:
            lines.append("  " + block.terminator.renamed(names))
        return lines

    def _stores(self, piece: Piece, target: str, memory: "_InMemory") -> list[str]:
        lines: list[str] = []
        for slot in self._stored(piece):
            if slot.value not in self.pieces.live[target]:
                continue
            before, names = memory.load((slot.value,))
            lines += before
            value = names.get(slot.value, slot.value)
            if slot.varying:
                address = memory.fresh(slot.value)
                lines.append(
                    f"  {address} = getelementptr inbounds {slot.type}, "
                    f"ptr {_name(slot.value, 'slot')}, i64 %thread"
                )
            else:
                address = _name(slot.value, "out")
            lines.append(f"  store {slot.type} {value}, ptr {address}")
        return lines

    def _piece_end(self, results: list[tuple[str, str, str]]) -> list[str]:
        lines = ["piece.end:"]
        if not results:
            # Every way ends in `unreachable`.
            return [*lines, "  unreachable"]
        following = ", ".join(f"[ {state}, {label} ]" for label, state, _ in results)
        faults = ", ".join(f"[ {code}, {label} ]" for label, _, code in results)
        return [
            *lines,
            f"  %piece.next = phi i32 {following}",
            f"  %piece.fault = phi i32 {faults}",
            "  %piece.pair = insertvalue { i32, i32 } poison, i32 %piece.next, 0",
            "  %piece.both = insertvalue { i32, i32 } %piece.pair, i32 %piece.fault, 1",
            "  ret { i32, i32 } %piece.both",
        ]

    # ---- the machine ----------------------------------------------------------------------

    def block_function(self) -> str:
        user = user_parameters(self.body)
        parameters = [*BLOCK_PARAMETERS, *user, ("ptr noalias", "%private.room")]
        lines = [
            f"define internal i32 @haulage.block({parameter_list(parameters)}) noinline {{",
            "block.start:",
            "  %ret = alloca ptr",
            *(["  %fault = alloca i32", "  store i32 0, ptr %fault"] if self.body.may_fail else []),
            *shared_rooms(self.body),
            *private_rooms(self.body, self.threads),
        ]
        for slot in self.pieces.slots.values():
            room = f"[{self.threads} x {slot.type}]" if slot.varying else slot.type
            lines.append(f"  {_name(slot.value, 'room')} = alloca {room}, align 64")
        lines.append("  br label %state.0")
        for piece in self.pieces.pieces:
            lines += self._state(piece)
        lines.append("done:")
        if self.body.may_fail:
            lines += ["  %result = load i32, ptr %fault", "  ret i32 %result", "}"]
        else:
            lines += ["  ret i32 0", "}"]
        return "\n".join(lines)

    def _state(self, piece: Piece) -> list[str]:
        k = piece.number
        lines = [f"state.{k}:"]
        given = []
        for parameter in self._slot_parameters(piece):
            room = _name(parameter.value, "room")
            if parameter.role == "in":
                value = _name(parameter.value, f"in.{k}")
                lines.append(f"  {value} = load {parameter.type}, ptr {room}")
                given.append((parameter.type, value))
            else:
                given.append(("ptr", room))
        lines += self._open_loops(k)
        x, y, z = self._thread(k)
        lines += [
            f"  %plane.{k} = mul nuw nsw i32 {z}, {self.block[0] * self.block[1]}",
            f"  %row.{k} = mul nuw nsw i32 {y}, {self.block[0]}",
            f"  %upper.{k} = add nuw nsw i32 %plane.{k}, %row.{k}",
            f"  %linear.{k} = add nuw nsw i32 %upper.{k}, {x}",
            f"  %thread.{k} = zext i32 %linear.{k} to i64",
        ]
        private, pointers = private_pointers(self.body, f"%thread.{k}", f".{k}")
        lines += private
        arguments = argument_list(
            [
                ("ptr", "%ret"),
                *(("i32", value) for value in (x, y, z)),
                *(("i32", f"%blockIdx.{axis}") for axis in "xyz"),
                *(("i32", str(size)) for size in self.block),
                *(("i32", f"%gridDim.{axis}") for axis in "xyz"),
                ("ptr", "%dynamicShared"),
                ("i64", "%dynamicSharedBytes"),
                *user_parameters(self.body, attributes=False),
                *(("ptr", room.name) for room in self.body.shared),
                *(("ptr", pointer) for pointer in pointers),
                ("i64", f"%thread.{k}"),
                *given,
            ]
        )
        lines.append(
            f"  %both.{k} = call {{ i32, i32 }} @haulage.piece.{k}({arguments})"
            f"{self.metadata.access()}"
        )
        lines.append(f"  %next.{k} = extractvalue {{ i32, i32 }} %both.{k}, 0")
        lines += self._close_loops(piece)
        lines += self._go_on(piece)
        return lines

    def _axes(self) -> list[tuple[str, int]]:
        """The axes to loop over, outermost first; x at least, so that there is a loop."""
        sizes = dict(zip("xyz", self.block, strict=True))
        return [(axis, sizes[axis]) for axis in "zyx" if sizes[axis] > 1 or axis == "x"]

    def _thread(self, k: int) -> tuple[str, str, str]:
        looped = {axis for axis, _ in self._axes()}
        x, y, z = (f"%{axis}.{k}" if axis in looped else "0" for axis in "xyz")
        return x, y, z

    def _open_loops(self, k: int) -> list[str]:
        lines: list[str] = []
        before = f"state.{k}"
        outer_fault = "0"
        for axis, _ in self._axes():
            lines += [
                f"  br label %loop.{axis}.{k}",
                f"loop.{axis}.{k}:",
                f"  %{axis}.{k} = phi i32 [ 0, %{before} ], "
                f"[ %{axis}.after.{k}, %latch.{axis}.{k} ]",
            ]
            if self.body.may_fail:
                lines.append(
                    f"  %fault.{axis}.{k} = phi i32 [ {outer_fault}, %{before} ], "
                    f"[ %fault.now.{k}, %latch.{axis}.{k} ]"
                )
                outer_fault = f"%fault.{axis}.{k}"
            before = f"loop.{axis}.{k}"
        return lines

    def _close_loops(self, piece: Piece) -> list[str]:
        k = piece.number
        lines: list[str] = []
        if self.body.may_fail:
            lines += [
                f"  %fault.this.{k} = extractvalue {{ i32, i32 }} %both.{k}, 1",
                f"  %fault.now.{k} = call i32 @llvm.umax.i32"
                f"(i32 %fault.x.{k}, i32 %fault.this.{k})",
            ]
        for axis, size in reversed(self._axes()):
            inner = axis == "x"
            note = self.metadata.thread_loop(size) if inner else ""
            lines += [
                f"  br label %latch.{axis}.{k}",
                f"latch.{axis}.{k}:",
                f"  %{axis}.after.{k} = add nuw nsw i32 %{axis}.{k}, 1",
                f"  %{axis}.more.{k} = icmp ult i32 %{axis}.after.{k}, {size}",
                f"  br i1 %{axis}.more.{k}, label %loop.{axis}.{k}, label %out.{axis}.{k}{note}",
                f"out.{axis}.{k}:",
            ]
        return lines

    def _go_on(self, piece: Piece) -> list[str]:
        k = piece.number
        lines: list[str] = []
        if self.body.may_fail:
            lines += [
                f"  %fault.old.{k} = load i32, ptr %fault",
                f"  %fault.new.{k} = call i32 @llvm.umax.i32"
                f"(i32 %fault.old.{k}, i32 %fault.now.{k})",
                f"  store i32 %fault.new.{k}, ptr %fault",
            ]
        states = [self.numbers[label] for label in piece.exits]
        if not states:
            return [*lines, "  br label %done"]
        if len(states) == 1 and not piece.returns:
            return [*lines, f"  br label %state.{states[0]}"]
        default = "%done" if piece.returns else f"%state.{states.pop()}"
        cases = " ".join(f"i32 {state}, label %state.{state}" for state in states)
        return [*lines, f"  switch i32 %next.{k}, label {default} [ {cases} ]"]


@dataclass(frozen=True)
class _SlotParameter:
    """A parameter of a piece: a uniform slot's value ("in") or address ("out"), or the address of a
    varying slot's first element ("slot")."""

    type: str
    value: str
    role: str


class _InMemory:
    """Values that a piece both starts with and makes again: kept in memory inside the piece."""

    def __init__(self, types: dict[str, str], names: dict[str, str]) -> None:
        self._types = types
        self._names = names
        self._at_end: dict[tuple[str, str], str] = {}
        self._loaded: set[str] = set()
        self._count = 0

    def fresh(self, name: str) -> str:
        self._count += 1
        return _name(name, f"use.{self._count}")

    def load(self, operands: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
        """Lines that load what is in memory of `operands`, and the names all of them have now."""
        lines: list[str] = []
        names: dict[str, str] = {}
        for name in operands:
            if name in names:
                continue
            if name in self._types:
                names[name] = self.fresh(name)
                lines.append(
                    f"  {names[name]} = load {self._types[name]}, ptr {_name(name, 'mem')}"
                )
            elif name in self._names:
                names[name] = self._names[name]
        return lines, names

    def store(self, result: str | None) -> list[str]:
        """The line that keeps `result` in memory, if that is where it lives."""
        if result is None or result not in self._types:
            return []
        return [f"  store {self._types[result]} {result}, ptr {_name(result, 'mem')}"]

    def loaded_at_end(self, value: str, label: str) -> str:
        """The name that a phi's source `value` has at the end of the block `label`."""
        if value in self._types:
            return self._at_end.setdefault((value, label), self.fresh(value))
        return self._names.get(value, value)

    def load_at_end(self, value: str, label: str) -> list[str]:
        """The line at the end of `label` that loads what `loaded_at_end` named; once."""
        if value not in self._types:
            return []
        name = self.loaded_at_end(value, label)
        if name in self._loaded:
            return []
        self._loaded.add(name)
        return [f"  {name} = load {self._types[value]}, ptr {_name(value, 'mem')}"]


def _name(name: str, suffix: str) -> str:
    return '%"' + name[1:].strip('"') + f'.{suffix}"'
