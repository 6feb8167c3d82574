"""Exchanges between lanes whose pattern is known, in as few instructions as AMD's GPUs have them.

The vector unit moves values within rows of 16 lanes (DPP), which takes no trip through the crossbar
of shared memory, as `ds_bpermute` does, and no register with addresses. Rows exchange values by
`v_permlanex16` from gfx10 on, before by `ds_swizzle`, that crossbar with a fixed pattern.

Each lane reads what another one has from the start, never what that one has fetched: it may not be
there. Sources: the documents of AMD's instruction sets, "Data Parallel Processing (DPP)",
`v_permlane16_b32`, `v_permlanex16_b32`, `ds_swizzle_b32`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_ROW = 16
_HALF = 32
_ALL = 0xF
# The rows of a half of 32 lanes, in both halves of a wavefront of 64.
_LOWER, _UPPER = 0b0101, 0b1010

# Controls of DPP.
_QUAD, _SHIFT_DOWN, _SHIFT_UP, _ROTATE = 0x000, 0x100, 0x110, 0x120
_NEXT, _BEFORE = 0x130, 0x138
_MIRROR, _HALF_MIRROR, _XOR = 0x140, 0x141, 0x160
_OWN = 0b11_10_01_00

# `ds_swizzle` with this bit pattern turns the lanes of a half around.
_ROTATED = 0xC000

# What is moved: what the lanes have from the start, or the result of the move of that number.
GIVEN = -1


@dataclass(frozen=True)
class Move:
    """One instruction: `word` is LLVM's name for it, without `llvm.amdgcn.`; `numbers` are its
    constants. Lanes that DPP does not write have what is `kept`; None where it writes all."""

    word: str
    numbers: tuple[int, ...]
    source: int = GIVEN
    kept: int | None = None


# Picks what one of two moves gave, by the half that a lane is in.
OF_HALVES = Move("halves", ())


def moves(reads: Sequence[int], *, is_new: bool) -> list[Move] | None:
    """The instructions that give each lane what the lane of the number in `reads` has; None if
    there are none, or no fewer than `ds_bpermute` takes.

    Args:
        reads: a number for each lane of a wavefront.
        is_new: whether the hardware is gfx10 or later.
    """
    for found in _forms(reads, is_new):
        if found is not None:
            return found
    return None


def _forms(reads: Sequence[int], is_new: bool) -> Iterator[list[Move] | None]:
    yield [] if list(reads) == list(range(len(reads))) else None
    yield _of_one_lane(reads)
    row = _pattern(reads, _ROW)
    if row is not None:
        yield _in_rows(row, is_new)
    half = _pattern(reads, _HALF)
    if half is None:
        return
    other = _pattern([lane ^ _ROW for lane in half], _ROW)
    if is_new and other is not None:
        yield [_permuted("permlanex16.i32", other)]
    if not is_new:
        yield _swizzled(half)
    for number in range(1, _ROW + 1):
        for step in (number, -number):
            if half == _along(step):
                yield _moved_along(step, is_new)
    if is_new and half == [(lane + half[0]) % _HALF for lane in range(_HALF)]:
        yield _turned(half[0])


def _of_one_lane(reads: Sequence[int]) -> list[Move] | None:
    firsts = reads[0], reads[-1]
    if all(lane == firsts[0] for lane in reads):
        return [Move("readlane.i32", (firsts[0],))]
    if len(reads) > _HALF and all(lane == firsts[n >= _HALF] for n, lane in enumerate(reads)):
        return [*(Move("readlane.i32", (lane,)) for lane in firsts), OF_HALVES]
    return None


def _pattern(reads: Sequence[int], size: int) -> list[int] | None:
    """Where in a group of so many lanes each one of it reads, if it is the same in all groups."""
    first = list(reads[:size])
    is_same = all(0 <= lane < size for lane in first) and all(
        lane == first[number % size] + number - number % size for number, lane in enumerate(reads)
    )
    return first if is_same else None


def _in_rows(row: list[int], is_new: bool) -> list[Move] | None:
    quad = _pattern(row, 4)
    if quad is not None:
        return [_dpp(_QUAD + sum(lane << 2 * place for place, lane in enumerate(quad)))]
    if row == [15 - lane for lane in range(_ROW)]:
        return [_dpp(_MIRROR)]
    if row == _xored(7):
        return [_dpp(_HALF_MIRROR)]
    for number in range(1, _ROW):
        if row == [(lane - number) % _ROW for lane in range(_ROW)]:
            return [_dpp(_ROTATE + number)]
        if is_new and row == _xored(number):
            return [_dpp(_XOR + number)]
    if is_new:
        return [_permuted("permlane16.i32", row)]
    for number in (4, 12):
        if row == _xored(number):
            # Of the fours of a row the even ones read above them, or around, the odd ones below.
            turned = _dpp(_ROTATE + _ROW - number, banks=_LOWER)
            return [turned, _dpp(_ROTATE + number, kept=0, banks=_UPPER)]
    return None


def _xored(number: int) -> list[int]:
    return [lane ^ number for lane in range(_ROW)]


def _swizzled(half: list[int]) -> list[Move] | None:
    """By `ds_swizzle`: some bits of a lane's number stay, others are turned, the rest are fixed."""
    low = half[0]
    stays = sum(bit for bit in (1, 2, 4, 8, 16) if (half[bit] ^ low) & bit)
    if half == [lane & stays ^ low for lane in range(_HALF)]:
        return [Move("ds.swizzle", (low << 10 | stays,))]
    if half == [(lane + low) % _HALF for lane in range(_HALF)]:
        return [Move("ds.swizzle", (_ROTATED | low << 5,))]
    return None


def _along(step: int) -> list[int]:
    """Where the lanes of a half read `step` lanes on; its own where there is none."""
    return [lane + step if 0 <= lane + step < _HALF else lane for lane in range(_HALF)]


def _moved_along(step: int, is_new: bool) -> list[Move]:
    number, is_down = abs(step), step > 0
    inside = (_SHIFT_DOWN if is_down else _SHIFT_UP) + number
    # The lanes that read from the other row of their half are in one of its rows.
    rows = _LOWER if is_down else _UPPER
    if number == 1 and not is_new:
        control, banks = (_NEXT, 0b1000) if is_down else (_BEFORE, 0b0001)
        return [_dpp(inside, kept=GIVEN), _dpp(control, kept=0, rows=rows, banks=banks)]
    if is_new:
        other = _permuted("permlanex16.i32", [(lane + step) % _ROW for lane in range(_ROW)])
    else:
        turned = _ROW << 10 | (_HALF - 1) if number == _ROW else _ROTATED | (step % _HALF) << 5
        other = Move("ds.swizzle", (turned,))
    put = _dpp(_QUAD + _OWN, 0, kept=GIVEN, rows=rows)
    if number == _ROW:
        return [other, put]
    return [other, put, _dpp(inside, kept=1, rows=_ALL if is_new else _ALL ^ rows)]


def _turned(step: int) -> list[Move]:
    """Each lane reads `step` lanes on, those at the end of the half from its start."""
    places = [(lane + step) % _ROW for lane in range(_ROW)]
    # What lies in the lane's own row.
    inside = _SHIFT_DOWN + step if step < _ROW else _SHIFT_UP + _HALF - step
    return [_permuted("permlanex16.i32", places), _dpp(inside, kept=0)]


def _dpp(
    control: int,
    source: int = GIVEN,
    kept: int | None = None,
    rows: int = _ALL,
    banks: int = _ALL,
) -> Move:
    """Lanes of other rows, or of other fours of these, and those that would read from beyond the
    row have what is `kept`."""
    return Move("update.dpp.i32", (control, rows, banks), source, kept)


def _permuted(word: str, lanes: list[int]) -> Move:
    """`lanes` are the places in a row that those of one read."""
    picks = sum(lane << 4 * place for place, lane in enumerate(lanes))
    return Move(word, (picks & 0xFFFFFFFF, picks >> 32))
