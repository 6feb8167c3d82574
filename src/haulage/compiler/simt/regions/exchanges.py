"""Exchanges of values between the lanes of a warp, in a body of regions (`targets/cpu_lanes.py`).

An exchange ends a region. In front of it each lane stores what it gives to storage of its warp,
behind it each loads its answer; in between all answers are computed (`warp_collectives.py`). The
storage has an element for each lane, but one only for an answer that is uniform. The next exchange
may use it again: it is not in the same loop over the lanes.
"""

from dataclasses import dataclass

from haulage.compiler.simt.analysis.barriers import place_of
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.analysis.warps import is_uniform_exchange
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Function, Instruction, Operand, RegionEnd
from haulage.targets.cpu_lanes import EXCHANGES, MATCH_NAMES

# The number that the writer of regions gives a lane for its elements.
_LANE = "%thread"

# The two answers of a match.
_PARTS = ("answer", "here")


@dataclass(frozen=True)
class Exchange:
    """An exchange behind a region's end.

    `kind` is that of a shuffle, or "match"; `bits` and `lanes` the widths of values and masks.
    `asked` tells which lane a shuffle reads, or which value a match wants: a constant, or None and
    in storage, whose first element is that of all lanes if it is `single`. `mask` says the same of
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

    def storage(self, part: str) -> str:
        """The name of the storage of what lanes give, "value", "asked" and "mask", and of the
        answers, "answer" and "here"; there is some for each width."""
        return f"%haulage.exchange.{part}.{self.width(part)}"

    def width(self, part: str) -> int:
        """Bits of an element of some storage."""
        if part == "value" or (part == "asked" and self.kind == "match"):
            return self.bits
        if part == "asked":
            return 32
        return self.bits if part == "answer" and self.kind != "match" else self.lanes

    @property
    def needed(self) -> tuple[str, ...]:
        """The names of the storage that it needs."""
        parts = ["value", "answer"]
        parts += ["asked"] if self.asked is None else []
        parts += ["mask"] if self.masked and self.mask is None else []
        parts += ["here"] if 1 in self.answers else []
        return tuple(map(self.storage, parts))


def split(function: Function, flow: Uniformity) -> dict[str, Exchange]:
    """End regions of `function`, which is changed, at its exchanges; these are given by the labels
    behind. `flow` is that of the lanes of a warp."""
    found: dict[str, Exchange] = {}
    waiting = list(function.blocks)
    while waiting:
        label = waiting.pop(0)
        body = function.blocks[label].body
        for number, call in enumerate(body):
            if call.callee in EXCHANGES:
                stem = f"exchange.{len(found) + 1}"
                exchange = _read(function, call, flow)
                body[number : number + 1] = gives = _given(call, exchange, stem)
                behind = f"%after.{stem}"
                end = RegionEnd(behind, "warp", place_of(call))
                function.split(label, number + len(gives), behind, end)
                function.blocks[behind].body[:0] = _answered(function, call, exchange, stem)
                found[behind] = exchange
                waiting.insert(0, behind)
                break
    return found


def _taken(item: Instruction) -> int | None:
    """Which part of a pair an instruction takes."""
    return item.indices[0] if item.opcode == "extractvalue" else None


def _used_answers(function: Function, call: Instruction) -> tuple[int, ...]:
    """Which of the two answers of a match somebody asks for."""
    taken = {_taken(item) for item in function.users().get(call.result or "", ())}
    return (0, 1) if None in taken else tuple(sorted(each for each in taken if each is not None))


def _read(function: Function, call: Instruction, flow: Uniformity) -> Exchange:
    """What the call of an exchange says; `flow` is that of the lanes of a warp."""
    assert call.callee is not None
    word, *kind, bits, lanes = call.callee.split(".")[1:]
    is_match = call.callee in MATCH_NAMES
    mask = None if word == "meet" else call.operands[1]
    asked = call.operands[-2]
    is_alike = asked.text not in flow.varying
    return Exchange(
        "match" if is_match else kind[0],
        int(bits),
        int(lanes),
        None if asked.is_local else asked.text,
        is_alike,
        # Where lanes may have left, the first one need not be there to say it.
        is_alike and not flow.masks,
        mask is not None,
        None if mask is None or mask.is_local else mask.text,
        is_uniform_exchange(call, flow.varying),
        _used_answers(function, call) if is_match else (),
    )


def _given(call: Instruction, exchange: Exchange, stem: str) -> list[Instruction]:
    """Instructions in front of the region's end: what the lane gives."""
    values = call.operands
    result = _store(values[-3], exchange.storage("value"), f"%{stem}.value")
    if exchange.asked is None:
        single = exchange.single
        result += _store(values[-2], exchange.storage("asked"), f"%{stem}.asked", single=single)
    if exchange.masked and exchange.mask is None:
        result += _store(values[1], exchange.storage("mask"), f"%{stem}.mask")
    return result


def _answered(
    function: Function, call: Instruction, exchange: Exchange, stem: str
) -> list[Instruction]:
    """Instructions behind the region's end, where the lane loads its answers; who used the call's
    result uses these instead."""
    assert call.result is not None
    if exchange.kind != "match":
        return _load(exchange, "answer", stem, call.result)
    result: list[Instruction] = []
    uses = function.users().get(call.result, [])
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
        # Both answers as one value, as the call gave them.
        half, lanes = f"%{stem}.half", f"i{exchange.lanes}"
        result += [
            Builder.insert(call.type, "poison", (lanes, names[0]), 0, name=half),
            Builder.insert(call.type, half, (lanes, names[1]), 1, name=call.result),
        ]
    return result


def _load(exchange: Exchange, part: str, stem: str, name: str) -> list[Instruction]:
    storage, kind = exchange.storage(part), f"i{exchange.width(part)}"
    if exchange.alike:
        return [Builder.load(kind, storage, name=name)]
    address = f"%{stem}.{part}"
    return [_element(kind, storage, address), Builder.load(kind, address, name=name)]


def _store(
    value: Operand, storage: str, address: str, *, single: bool = False
) -> list[Instruction]:
    if single:
        return [Builder.store(value.type, value.text, storage)]
    element = _element(value.type, storage, address)
    return [element, Builder.store(value.type, value.text, address)]


def _element(kind: str, storage: str, address: str) -> Instruction:
    return Builder.element(kind, storage, _LANE, "inbounds", name=address)
