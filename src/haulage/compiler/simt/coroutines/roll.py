"""The roll of a block whose threads are coroutines: which barriers miss a thread that has ended
(`exit_codes.py`), and at which of them others wait now. A set of barriers is a mask with a bit for
each.

Each thread keeps which barriers it skipped since it last came there, and which of these it skipped
before it did something that others can see.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from haulage.compiler.ends import LEFT, code_of
from haulage.compiler.simt.analysis import exit_codes
from haulage.compiler.simt.analysis.exit_codes import Edge
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.ir.model import Block, Function

# Barriers beyond this many share the last bit, and miss threads whatever these did.
MOST = 62

_TABLE = "@haulage.missing"
_ROUND, _DID = "%roll.round", "%roll.did"

# The two masks that `%roll` points to; nobody waits at first and nobody has ended.
OPEN = [
    "  %roll = alloca { i64, i64 }, align 8",
    "  store { i64, i64 } zeroinitializer, ptr %roll",
    "  %roll.waiting = getelementptr inbounds { i64, i64 }, ptr %roll, i32 0, i32 1",
]

# Behind the count of a block's threads: may those that wait go on? All that do are then resumed.
JUDGE = [
    "  %roll.missing.now = load i64, ptr %roll",
    "  %roll.waiting.now = load i64, ptr %roll.waiting",
    "  store i64 0, ptr %roll.waiting",
    "  %roll.both = and i64 %roll.missing.now, %roll.waiting.now",
    "  %roll.none = icmp eq i64 %roll.both, 0",
    "  %roll.sound = icmp eq i32 %failed.now, 0",
    "  %roll.waits = icmp ne i32 %waiting.now, 0",
    "  %roll.complete = and i1 %roll.none, %roll.sound",
    "  %none.missed = and i1 %roll.complete, %roll.waits",
]


@dataclass(frozen=True)
class Roll:
    """What the roll of a kernel has to know.

    `barriers` gives the bit of each block with a barrier of the block, `alone` has the bits of
    those that miss whoever went round them, and `kept` of all that miss only these or who did
    something then. `edges` gives the barriers that each step goes round, and `missing` those that
    miss threads at each number of an end.
    """

    barriers: Mapping[str, int]
    alone: int
    kept: int
    edges: Mapping[Edge, int]
    missing: tuple[int, ...]

    def table(self) -> str:
        """The definition of the constants that `leave` reads."""
        row = ", ".join(f"i64 {mask}" for mask in self.missing)
        return f"{_TABLE} = internal unnamed_addr constant [{len(self.missing)} x i64] [{row}]"

    def begin(self) -> list[str]:
        """A thread's first lines."""
        names = (_ROUND, _DID)
        return [
            *(f"  {name} = alloca i64, align 8" for name in names),
            *(f"  store i64 0, ptr {name}" for name in names),
        ]

    def did(self, stem: str) -> list[str]:
        """Lines behind something that others can see."""
        if not self.edges:
            return []
        round_now = f'%"{stem}.round"'
        return [f"  {round_now} = load i64, ptr {_ROUND}", *_add(stem, _DID, round_now)]

    def wait(self, stem: str, label: str) -> list[str]:
        """Lines in which a thread begins to wait at a barrier in the block `label`."""
        bit = self.barriers[label]
        lines = [
            f'  %"{stem}.roll.at" = getelementptr inbounds {{ i64, i64 }}, ptr %roll, i32 0, i32 1',
            *_add(stem, f'%"{stem}.roll.at"', str(bit)),
        ]
        if bit & self.kept:
            for name in (_ROUND, _DID):
                part = f"{stem}{name[1:]}"
                lines += [
                    f'  %"{part}" = load i64, ptr {name}',
                    f'  %"{part}.less" = and i64 %"{part}", {~bit}',
                    f'  store i64 %"{part}.less", ptr {name}',
                ]
        return lines

    def step(self, block: Block) -> list[str]:
        """Lines in front of the branch at the end of a block."""
        masks = [self.edges.get((block.label, target), 0) for target in block.successors]
        if not any(masks):
            return []
        stem = block.label[1:].strip('"') + ".step"
        arms = f"i64 {masks[0]}, i64 {masks[1]}"
        return [
            f'  %"{stem}" = select i1 {block.condition}, {arms}',
            *_add(stem, _ROUND, f'%"{stem}"'),
        ]

    def leave(self, stem: str, code: str) -> list[str]:
        """Lines in which a thread ends with a code."""
        always = ((1 << MOST + 1) - 1) & ~self.kept
        return [
            f'  %"{stem}.is.end" = icmp uge i32 {code}, {code_of(1)}',
            f'  %"{stem}.is.first" = icmp eq i32 {code}, 0',
            f'  %"{stem}.ended" = or i1 %"{stem}.is.end", %"{stem}.is.first"',
            f'  %"{stem}.number" = and i32 {code}, {LEFT}',
            f'  %"{stem}.row.at" = getelementptr inbounds i64, ptr {_TABLE}, i32 %"{stem}.number"',
            f'  %"{stem}.row" = load i64, ptr %"{stem}.row.at"',
            f'  %"{stem}.did" = load i64, ptr {_DID}',
            f'  %"{stem}.round" = load i64, ptr {_ROUND}',
            f'  %"{stem}.enough" = and i64 %"{stem}.round", {self.alone}',
            f'  %"{stem}.kept" = or i64 %"{stem}.did", %"{stem}.enough"',
            f'  %"{stem}.counts" = or i64 %"{stem}.kept", {always}',
            f'  %"{stem}.by" = and i64 %"{stem}.row", %"{stem}.counts"',
            f'  %"{stem}.missing" = select i1 %"{stem}.ended", i64 %"{stem}.by", i64 0',
            *_add(stem, "%roll", f'%"{stem}.missing"'),
        ]


def of(function: Function, has_ends: bool) -> Roll | None:
    """What is needed of a kernel's function, or None if no thread ends while others wait but by a
    fault; `has_ends` is that of `body.Body`."""
    analyses = Analyses(function)
    skipping = analyses.get(exit_codes.skipping_edges)
    if not has_ends and not any(skipping.values()):
        return None
    missed = analyses.get(exit_codes.missed_ends)
    barriers = {label: 1 << min(number, MOST) for number, label in enumerate(missed)}
    kept = sum(set(barriers.values()) - {1 << MOST})
    alone = (
        sum(bit for label, bit in barriers.items() if exit_codes.is_alone(analyses, label)) & kept
    )
    edges: dict[Edge, int] = {}
    for label, those in skipping.items():
        for edge in those:
            edges[edge] = edges.get(edge, 0) | barriers[label] & kept
    missing = tuple(
        sum({barriers[label] for label, those in missed.items() if those >> number & 1})
        for number in range(LEFT + 1)
    )
    return Roll(barriers, alone, kept, edges, missing)


def _add(stem: str, address: str, mask: str) -> list[str]:
    return [
        f'  %"{stem}.roll" = load i64, ptr {address}',
        f'  %"{stem}.rolled" = or i64 %"{stem}.roll", {mask}',
        f'  store i64 %"{stem}.rolled", ptr {address}',
    ]
