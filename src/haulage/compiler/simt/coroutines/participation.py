"""Who takes part in the barriers of a block whose threads are coroutines: which barriers miss a
thread that has ended (`exits.py`), and at which of them others wait now. A set of barriers is
a mask with a bit for each.

Each thread keeps which barriers it skipped since it last came there, and which of these miss it:
as it did something then that others can see, or as there is nothing but that barrier.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from haulage.compiler.ends import LEFT, code_of
from haulage.compiler.simt.analysis import exits
from haulage.compiler.simt.analysis.exits import Edge
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Block, Function

# Barriers beyond so many share the last bit, and miss threads whatever these did.
MOST = 62
_LAST = 1 << MOST

_TABLE = "@haulage.missing"
_SKIPPED, _MISSED = "%skipped.barriers", "%missed.barriers"

# Masks of a block: of the barriers that miss a thread, and of those at which others wait now.
_MASKS = "{ i64, i64 }"
_WAITING_AT = 8
BYTES = 16


@dataclass(frozen=True)
class Participation:
    """The barriers of a kernel, and which threads they miss.

    `barriers` gives the bit of each block with a barrier of the block. `skipped` gives the barriers
    that each step skips and that miss a thread if it then does something, `alone` those that miss
    it anyway; `missing` those that miss threads at each number of an end.
    """

    barriers: Mapping[str, int]
    skipped: Mapping[Edge, int]
    alone: Mapping[Edge, int]
    missing: tuple[int, ...]

    @classmethod
    def of(cls, function: Function) -> "Participation":
        """What is needed of a kernel's function."""
        analyses = Analyses(function)
        skipping, missed = analyses.get(exits.skipping_edges), analyses.get(exits.missed_ends)
        barriers = {label: 1 << min(number, MOST) for number, label in enumerate(missed)}
        skipped: dict[Edge, int] = {}
        alone: dict[Edge, int] = {}
        for label, bit in barriers.items():
            into = alone if exits.is_alone(analyses, label) else skipped
            for edge in skipping[label] if bit != _LAST else ():
                into[edge] = into.get(edge, 0) | bit
        missing = tuple(
            sum({barriers[label] for label, those in missed.items() if those >> number & 1})
            for number in range(LEFT + 1)
        )
        return cls(barriers, skipped, alone, missing)

    def table(self) -> str:
        """The definition of the constants that `leave` reads."""
        row = ", ".join(f"i64 {mask}" for mask in self.missing)
        return f"{_TABLE} = internal unnamed_addr constant [{len(self.missing)} x i64] [{row}]"

    def begin(self, b: Builder) -> None:
        """What a thread does first."""
        for name, mask in ((_SKIPPED, 0), (_MISSED, _LAST)):
            b.allocate("i64", 8, name)
            b.store("i64", str(mask), name)

    def did(self, b: Builder) -> None:
        """Behind something that others can see."""
        if self.skipped:
            _add(b, _MISSED, b.load("i64", _SKIPPED))

    def wait(self, b: Builder, label: str) -> None:
        """A thread begins to wait at a barrier in the block `label`."""
        bit = self.barriers[label]
        _add(b, b.at("i8", "%participation", _WAITING_AT), str(bit))
        if bit != _LAST:
            for name in (_SKIPPED, _MISSED):
                others = b.binary("and", "i64", b.load("i64", name), str(~bit))
                b.store("i64", others, name)

    def step(self, b: Builder, block: Block) -> None:
        """In front of the branch at the end of a block."""
        for name, edges in ((_SKIPPED, self.skipped), (_MISSED, self.alone)):
            masks = [edges.get((block.label, target), 0) for target in block.successors]
            if any(masks):
                assert block.condition is not None
                _add(b, name, b.select(block.condition, "i64", *map(str, masks)))

    def leave(self, b: Builder, code: str) -> None:
        """A thread ends with a code."""
        is_end = b.compare("uge", "i32", code, str(code_of(1)))
        has_ended = b.binary("or", "i1", is_end, b.compare("eq", "i32", code, "0"))
        number = b.binary("and", "i32", code, str(LEFT))
        missing = b.load("i64", b.at("i64", _TABLE, number, by="i32"))
        missing = b.binary("and", "i64", missing, b.load("i64", _MISSED))
        _add(b, "%participation", b.select(has_ended, "i64", missing, "0"))


def open_block(b: Builder) -> None:
    """The masks of a block: nobody waits at first and nobody has ended."""
    b.store(_MASKS, "zeroinitializer", "%participation")


def look(b: Builder) -> tuple[str, str]:
    """(the barriers at which threads of a block wait, those of them that miss a thread); from then
    on nobody waits at any."""
    waiting_at = b.at("i8", "%participation", _WAITING_AT)
    missing, waiting = b.load("i64", "%participation"), b.load("i64", waiting_at)
    b.store("i64", "0", waiting_at)
    return waiting, b.binary("and", "i64", missing, waiting)


def _add(b: Builder, address: str, mask: str) -> None:
    b.store("i64", b.binary("or", "i64", b.load("i64", address), mask), address)
