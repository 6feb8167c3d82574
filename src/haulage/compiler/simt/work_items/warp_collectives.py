"""Writes what happens between the two sides of a warp collective: all lanes' answers are computed.

The values of a warp are one LLVM vector. A shuffle by a power of two that is uniform is one
permutation with constant places; by another number one for each bit that is set. A vote compares
all values at once and turns the result into a mask.
"""

from collections.abc import Iterable

from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Function, Instruction, Operand
from haulage.compiler.simt.regions.exchanges import Exchange

# What the address of the storage is a multiple of.
_ALIGN = 64


def storage(collectives: Iterable[Exchange], lanes: int) -> dict[str, int]:
    """Name and bytes of the storage of all collectives of a kernel whose warps have so many
    lanes."""
    return {
        name: lanes * int(name.rsplit(".", 1)[1]) // 8
        for collective in collectives
        for name in collective.needed
    }


def functions(collectives: Iterable[Exchange]) -> list[Function]:
    """The functions that are called by what `answer` writes."""
    found: dict[str, Function] = {}
    for collective in collectives:
        if collective.kind in ("up", "down", "xor") and collective.asked_alike:
            found[_permutation_name(collective)] = _permutation(collective)
    return list(found.values())


def answer(b: Builder, collective: Exchange, leader: str, there: str) -> None:
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
            _shuffle_one(b, collective, loop.index)


def _vector(collective: Exchange) -> str:
    return f"<{collective.lanes} x i{collective.bits}>"


def _given(b: Builder, collective: Exchange, part: str, lane: str) -> str:
    """What a lane gave as `part`, which may be a constant."""
    constant = collective.mask if part == "mask" else collective.asked
    if constant is not None:
        return constant
    kind = f"i{collective.width(part)}"
    return b.load(kind, b.at(kind, collective.storage(part), lane))


# ---- shuffles -----------------------------------------------------------------------------------


def _shuffle_all(b: Builder, collective: Exchange, values: str, leader: str) -> None:
    """Shuffle by a number that is uniform."""
    kind, vector = f"i{collective.bits}", _vector(collective)
    number = _given(b, collective, "asked", leader)
    if collective.alike:
        result = kind, b.extract_element(vector, values, ("i32", number))
    else:
        arguments = [(vector, values), ("i32", number)]
        result = vector, b.call(vector, _permutation_name(collective), arguments)
    b.store(*result, collective.storage("answer"), _ALIGN)


def _shuffle_one(b: Builder, collective: Exchange, lane: str) -> None:
    """Find the answer of one lane, if each asks for another number."""
    kind, lanes = f"i{collective.bits}", collective.lanes
    place = _given(b, collective, "asked", lane)
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


def _permutation_name(collective: Exchange) -> str:
    return f"haulage.permute.{collective.kind}.{collective.bits}.{collective.lanes}"


def _permutation(collective: Exchange) -> Function:
    """The function that gives each lane the value which is `%number` away, or its own."""
    vector, lanes = _vector(collective), collective.lanes
    b = Builder(_permutation_name(collective), [(vector, "%values"), ("i32", "%number")], vector)
    bits = range(lanes.bit_length() - 1)
    b.block("%start")
    b.switch("i32", "%number", "%any", [(1 << bit, f"%by.{1 << bit}") for bit in bits])
    for bit in bits:
        b.block(f"%by.{1 << bit}")
        b.ret(vector, _moved(b, collective, "%values", 1 << bit))
    b.block("%any")
    moved = "%values"
    for bit in bits:
        further = _moved(b, collective, moved, 1 << bit)
        masked = b.binary("and", "i32", "%number", str(1 << bit))
        moved = b.select(b.compare("ne", "i32", masked, "0"), vector, further, moved)
    if collective.kind != "xor":
        moved = _own_beyond(b, collective, moved)
    b.ret(vector, moved)
    return b.function


def _moved(b: Builder, collective: Exchange, values: str, step: int) -> str:
    """Each lane's value from a power of two away, or its own."""
    lanes = range(collective.lanes)
    if collective.kind == "xor":
        return b.shuffle(_vector(collective), values, [lane ^ step for lane in lanes])
    step = -step if collective.kind == "up" else step
    places = [lane + step if lane + step in lanes else lane for lane in lanes]
    return b.shuffle(_vector(collective), values, places)


def _own_beyond(b: Builder, collective: Exchange, moved: str) -> str:
    """Leave lanes with their own value for which there is none that far away."""
    lanes, vector = collective.lanes, _vector(collective)
    numbers = range(lanes) if collective.kind == "up" else range(lanes - 1, -1, -1)
    order = ", ".join(f"i32 {number}" for number in numbers)
    number = b.splat(lanes, "i32", "%number")
    is_within = b.compare("uge", f"<{lanes} x i32>", f"<{order}>", number)
    condition = Operand(f"<{lanes} x i1>", is_within)
    operands = condition, Operand(vector, moved), Operand(vector, "%values")
    return b.add(Instruction("select", vector, b.fresh(), operands))


# ---- matches and votes --------------------------------------------------------------------------


def _match(b: Builder, collective: Exchange, values: str, lane: str, there: str) -> None:
    """Find which lanes have the value that a lane wants, and which count; store what is used of
    this for that lane, or for all of them if they have one answer."""
    lanes, kind = collective.lanes, f"i{collective.lanes}"
    wanted = _given(b, collective, "asked", lane)
    here = there
    if collective.masked:
        here = b.binary("and", kind, there, _given(b, collective, "mask", lane))
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
