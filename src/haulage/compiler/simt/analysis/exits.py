"""How threads come to the end of a kernel: which barriers of the block then miss them, and at which
branches they leave while the others go on together.

A thread skips a barrier where control diverges: it takes an arm that does not come to the barrier
before both arms meet again, and the other arm does. What it does from there, up to where it comes
to that barrier after all, it did without having waited. Ends are told by the codes that a body
returns (`compiler/ends.py`), along the paths on which these come to its `ret`; sets of ends are
masks.

Behind `if i >= n: return` in front of a loop the threads that go on are still in step: the loop is
one that they all make together. The same holds for a loop that threads leave one by one, if what
they do behind it is short and ends the kernel. A barrier of a wavefront or of the grid does not
wait for those that have left, nor does one of the block if their end is not one that it misses
threads at, so the others reach it together as well. Threads that have left are masked out of later
regions by a state that is kept for each thread.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from haulage.compiler.ends import LEFT, code_of, number_of
from haulage.compiler.mathematics.definitions import PURE
from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.barriers import BLOCK_BARRIERS, PATIENT_BARRIERS, barriers
from haulage.compiler.simt.analysis.guards import single_thread_blocks
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.ir.builder import Builder
from haulage.compiler.simt.ir.model import Function, Instruction, value_name
from haulage.targets.cpu import YIELD

# (source, target) of a step from one block to the next.
Edge = tuple[str, str]

# The bit of all faults, and that of codes which are worked out as the kernel runs.
FAULT = 1 << 32
UNKNOWN = 1 << 33
ALL = (UNKNOWN << 1) - 1


# ---- codes and ends ------------------------------------------------------------------------------


def fault_of(code: str, name: str) -> tuple[str, list[Instruction]]:
    """(the fault of a code, 0 if it is an end's; instructions that work it out as `name`)."""
    if not code.startswith("%"):
        return ("0" if number_of(int(code)) is not None else code), []
    is_end = value_name(name, "is.end")
    return name, [
        Builder.compare("uge", "i32", code, str(code_of(1)), name=is_end),
        Builder.select(is_end, "i32", "0", code, name=name),
    ]


def all_ends(analyses: Analyses) -> int:
    """The ends of a function."""
    return _ends_of(analyses, (state.code for state in _returns(analyses)))


def ends_in(analyses: Analyses, region: Container[str], start: str) -> int:
    """The ends that threads come to which are at the block `start` and pass blocks of `region`
    only."""
    before = analyses.get(_paths_to_returns)
    waiting = _returns(analyses)
    found: set[_Returning] = set()
    while waiting:
        state = waiting.pop()
        if state not in found and state.label in region:
            found.add(state)
            waiting += before[state] if state.label != start else ()
    return _ends_of(analyses, (state.code for state in found if state.label == start))


def _ends_of(analyses: Analyses, codes: Iterable[str]) -> int:
    """The ends of the codes that some values can be."""
    found = 0
    seen: set[str] = set()
    waiting = list(codes)
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        made = analyses.items.get(value)
        if not value.startswith("%"):
            number = number_of(int(value))
            found |= FAULT if number is None else 1 << number
        elif made is not None and (made.is_phi or made.opcode == "select"):
            waiting += [each.text for each in made.operands[0 if made.is_phi else 1 :]]
        else:
            found |= UNKNOWN
    return found


class _Returning(NamedTuple):
    """A block, and the code that who is there will return: a value, or a constant."""

    label: str
    code: str


def _returns(analyses: Analyses) -> list[_Returning]:
    blocks = analyses.function.blocks.values()
    return [_Returning(each.label, code) for each in blocks if (code := each.returned) is not None]


def _paths_to_returns(analyses: Analyses) -> dict[_Returning, list[_Returning]]:
    """For each block that control comes to a `ret` from, and the code that is returned then: from
    where control comes there."""
    found: dict[_Returning, list[_Returning]] = {}
    waiting = _returns(analyses)
    while waiting:
        state = waiting.pop()
        if state in found:
            continue
        label, code = state
        where, made = analyses.definitions.get(code, ("", None))
        if made is not None and made.is_phi and where == label:
            found[state] = [
                _Returning(source, _told_apart(value)) for value, source in made.incoming
            ]
        else:
            found[state] = [_Returning(source, code) for source in analyses.predecessors[label]]
        waiting += found[state]
    return found


def _told_apart(code: str) -> str:
    """One code of all those that are taken for the same: faults."""
    return "1" if _is_fault(code) else code


def stopping(analyses: Analyses) -> frozenset[str]:
    """Labels from which threads come to a fault only."""
    states = analyses.get(_paths_to_returns)
    staying = {state.label for state in states if not _is_fault(state.code)}
    return frozenset({state.label for state in states} - staying)


def _is_fault(code: str) -> bool:
    return not code.startswith("%") and number_of(int(code)) is None


# ---- barriers that threads skip ------------------------------------------------------------------


def missed_ends(analyses: Analyses) -> dict[str, int]:
    """For each block with a barrier of the block: the ends whose threads it may miss, and faults.

    Those are the ends which can be reached from it and to which threads can come that skipped it
    and then did something which others can see. Whether one did is known only as the kernel runs
    (`coroutines/lowering.py`). A barrier with nothing else under its condition and behind it misses
    threads at all ends but `LEFT` that skipped it, whatever they did.
    """
    function = analyses.function
    observable = {
        label
        for label, block in function.blocks.items()
        if any(is_observable(function, item) for item in block.body)
    }
    all_but_left = ALL & ~(1 << LEFT)
    found: dict[str, int] = {}
    for label, edges in analyses.get(skipping_edges).items():
        reached = ends_in(analyses, _reachable(analyses, label), label)
        if is_alone(analyses, label) or reached & UNKNOWN:
            found[label] = all_but_left
        else:
            seen = _ends_of_observed(analyses, label, edges, observable)
            found[label] = reached & seen & all_but_left | FAULT
    return found


def skipping_edges(analyses: Analyses) -> dict[str, set[Edge]]:
    """For each block with a barrier of the block, in order: the edges on which threads that it may
    miss skip it."""
    found: dict[str, set[Edge]] = {
        label: set() for label, _, _ in barriers(analyses.function, BLOCK_BARRIERS)
    }
    if not found:
        return {}
    successors = _without_leaving(analyses)
    places = found.keys()
    graph = control_flow.Graph(successors, analyses.function.entry)
    before = control_flow.reachable_until(graph.predecessors, places & successors.keys())
    for label in before:
        arms = set(successors[label])
        if len(arms) < 2:
            continue
        around = graph.innermost_loop(label)
        # In a loop that neither arm leaves, what counts is this iteration.
        once = {**successors, label: ()} if around and arms <= around.labels else successors
        stop = graph.postdominators.get(label, control_flow.EXIT)
        come_to = {arm: control_flow.reachable_until(once, [arm], stop) & places for arm in arms}
        for arm, reached in come_to.items():
            for place in set().union(*come_to.values()) - reached:
                found[place].add((label, arm))
    return found


def _without_leaving(analyses: Analyses) -> dict[str, list[str]]:
    """The graph without the paths that lead to `LEFT` or to a fault only."""
    before = analyses.get(_paths_to_returns)
    staying = {state.label for state in before if not _is_leaving(state.code)}
    kept: set[Edge] = {
        (source.label, state.label)
        for state, sources in before.items()
        for source in sources
        if not _is_leaving(source.code)
    }
    return {
        label: [target for target in targets if (label, target) in kept]
        for label, targets in analyses.successors.items()
        if label in staying or label == analyses.function.entry
    }


def _is_leaving(code: str) -> bool:
    return not code.startswith("%") and number_of(int(code)) in (LEFT, None)


def _reachable(analyses: Analyses, start: str) -> set[str]:
    return control_flow.reachable_until(analyses.successors, [start])


def is_alone(analyses: Analyses, label: str) -> bool:
    """Whether nothing but a barrier is done in a block and behind it."""
    blocks = analyses.function.blocks
    # What a kernel returns, which is nothing.
    result = analyses.function.parameters[0].name
    done = [
        item
        for other in _reachable(analyses, label)
        for item in blocks[other].body
        if result not in item.uses
    ]
    return len(done) == 1


def is_observable(function: Function, item: Instruction) -> bool:
    """Whether an instruction does something that another thread can see.

    What a kernel returns, which is nothing, is not.
    """
    if function.parameters[0].name in item.uses:
        return False
    if item.opcode in ("store", "atomicrmw", "cmpxchg"):
        return True
    callee = item.callee or ""
    return (
        item.opcode == "call"
        and callee != YIELD
        and (not callee.startswith(PURE) or callee.startswith("llvm.mem"))
    )


def _ends_of_observed(
    analyses: Analyses, barrier: str, edges: set[Edge], observable: set[str]
) -> int:
    """The ends that threads come to which took one of `edges` and then, without coming to the block
    `barrier`, were in one of the blocks `observable`."""
    before = analyses.get(_paths_to_returns)
    codes: set[str] = set()
    # Backwards, with whether one of `observable` is behind.
    waiting = [(state, False) for state in _returns(analyses)]
    done: set[tuple[_Returning, bool]] = set()
    while waiting:
        state, seen = waiting.pop()
        if (state, seen) in done or state.label == barrier:
            continue
        done.add((state, seen))
        seen = seen or state.label in observable
        for source in before[state]:
            waiting.append((source, seen))
            if seen and (source.label, state.label) in edges:
                codes.add(source.code)
    return _ends_of(analyses, codes)


# ---- early exits ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class EarlyExit:
    """Where threads go that leave: the blocks that they still run, and the ends they come to."""

    labels: frozenset[str]
    ends: int


def early_exits(analyses: Analyses) -> dict[str, EarlyExit]:
    """For each block whose branch lets threads leave: where these go.

    They run it to the end of the kernel, so there may be no barrier and no loop there. A
    branch counts only if a loop, or a barrier that goes on without them, is behind its other arm,
    or if it stands in a loop itself; for others nothing would be won, nor if threads with one
    index only are left for the loop.
    """
    function, successors = analyses.function, analyses.successors
    headers = {loop.header for loop in analyses.loops}
    obstacles = headers | {label for label, _, _ in barriers(function)}
    if not obstacles:
        return {}
    stays = control_flow.reachable_until(analyses.predecessors, obstacles)
    worth = (headers - analyses.get(single_thread_blocks)) | {
        label for label, _, _ in barriers(function, PATIENT_BARRIERS)
    }
    missed = analyses.get(missed_ends)
    found: dict[str, EarlyExit] = {}
    for label, targets in successors.items():
        if len(targets) != 2 or targets[0] == targets[1]:
            continue
        stop = analyses.postdominators.get(label, control_flow.EXIT)
        for leaving, staying in (targets, targets[::-1]):
            if leaving in stays:
                continue
            last = control_flow.reachable_until(successors, [leaving])
            if label in last:
                continue
            others = control_flow.reachable_until(successors, [staying], stop) - last
            reached = ends_in(analyses, last | {label}, label)
            released = {place for place, those in missed.items() if not those & reached}
            if others & (worth | released):
                found[label] = EarlyExit(frozenset(last), reached)
                break
    return found
