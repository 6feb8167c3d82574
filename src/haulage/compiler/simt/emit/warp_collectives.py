"""Warp collectives: shuffles, votes and matches of the lanes of a warp (`targets/cpu_lanes.py`).

A collective ends a region. In front of it each lane stores what it gives to storage of its warp,
behind it each loads its answer; the storage has an element for each lane, but one only for an
answer that is uniform. In between the answers of all lanes are computed at once, as values of a
warp are one LLVM vector: a shuffle by a power of two that is uniform is one permutation with
constant places, any other one a loop over the lanes; a vote compares all values and turns the
result into a mask. The next collective may use the storage again: it is not in the same
loop over the lanes.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from haulage.compiler.simt.analysis.barriers import place_of
from haulage.compiler.simt.analysis.kernel import Storage
from haulage.compiler.simt.analysis.uniformity import LANE, Uniformity, is_uniform_collective
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Function, Instruction, Operand, RegionEnd
from haulage.targets.cpu_lanes import COLLECTIVES, MATCH_NAMES

# The two answers of a match.
_PARTS = ("answer", "here")
# What the address of the storage is a multiple of.
_ALIGN = 64


@dataclass(frozen=True)
class Collective:
    """A collective behind a region's end.

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
        return f"%haulage.collective.{part}.{self.width(part)}"

    def width(self, part: str) -> int:
        """Bits of an element of some storage."""
        if part == "value" or (part == "asked" and self.kind == "match"):
            return self.bits
        if part == "asked":
            return 32
        return self.bits if part == "answer" and self.kind != "match" else self.lanes

    @property
    def needed(self) -> list[str]:
        """The parts that it needs storage for."""
        optional = {
            "asked": self.asked is None,
            "mask": self.masked and self.mask is None,
            "here": 1 in self.answers,
        }
        return ["value", "answer", *(part for part, is_needed in optional.items() if is_needed)]


def storage(collectives: Iterable[Collective]) -> tuple[Storage, ...]:
    """The memory of all collectives of a kernel, which every region is given."""
    found = {
        collective.storage(part): collective.lanes * collective.width(part) // 8
        for collective in collectives
        for part in collective.needed
    }
    return tuple(Storage(name, nbytes, _ALIGN) for name, nbytes in sorted(found.items()))


# ---- the two sides of a collective --------------------------------------------------------------


def split(function: Function, flow: Uniformity) -> dict[str, Collective]:
    """End regions of `function`, which is changed, at its collectives; these are given by the
    labels behind. `flow` is that of the lanes of a warp."""
    found: dict[str, Collective] = {}
    waiting = list(function.blocks)
    while waiting:
        label = waiting.pop(0)
        body = function.blocks[label].body
        for number, call in enumerate(body):
            if call.callee in COLLECTIVES:
                stem = f"collective.{len(found) + 1}"
                collective = _read(function, call, flow)
                body[number : number + 1] = gives = _given(call, collective, stem)
                behind = f"%after.{stem}"
                end = RegionEnd(behind, "warp", place_of(call))
                function.split(label, number + len(gives), behind, end)
                function.blocks[behind].body[:0] = _answered(call, collective, stem)
                found[behind] = collective
                waiting.insert(0, behind)
                break
    return found


def _used_answers(function: Function, call: Instruction) -> tuple[int, ...]:
    """Which of the two answers of a match somebody asks for."""
    users = function.users().get(call.result or "", ())
    taken = {user.indices[0] if user.opcode == "extractvalue" else None for user in users}
    return (0, 1) if None in taken else tuple(sorted(each for each in taken if each is not None))


def _read(function: Function, call: Instruction, flow: Uniformity) -> Collective:
    """What the call of a collective says; `flow` is that of the lanes of a warp."""
    assert call.callee is not None
    word, *kind, bits, lanes = call.callee.split(".")[1:]
    is_match = call.callee in MATCH_NAMES
    mask = None if word == "meet" else call.operands[1]
    asked = call.operands[-2]
    is_alike = asked.text not in flow.varying
    return Collective(
        "match" if is_match else kind[0],
        int(bits),
        int(lanes),
        None if asked.is_local else asked.text,
        is_alike,
        # Where lanes may have left, the first one need not be there to say it.
        is_alike and not flow.masks,
        mask is not None,
        None if mask is None or mask.is_local else mask.text,
        is_uniform_collective(call, flow.varying),
        _used_answers(function, call) if is_match else (),
    )


def _given(call: Instruction, collective: Collective, stem: str) -> list[Instruction]:
    """Instructions in front of the region's end: what the lane gives."""
    values = call.operands
    result = _store(values[-3], collective.storage("value"), f"%{stem}.value")
    if collective.asked is None:
        single = collective.single
        result += _store(values[-2], collective.storage("asked"), f"%{stem}.asked", single=single)
    if collective.masked and collective.mask is None:
        result += _store(values[1], collective.storage("mask"), f"%{stem}.mask")
    return result


def _answered(call: Instruction, collective: Collective, stem: str) -> list[Instruction]:
    """Instructions behind the region's end, where the lane loads its answers; of a match both are
    one value, as the call gave them."""
    assert call.result is not None
    if collective.kind != "match":
        return _load(collective, "answer", stem, call.result)
    result: list[Instruction] = []
    pair = "poison"
    for number in collective.answers:
        part, name = _PARTS[number], f"%{stem}.{_PARTS[number]}.now"
        last = call.result if number == collective.answers[-1] else f"%{stem}.half"
        answer = f"i{collective.lanes}", name
        result += _load(collective, part, stem, name)
        result.append(Builder.insert(call.type, pair, answer, number, name=last))
        pair = last
    return result


def _load(collective: Collective, part: str, stem: str, name: str) -> list[Instruction]:
    storage, kind = collective.storage(part), f"i{collective.width(part)}"
    if collective.alike:
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
    return Builder.element(kind, storage, LANE, "inbounds", name=address)


# ---- all answers --------------------------------------------------------------------------------


def answer(b: Builder, collective: Collective, leader: str, there: str) -> None:
    """Compute the answers.

    `leader` is the number of a lane that is there, an i64, and `there` the mask of all that are.
    """
    vector = _vector(collective)
    loaded = b.load(vector, collective.storage("value"), _ALIGN)
    # What lanes give that are not there is anything.
    values = b.freeze(vector, loaded)
    if collective.kind == "match":
        if collective.alike:
            _match(b, collective, values, leader, there)
        else:
            with b.loop("match", collective.lanes) as loop:
                _match(b, collective, values, loop.index, there)
    elif collective.asked_alike:
        _shuffle_all(b, collective, values, leader)
    else:
        with b.loop("shuffle", collective.lanes) as loop:
            place = _given_by(b, collective, "asked", loop.index)
            _shuffle_one(b, collective, loop.index, place)


def _vector(collective: Collective) -> str:
    return f"<{collective.lanes} x i{collective.bits}>"


def _given_by(b: Builder, collective: Collective, part: str, lane: str) -> str:
    """What a lane gave as `part`, which may be a constant."""
    constant = collective.mask if part == "mask" else collective.asked
    if constant is not None:
        return constant
    kind = f"i{collective.width(part)}"
    return b.load(kind, b.at(kind, collective.storage(part), lane))


# ---- shuffles -----------------------------------------------------------------------------------


def _shuffle_all(b: Builder, collective: Collective, values: str, leader: str) -> None:
    """Shuffle by a number that is uniform."""
    kind, vector, lanes = f"i{collective.bits}", _vector(collective), collective.lanes
    number = _given_by(b, collective, "asked", leader)
    answers = collective.storage("answer")
    if collective.alike:
        b.store(kind, b.extract_element(vector, values, ("i32", number)), answers, _ALIGN)
        return
    steps = [1 << bit for bit in range(lanes.bit_length() - 1)]
    labels = [b.name(f"shuffle.by.{step}") for step in steps]
    other, behind = b.name("shuffle.by.any"), b.name("shuffle.behind")
    b.switch("i32", number, other, list(zip(steps, labels, strict=True)))
    for step, label in zip(steps, labels, strict=True):
        b.block(label)
        b.store(vector, _permuted(b, collective, values, step), answers, _ALIGN)
        b.jump(behind)
    b.block(other)
    with b.loop("shuffle", lanes) as loop:
        _shuffle_one(b, collective, loop.index, number)
    b.jump(behind)
    b.block(behind)


def _permuted(b: Builder, collective: Collective, values: str, step: int) -> str:
    """Each lane's value from a power of two away, or its own."""
    lanes = range(collective.lanes)
    if collective.kind == "xor":
        return b.shuffle(_vector(collective), values, [lane ^ step for lane in lanes])
    step = -step if collective.kind == "up" else step
    places = [lane + step if lane + step in lanes else lane for lane in lanes]
    return b.shuffle(_vector(collective), values, places)


def _shuffle_one(b: Builder, collective: Collective, lane: str, place: str) -> None:
    """Find the answer of one lane, which asks for the number `place`."""
    kind, lanes = f"i{collective.bits}", collective.lanes
    if collective.kind != "lane":
        own = b.cast("trunc", "i64", lane, "i32")
        operation = {"xor": "xor", "up": "sub", "down": "add"}[collective.kind]
        place = b.binary(operation, "i32", own, place)
        if collective.kind != "xor":
            is_within = b.compare("ult", "i32", place, str(lanes))
            place = b.select(is_within, "i32", place, own)
    # Lanes that are not there ask for anything.
    place = b.binary("and", "i32", place, str(lanes - 1))
    source = b.at(kind, collective.storage("value"), b.cast("zext", "i32", place, "i64"))
    b.store(kind, b.load(kind, source), b.at(kind, collective.storage("answer"), lane))


# ---- matches and votes --------------------------------------------------------------------------


def _match(b: Builder, collective: Collective, values: str, lane: str, there: str) -> None:
    """Find which lanes have the value that a lane wants, and which count; store what is used of
    this for that lane, or for all of them if they have one answer."""
    lanes, kind = collective.lanes, f"i{collective.lanes}"
    wanted = _given_by(b, collective, "asked", lane)
    here = there
    if collective.masked:
        here = b.binary("and", kind, there, _given_by(b, collective, "mask", lane))
    all_wanted = b.splat(lanes, f"i{collective.bits}", wanted)
    same = b.compare("eq", _vector(collective), values, all_wanted)
    equal = b.cast("bitcast", f"<{lanes} x i1>", same, kind)
    answers = ("answer", b.binary("and", kind, equal, here)), ("here", here)
    for number in collective.answers:
        part, value = answers[number]
        if collective.alike:
            b.store(kind, value, collective.storage(part), _ALIGN)
        else:
            b.store(kind, value, b.at(kind, collective.storage(part), lane))
