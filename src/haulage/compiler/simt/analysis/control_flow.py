"""Orders, dominance and loops of a control-flow graph given as label -> successors.

Dominators: Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

Successors = Mapping[str, Sequence[str]]

# The label of the one exit that post-dominance is counted from; no block can have it.
EXIT = ""


def reverse_postorder(successors: Successors, entry: str) -> list[str]:
    """Labels reachable from `entry`, each before its successors where there is no cycle."""
    order: list[str] = []
    seen: set[str] = set()
    stack = [(entry, False)]
    while stack:
        label, is_done = stack.pop()
        if is_done:
            order.append(label)
        elif label not in seen:
            seen.add(label)
            stack.append((label, True))
            stack += [(target, False) for target in successors[label][::-1]]
    return order[::-1]


def loops_before_exits(successors: Successors, entry: str) -> list[str]:
    """As `reverse_postorder`, with what is in a loop before what is behind it."""
    loops = natural_loops(successors, entry)

    def together(label: str, target: str) -> int:
        return sum(label in loop.labels and target in loop.labels for loop in loops)

    # What is visited first comes last.
    ordered = {
        label: sorted(targets, key=lambda target: together(label, target))
        for label, targets in successors.items()
    }
    return reverse_postorder(ordered, entry)


def invert(successors: Successors) -> dict[str, list[str]]:
    """The same edges backwards, each once."""
    inverted: dict[str, list[str]] = {label: [] for label in successors}
    for label, targets in successors.items():
        for target in dict.fromkeys(targets):
            inverted[target].append(label)
    return inverted


def immediate_dominators(successors: Successors, entry: str) -> dict[str, str]:
    """The closest strict dominator of each reachable label; the entry is its own."""
    order = reverse_postorder(successors, entry)
    number = {label: index for index, label in enumerate(order)}
    before: list[list[int]] = [[] for _ in order]
    for label in order:
        for target in successors[label]:
            before[number[target]].append(number[label])
    closest = [0, *(-1 for _ in order[1:])]

    def common(one: int, other: int) -> int:
        while one != other:
            if one > other:
                one = closest[one]
            else:
                other = closest[other]
        return one

    changed = True
    while changed:
        changed = False
        for index in range(1, len(order)):
            found = reduce(common, (each for each in before[index] if closest[each] >= 0))
            changed |= closest[index] != found
            closest[index] = found
    return {label: order[index] for label, index in zip(order, closest, strict=True)}


def immediate_postdominators(successors: Successors) -> dict[str, str]:
    """The closest label on every path from here to the end; `EXIT` is the end itself.

    Labels from which no end can be reached are missing.
    """
    with_exit = {label: targets or (EXIT,) for label, targets in successors.items()}
    return immediate_dominators(invert({**with_exit, EXIT: ()}), EXIT)


def dominance_frontiers(
    predecessors: Successors, closest: Mapping[str, str]
) -> dict[str, list[str]]:
    """For each label those where paths from it first meet others (Cytron et al., 1991), by the
    edges backwards and the result of `immediate_dominators`."""
    frontiers: dict[str, dict[str, None]] = {label: {} for label in predecessors}
    for label, sources in predecessors.items():
        for source in sources:
            while source != closest[label]:
                frontiers[source][label] = None
                source = closest[source]
    return {label: [*met] for label, met in frontiers.items()}


def dominates(closest: Mapping[str, str], upper: str, lower: str) -> bool:
    """Whether `upper` is on every path to `lower`, by the result of `immediate_dominators`."""
    while lower != upper and closest[lower] != lower:
        lower = closest[lower]
    return lower == upper


@dataclass(frozen=True)
class Loop:
    """A natural loop: its header and all its labels."""

    header: str
    labels: frozenset[str]


def natural_loops(successors: Successors, entry: str) -> list[Loop]:
    """The loops of the graph, those with one header made one; inner ones come first."""
    order = reverse_postorder(successors, entry)
    number = {label: index for index, label in enumerate(order)}
    backwards = [
        (label, target)
        for label in order
        for target in successors[label]
        if number[target] <= number[label]
    ]
    if not backwards:
        return []
    closest, predecessors = immediate_dominators(successors, entry), invert(successors)
    latches: dict[str, list[str]] = {}
    for label, target in backwards:
        if dominates(closest, target, label):
            latches.setdefault(target, []).append(label)
    loops = [
        Loop(header, frozenset({header} | reachable_until(predecessors, labels, header)))
        for header, labels in latches.items()
    ]
    return sorted(loops, key=lambda loop: len(loop.labels))


def reachable_until(successors: Successors, starts: Iterable[str], stop: str = EXIT) -> set[str]:
    """Labels that can be reached from `starts` (them included) without going through `stop`."""
    seen = {stop}
    stack = list(starts)
    while stack:
        label = stack.pop()
        if label not in seen:
            seen.add(label)
            stack.extend(successors[label])
    return seen - {stop}
