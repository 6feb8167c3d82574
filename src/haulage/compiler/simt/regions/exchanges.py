"""Exchanges of values between the lanes of a warp in a cut body (`targets/cpu_lanes.py`).

An exchange is a cut. In front of it each lane stores what it gives to rooms of its warp, behind it
each loads its answer; in between all answers are computed (`warp_collectives.py`). The rooms
have an element for each lane, but those for an answer that all lanes share. The next exchange may
use them again: it is not in the same loop over the lanes.
"""

from dataclasses import dataclass

from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.analysis.warps import answers_alike, arguments
from haulage.compiler.simt.ir import build
from haulage.compiler.simt.ir.model import Block, Function, Instruction, RegionEnd
from haulage.targets.cpu_lanes import EXCHANGES, MATCH_NAMES

# The number that the writer of regions gives a lane for its elements.
_LANE = "%thread"

# The two answers of a match.
_PARTS = ("answer", "here")


@dataclass(frozen=True)
class Exchange:
    """An exchange behind a cut.

    `kind` is that of a shuffle, or "match"; `bits` and `lanes` the widths of values and masks.
    `asked` tells which lane a shuffle reads, or which value a match wants: a constant, or None and
    in a room, whose first element is that of all lanes if it is `single`. `mask` says the same of
    the lanes that count, unless `masked` is false: then those that are there do. `alike` says
    whether all lanes get one answer, `answers` which of a match's two are used.
    """

    kind: str
    bits: int
    lanes: int
    asked: str | None
    asked_alike: bool
    single: bool
    masked: bool
    mask: str | None
    alike: bool
    answers: tuple[int, ...]

    def room(self, part: str) -> str:
        """The name of the room for what lanes give, "value", "asked" and "mask", and for the
        answers, "answer" and "here"; there are some for each width."""
        return f"%haulage.exchange.{part}.{self.width(part)}"

    def width(self, part: str) -> int:
        """Bits of an element of a room."""
        if part == "value" or (part == "asked" and self.kind == "match"):
            return self.bits
        if part == "asked":
            return 32
        return self.bits if part == "answer" and self.kind != "match" else self.lanes

    @property
    def rooms(self) -> tuple[str, ...]:
        """The names of the rooms that it needs."""
        parts = ["value", "answer"]
        parts += ["asked"] if self.asked is None else []
        parts += ["mask"] if self.masked and self.mask is None else []
        parts += ["here"] if 1 in self.answers else []
        return tuple(self.room(part) for part in parts)


def split(function: Function, flow: Uniformity) -> dict[str, Exchange]:
    """RegionEnd `function`, which is changed, at its exchanges; gives them by the labels behind the
    cuts.

    `flow` is that of the lanes of a warp.
    """
    found: dict[str, Exchange] = {}
    for label in list(function.blocks):
        while (number := _first(function.blocks[label])) is not None:
            block = function.blocks[label]
            stem = f"exchange.{len(found) + 1}"
            call = block.body[number]
            exchange = read(function, call, flow)
            block.body[number : number + 1] = gives = given(call, exchange, stem)
            behind = f"%after.{stem}"
            place = int(arguments(call)[-1][1])
            function.split(label, number + len(gives), behind, RegionEnd(behind, "warp", place))
            function.blocks[behind].body[:0] = _answered(function, call, exchange, stem)
            found[behind] = exchange
            label = behind
    return found


def _first(block: Block) -> int | None:
    for number, item in enumerate(block.body):
        if item.callee in EXCHANGES:
            return number
    return None


def _uses(function: Function, name: str | None) -> list[Instruction]:
    return [
        item
        for block in function.blocks.values()
        for item in block.instructions()
        if name in item.uses
    ]


def _taken(item: Instruction) -> int | None:
    """Which part of a pair an instruction takes."""
    return int(item.text.rsplit(", ", 1)[1]) if item.opcode == "extractvalue" else None


def _used_answers(function: Function, call: Instruction) -> tuple[int, ...]:
    """Which of the two answers of a match somebody asks for."""
    taken = {_taken(item) for item in _uses(function, call.result)}
    return (
        (0, 1) if None in taken else tuple(sorted(number for number in taken if number is not None))
    )


def read(function: Function, call: Instruction, flow: Uniformity) -> Exchange:
    """What the call of an exchange says; `flow` is that of the lanes of a warp."""
    assert call.callee is not None
    word, *kind, bits, lanes = call.callee.split(".")[1:]
    given = arguments(call)
    is_match = call.callee in MATCH_NAMES
    mask = None if word == "meet" else given[1][1]
    asked = given[-2][1]
    return Exchange(
        "match" if is_match else kind[0],
        int(bits),
        int(lanes),
        None if asked.startswith("%") else asked,
        asked not in flow.varying,
        # Where lanes may have left, the first one need not be there to say it.
        asked not in flow.varying and not flow.masks,
        mask is not None,
        None if mask is None or mask.startswith("%") else mask,
        answers_alike(call, flow.varying),
        _used_answers(function, call) if is_match else (),
    )


def given(call: Instruction, exchange: Exchange, stem: str) -> list[Instruction]:
    """Instructions in front of the cut: what the lane gives."""
    values = arguments(call)
    result = _store(values[-3], exchange.room("value"), f"{stem}.value")
    if exchange.asked is None:
        room = exchange.room("asked")
        result += _store(values[-2], room, f"{stem}.asked", single=exchange.single)
    if exchange.masked and exchange.mask is None:
        result += _store(values[1], exchange.room("mask"), f"{stem}.mask")
    return result


def _answered(
    function: Function, call: Instruction, exchange: Exchange, stem: str
) -> list[Instruction]:
    """Instructions behind the cut, where the lane loads its answers; who used the call's result
    uses these instead."""
    assert call.result is not None
    if exchange.kind != "match":
        return _load(exchange, "answer", stem, call.result)
    result: list[Instruction] = []
    uses = _uses(function, call.result)
    names: dict[int, str] = {}
    others: dict[str, str] = {}
    for number in exchange.answers:
        # Values keep the names that they have where it is known which of them differ.
        found = [use.result for use in uses if _taken(use) == number and use.result]
        names[number] = found[0] if found else f"%{stem}.{_PARTS[number]}.now"
        others |= dict.fromkeys(found[1:], names[number])
        result += _load(exchange, _PARTS[number], stem, names[number])
    function.rename(others)
    for block in function.blocks.values():
        block.body = [
            item for item in block.body if _taken(item) is None or call.result not in item.uses
        ]
    if any(_taken(use) is None for use in uses):
        result += _pair(call, exchange, names[0], names[1], stem)
    return result


def _pair(
    call: Instruction, exchange: Exchange, answer: str, here: str, stem: str
) -> list[Instruction]:
    """Instructions that make both answers one value, as the call gave them."""
    assert call.result is not None
    kind, half = call.type, f"%{stem}.half"
    lanes = f"i{exchange.lanes}"
    return [
        build.insert_value(half, (kind, "poison"), (lanes, answer), 0),
        build.insert_value(call.result, (kind, half), (lanes, here), 1),
    ]


def _load(exchange: Exchange, part: str, stem: str, name: str) -> list[Instruction]:
    room, kind = exchange.room(part), f"i{exchange.width(part)}"
    address = room if exchange.alike else f"%{stem}.{part}"
    load = build.load(name, kind, address)
    return [load] if exchange.alike else [_element(kind, room, address), load]


def _store(
    value: tuple[str, str], room: str, stem: str, *, single: bool = False
) -> list[Instruction]:
    kind, given = value
    address = room if single else f"%{stem}"
    store = build.store(kind, given, address)
    return [store] if single else [_element(kind, room, address), store]


def _element(kind: str, room: str, address: str) -> Instruction:
    return build.element(address, kind, room, _LANE, "inbounds")
