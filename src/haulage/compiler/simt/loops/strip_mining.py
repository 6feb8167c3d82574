"""Which loops that all threads go round together are run for a chunk of threads at a time.

Turned outside the loop over the threads, a loop keeps what lives from turn to turn in memory, an
element for each thread, and loads it with each turn; for a chunk of a few vectors (`lanes/`) it
stays in registers. That is as good in all other ways only if threads read what they share, or what
is in the cache anyway: of a row of memory a chunk takes but a part, and the next turn another row.
"""

from collections.abc import Iterable, Mapping, Set

from haulage.compiler.mathematics.definitions import PREFIX
from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.barriers import barriers
from haulage.compiler.simt.analysis.kernel import Storage
from haulage.compiler.simt.analysis.strides import StrideAnalysis, size_of_access
from haulage.compiler.simt.analysis.uniformity import Uniformity
from haulage.compiler.simt.ir.model import Function, Instruction
from haulage.compiler.simt.regions.loop_interchange import strides_by_turn

# Bytes from one turn to the next that leave most of what is read in the nearest cache.
_NEAR = 256

# What a turn holds besides what lives longer; more if it calls mathematics.
_SHORT_LIVED = 3
_MATHEMATICS = 12


def chunked_loops(
    function: Function,
    flow: Uniformity,
    turned: Iterable[str],
    shared: Iterable[Storage],
    position: int,
) -> dict[str, int]:
    """Those of the loops `turned` that are better run for chunks of threads: by their headers, how
    many values of each thread live in a turn.

    `position` is the number of the innermost axis of the block, `shared` the block's own memory.
    """
    wanted = set(turned)
    if not wanted:
        return {}
    successors = {label: block.successors for label, block in function.blocks.items()}
    strides = StrideAnalysis(function)
    own = {room.name for room in shared}
    items = {name: item for name, (_, item) in function.definitions().items()}
    return {
        loop.header: _alive(function, loop, flow.varying)
        for loop in control_flow.natural_loops(successors, function.entry)
        if loop.header in wanted
        and not loop.labels & (flow.divergent | flow.exiting)
        and any(phi.result in flow.varying for phi in function.blocks[loop.header].phis)
        and _stays_near(function, loop, strides, own, items, position)
    }


def stay_near(function: Function, shared: Iterable[Storage], position: int) -> bool:
    """Whether all that the turns of all loops access is common to the threads, or a row that the
    turn before them left in the cache. Arguments as for `chunked_loops`."""
    successors = {label: block.successors for label, block in function.blocks.items()}
    strides = StrideAnalysis(function)
    own = {room.name for room in shared}
    items = {name: item for name, (_, item) in function.definitions().items()}
    return all(
        _stays_near(function, loop, strides, own, items, position)
        for loop in control_flow.natural_loops(successors, function.entry)
    )


def _stays_near(
    function: Function,
    loop: control_flow.Loop,
    strides: StrideAnalysis,
    shared: Set[str],
    items: Mapping[str, Instruction],
    position: int,
) -> bool:
    """Whether all that a turn's threads access is common to them, or a row that is in the cache."""
    turns = None
    for label in loop.labels:
        for item in function.blocks[label].body:
            if item.opcode not in ("load", "store"):
                continue
            address = item.address
            assert address is not None
            stride = strides.of(address)[position]
            if stride == 0 and item.opcode == "load":
                continue
            if stride != size_of_access(item):
                return False
            if _base(address.text, items) in shared:
                continue
            turns = turns or StrideAnalysis(function, strides_by_turn(function, loop), loop.labels)
            step = turns.of(address)[0]
            if not isinstance(step, int) or abs(step) > _NEAR:
                return False
    return True


def _base(address: str, items: Mapping[str, Instruction]) -> str:
    """What an address is counted from."""
    while address in items and items[address].opcode == "getelementptr":
        address = items[address].uses[0]
    return address


def _alive(function: Function, loop: control_flow.Loop, varying: Set[str]) -> int:
    blocks = [function.blocks[label] for label in loop.labels]
    made = {item.result for block in blocks for item in block.instructions()}
    used = {
        name
        for block in blocks
        for item in block.body
        if item.opcode not in ("getelementptr", "load", "store")
        for name in item.uses
        if name in varying and name not in made
    }
    phis = [phi for phi in function.blocks[loop.header].phis if phi.result in varying]
    calls = any((item.callee or "").startswith(PREFIX) for block in blocks for item in block.body)
    return len(phis) + len(used) + (_MATHEMATICS if calls else _SHORT_LIVED)


def apart_from_rows(
    function: Function,
    flow: Uniformity,
    chunked: Iterable[str],
    turned: Iterable[str],
    position: int,
) -> dict[str, tuple[int, ...]]:
    """Where to cut, block by block, in front of the loops `chunked` and behind them, so that what
    is around them stays out of chunks: if there are accesses to places of each thread's own, which
    lanes are slower at than threads one after the other.

    `turned` are the headers that the function is cut at anyway.
    """
    successors = {label: block.successors for label, block in function.blocks.items()}
    stops = {label for label, _, _ in barriers(function)} | set(turned)
    loops = control_flow.natural_loops(successors, function.entry)
    nests = [loop for loop in loops if not loop.labels & (stops | flow.divergent | flow.exiting)]
    found: dict[str, tuple[int, ...]] = {}
    inside: set[str] = set()
    for header in chunked:
        around = [loop for loop in nests if header in loop.labels]
        if not around:
            continue
        # Inner loops come first.
        outermost = around[-1]
        inside |= outermost.labels
        before = {
            label
            for label, targets in successors.items()
            if outermost.header in targets and label not in outermost.labels
        }
        behind = {
            target for label in outermost.labels for target in successors[label]
        } - outermost.labels
        for label in before:
            end = function.blocks[label].terminator
            alike = isinstance(end, Instruction) and not flow.varying.intersection(end.uses)
            if label not in flow.divergent and alike:
                found[label] = (*found.get(label, ()), len(function.blocks[label].body))
        for label in behind - flow.divergent:
            found[label] = (0, *found.get(label, ()))
    strides = StrideAnalysis(function)
    for label in function.blocks.keys() - inside:
        for item in function.blocks[label].body:
            if item.opcode in ("load", "store"):
                stride = strides.of(item.address)[position]
                if stride not in (0, size_of_access(item)):
                    # In the order of the blocks, so that the same kernel is always cut alike.
                    return {each: found[each] for each in function.blocks if each in found}
    return {}
