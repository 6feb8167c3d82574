"""Tells whether a region is faster on vectors, by what its loops do."""

from collections.abc import Mapping
from dataclasses import dataclass

from haulage.compiler.mathematics.definitions import is_division, is_mathematics
from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.control_flow import EXIT, Loop
from haulage.compiler.simt.ir.model import Block, Function, Instruction
from haulage.compiler.simt.vectorize.builder import BYTES, has_vector_form, is_scalarized
from haulage.compiler.simt.vectorize.linear_order import LinearOrder
from haulage.compiler.simt.vectorize.shapes import Shapes

# The instructions of a function such as exp, roughly.
_MATHEMATICS = 20
# Gathers and scatters take as long as accesses one after the other; so much arithmetic has to come
# with each that it is worth to have it for many lanes at once.
_ARITHMETIC_PER_ACCESS = 8
# A scalarised instruction takes longer than in a loop of its own.
_ARITHMETIC_PER_SCALARIZED = 16


@dataclass(frozen=True)
class Work:
    """What the loops of a region do, in instructions.

    `arithmetic` is on vectors; `gathered` are accesses that are neither uniform nor consecutive (of
    these `scattered` are stores), `consecutive` those that are; `scalarized` take one lane after
    the other. `parts` is whether lanes part within a loop, other than out of it; `is_nested`
    whether a divergent loop is within another; `follows_loads` whether an address depends on what
    an earlier iteration loaded.
    """

    arithmetic: int
    gathered: int
    scattered: int
    consecutive: int
    scalarized: int
    parts: bool
    is_nested: bool
    follows_loads: bool


def is_profitable(work: Work) -> bool:
    """Whether lanes are faster than threads one after the other."""
    least = _ARITHMETIC_PER_ACCESS * work.gathered + _ARITHMETIC_PER_SCALARIZED * work.scalarized
    if work.scalarized or work.scattered:
        # Where each lane writes to a place of its own, as an insertion or a stack does, most lanes
        # moreover wait for the few that do so.
        return work.arithmetic >= least
    if work.follows_loads or (work.parts and not work.is_nested):
        # Threads one after the other would wait for mispredicted branches, or for memory. In
        # divergent loops within one another most lanes wait themselves.
        return True
    return work.arithmetic >= least


def work_of(blocks: Mapping[str, Block], order: LinearOrder, shapes: Shapes) -> Work:
    """Count the work of a region."""
    loops = order.loops
    looped = {label for loop in loops for label in loop.labels}
    # A search by division takes an iteration or hundreds: most lanes would wait.
    searching = {label for loop in loops if _exits(blocks, loop) > 1 for label in loop.labels}
    arithmetic = scattered = consecutive = scalarized = 0
    gathered: list[str] = []
    parts = False
    for label in looped:
        block = blocks[label]
        for item in block.body:
            if item.opcode not in ("load", "store"):
                if item.result is None or shapes.of(item.result) is not None:
                    continue
                if is_scalarized(item) or (label in searching and is_division(item.callee)):
                    scalarized += 1
                else:
                    arithmetic += _MATHEMATICS if is_mathematics(item.callee) else 1
            elif has_vector_form(item):
                address = item.operands[-1].text
                shape = shapes.likely(address, label)
                if shape == BYTES[item.accessed_type]:
                    consecutive += 1
                elif shape != 0:
                    gathered.append(address)
                    scattered += item.opcode == "store"
        is_inside = order.loops_around[label][0].labels.issuperset(block.successors)
        parts = parts or (is_inside and shapes.is_divergent(label))
    return Work(
        arithmetic,
        len(gathered),
        scattered,
        consecutive,
        scalarized,
        parts,
        any(
            sum(loop.header in shapes.divergent for loop in order.loops_around[label]) > 1
            for label in looped
        ),
        _follows_loads(blocks, looped, set(gathered)),
    )


def _exits(blocks: Mapping[str, Block], loop: Loop) -> int:
    """From how many blocks threads can leave a loop, but for edges that hardly any takes."""
    return sum(
        not loop.labels.issuperset(block.successors)
        and not (isinstance(block.terminator, Instruction) and block.terminator.is_foretold)
        for block in map(blocks.__getitem__, loop.labels)
    )


def _follows_loads(blocks: Mapping[str, Block], looped: set[str], addresses: set[str]) -> bool:
    """Whether one of the addresses is made from what was loaded in an earlier iteration."""
    items = Function((), {label: blocks[label] for label in looped}).items()
    users = control_flow.invert(
        {name: [each for each in item.uses if each in items] for name, item in items.items()}
    )

    def reached(opcode: str, among: set[str]) -> set[str]:
        starts = [name for name in among if items[name].opcode == opcode]
        return control_flow.reachable_until(users, starts, EXIT)

    return not addresses.isdisjoint(reached("phi", reached("load", set(items))))
