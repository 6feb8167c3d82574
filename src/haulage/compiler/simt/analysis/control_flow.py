"""Orders, dominance and loops of a control-flow graph given as label -> successors.

Dominators: Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Successors = Mapping[str, Sequence[str]]

# The label of the one exit that post-dominance is counted from; no block can have it.
EXIT = ""


def reverse_postorder(successors: Successors, entry: str) -> list[str]:
    """Labels reachable from `entry`, each before its successors where there is no cycle."""
    order: list[str] = []
    seen = {entry}
    stack = [(entry, iter(successors[entry]))]
    while stack:
        label, rest = stack[-1]
        for successor in rest:
            if successor not in seen:
                seen.add(successor)
                stack.append((successor, iter(successors[successor])))
                break
        else:
            order.append(label)
            stack.pop()
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
    """The same edges, backwards."""
    inverted: dict[str, list[str]] = {label: [] for label in successors}
    for label, targets in successors.items():
        for target in targets:
            inverted[target].append(label)
    return inverted


def immediate_dominators(successors: Successors, entry: str) -> dict[str, str]:
    """The closest strict dominator of each reachable label; the entry is its own."""
    order = reverse_postorder(successors, entry)
    number = {label: index for index, label in enumerate(order)}
    predecessors = invert(successors)
    closest = {entry: entry}
    changed = True
    while changed:
        changed = False
        for label in order[1:]:
            known = [p for p in predecessors[label] if p in closest]
            new = known[0]
            for other in known[1:]:
                while new != other:
                    while number[new] > number[other]:
                        new = closest[new]
                    while number[other] > number[new]:
                        other = closest[other]
            if closest.get(label) != new:
                closest[label] = new
                changed = True
    return closest


def immediate_postdominators(successors: Successors) -> dict[str, str]:
    """The closest label that every way from here to the end passes; `EXIT` is the end itself.

    Labels from which no end can be reached are missing.
    """
    with_exit: dict[str, list[str]] = {
        label: list(targets) or [EXIT] for label, targets in successors.items()
    }
    with_exit[EXIT] = []
    return immediate_dominators(invert(with_exit), EXIT)


def dominates(closest: Mapping[str, str], upper: str, lower: str) -> bool:
    """Whether `upper` is on every way to `lower`, by the result of `immediate_dominators`."""
    while lower != upper:
        above = closest[lower]
        if above == lower:
            return False
        lower = above
    return True


@dataclass(frozen=True)
class Loop:
    """A natural loop: its header and all its labels."""

    header: str
    labels: frozenset[str]


def natural_loops(successors: Successors, entry: str) -> list[Loop]:
    """The loops of the graph, those with one header made one; inner ones come first."""
    closest = immediate_dominators(successors, entry)
    predecessors = invert(successors)
    bodies: dict[str, set[str]] = {}
    for label in closest:
        for target in successors[label]:
            if target in closest and dominates(closest, target, label):
                body = bodies.setdefault(target, {target})
                _add_backwards(body, label, predecessors)
    loops = [Loop(header, frozenset(body)) for header, body in bodies.items()]
    return sorted(loops, key=lambda loop: len(loop.labels))


def _add_backwards(body: set[str], start: str, predecessors: Mapping[str, Iterable[str]]) -> None:
    stack = [start]
    while stack:
        label = stack.pop()
        if label not in body:
            body.add(label)
            stack.extend(predecessors[label])


def reachable_until(successors: Successors, starts: Iterable[str], stop: str = EXIT) -> set[str]:
    """Labels that can be reached from `starts` (them included) without going through `stop`."""
    seen: set[str] = set()
    stack = list(starts)
    while stack:
        label = stack.pop()
        if label not in seen and label != stop:
            seen.add(label)
            stack.extend(successors[label])
    return seen
