"""Which pieces had better be run for one thread after the other, as all they do is to go about in
shared memory.

`room[2 * d * t] += room[2 * d * t + d]`: neighbouring threads are far apart there, so on vectors
each access is a gather or a scatter. These take longer than so many accesses to what is in the
first cache anyway, and pay only if enough arithmetic comes with them, or if threads would wait for
branches foretold wrongly. Gathers alone, as where a tile is read by rows, ask for less than
scatters.
"""

import re

from haulage.compiler.mathematics.definitions import is_mathematics
from haulage.compiler.simt.body import Body
from haulage.compiler.simt.clipping import Clipping
from haulage.compiler.simt.model import Instruction
from haulage.compiler.simt.pieces import Piece, Pieces
from haulage.compiler.simt.strides import COMMON, StrideAnalysis, by_thread, size_of
from haulage.compiler.simt.written import Roots

# So much arithmetic has to come with an access of threads that are apart.
_ARITHMETIC_PER_LOAD = 2
_ARITHMETIC_PER_STORE = 10
# Accesses up to so many elements apart are wide ones and permutations.
_NEAR = 4

_ADDRESSES = frozenset(("getelementptr", "sext", "zext", "trunc", "phi", "load"))
_CHOICES = frozenset(("and", "or", "xor", "select"))
_SLOW = frozenset(("fdiv", "frem"))
_STORED = re.compile(r"store (\S+) ")


def scattered(body: Body, pieces: Pieces, clipping: Clipping, position: int) -> frozenset[int]:
    """The numbers of these pieces. `position` is that of the innermost axis of the block."""
    shared = {room.name for room in body.shared}
    if not shared or pieces.masked:
        return frozenset()
    search = _Search(body, pieces, clipping, position, shared)
    return frozenset(piece.number for piece in pieces.pieces if search.is_scattered(piece))


class _Search:
    def __init__(
        self, body: Body, pieces: Pieces, clipping: Clipping, position: int, shared: set[str]
    ) -> None:
        self._function = pieces.function
        self._clipping = clipping
        self._position = position
        self._shared = shared
        self._roots = Roots(pieces.function)
        self._items = {name: item for name, (_, item) in pieces.function.definitions().items()}
        self._strides = StrideAnalysis(pieces.function, by_thread(body.private))

    def is_scattered(self, piece: Piece) -> bool:
        own = (*self._clipping.of_kernel, *self._clipping.of_pieces[piece.number])
        settled = {guard.condition for guard in own}
        needed = arithmetic = 0
        for label in piece.labels:
            block = self._function.blocks[label]
            for item in block.body:
                if item.opcode in ("load", "store"):
                    if not self._is_apart(item):
                        continue
                    if not self._roots.of(item.operands[-1]) <= self._shared:
                        return False
                    loads = item.opcode == "load"
                    needed += _ARITHMETIC_PER_LOAD if loads else _ARITHMETIC_PER_STORE
                elif is_mathematics(item.callee) or item.opcode in _SLOW:
                    return False
                elif item.result and item.opcode not in _ADDRESSES:
                    arithmetic += self._strides.of(item.result) != COMMON
            end = block.terminator
            asked = end.operands if isinstance(end, Instruction) and end.opcode != "ret" else ()
            if not all(self._is_settled(name, settled) for name in asked):
                return False
        return arithmetic < needed

    def _is_apart(self, item: Instruction) -> bool:
        """Whether neighbouring threads access what is far apart, or they do not know where."""
        if not item.operands:
            return False
        stride = self._strides.of(item.operands[-1])[self._position]
        found = _STORED.search(item.text)
        size = size_of(item.type if item.opcode == "load" or found is None else found[1])
        return not isinstance(stride, int) or size is None or abs(stride) > _NEAR * size

    def _is_settled(self, condition: str, settled: set[str]) -> bool:
        """Whether all threads that are there have one outcome of a condition."""
        if condition in settled or self._strides.of(condition) == COMMON:
            return True
        item = self._items.get(condition)
        return (
            item is not None
            and item.opcode in _CHOICES
            and all(self._is_settled(name, settled) for name in item.operands)
        )
