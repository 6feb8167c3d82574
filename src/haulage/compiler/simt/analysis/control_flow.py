"""Orders, dominance and loops of a control-flow graph given as label -> successors.

Dominators: Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from haulage.forks import cached_property

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


def invert(successors: Successors) -> dict[str, list[str]]:
    """The same edges backwards, each once."""
    inverted: dict[str, list[str]] = {label: [] for label in successors}
    for label, targets in successors.items():
        for target in dict.fromkeys(targets):
            inverted[target].append(label)
    return inverted


def dominance_frontiers(
    predecessors: Successors, closest: Mapping[str, str]
) -> dict[str, list[str]]:
    """For each label those where paths from it first meet others (Cytron et al., 1991), by the
    edges backwards and immediate dominators."""
    frontiers: dict[str, dict[str, None]] = {label: {} for label in predecessors}
    for label, sources in predecessors.items():
        for source in sources:
            while source != closest[label]:
                frontiers[source][label] = None
                source = closest[source]
    return {label: [*met] for label, met in frontiers.items()}


def dominates(closest: Mapping[str, str], upper: str, lower: str) -> bool:
    """Whether `upper` is on every path to `lower`, by immediate dominators."""
    while lower != upper and closest[lower] != lower:
        lower = closest[lower]
    return lower == upper


@dataclass(frozen=True)
class Loop:
    """A natural loop: its header and all its labels."""

    header: str
    labels: frozenset[str]


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


class Graph:
    """A control-flow graph. What is known of it is worked out when it is asked for."""

    def __init__(self, successors: Successors, entry: str) -> None:
        self.successors = successors
        self._entry = entry

    @cached_property
    def predecessors(self) -> Mapping[str, list[str]]:
        """For each label those that control can come from, each once."""
        return invert(self.successors)

    @cached_property
    def order(self) -> list[str]:
        """The labels in reverse postorder."""
        return reverse_postorder(self.successors, self._entry)

    @cached_property
    def _place(self) -> Mapping[str, int]:
        return {label: place for place, label in enumerate(self.order)}

    @cached_property
    def _retreating(self) -> list[tuple[str, str]]:
        """The edges that go back in the order; without one there is no cycle."""
        place = self._place
        return [
            (label, target)
            for label in self.order
            for target in self.successors[label]
            if place[target] <= place[label]
        ]

    @cached_property
    def dominators(self) -> Mapping[str, str]:
        """The immediate dominator of each label that can be reached; the entry is its own."""
        place, closest = self._place, {self._entry: self._entry}

        def common(one: str, other: str) -> str:
            while one != other:
                if place[one] > place[other]:
                    one = closest[one]
                else:
                    other = closest[other]
            return one

        changed = True
        while changed:
            changed = False
            for label in self.order[1:]:
                before = (each for each in self.predecessors[label] if each in closest)
                found = reduce(common, before)
                # Without a cycle what comes before a label is known when the label is.
                changed |= bool(self._retreating) and closest.get(label) != found
                closest[label] = found
        return closest

    @cached_property
    def postdominators(self) -> Mapping[str, str]:
        """The closest label on every path from each one to the end; `EXIT` is the end itself.

        Labels from which no end can be reached are missing.
        """
        with_exit = {label: targets or (EXIT,) for label, targets in self.successors.items()}
        return Graph(invert({**with_exit, EXIT: ()}), EXIT).dominators

    @cached_property
    def loops(self) -> list[Loop]:
        """The natural loops, those with one header made one; inner ones come first."""
        latches: dict[str, list[str]] = {}
        for label, target in self._retreating:
            if self.dominates(target, label):
                latches.setdefault(target, []).append(label)
        loops = [
            Loop(header, frozenset({header} | reachable_until(self.predecessors, labels, header)))
            for header, labels in latches.items()
        ]
        return sorted(loops, key=lambda loop: len(loop.labels))

    def dominates(self, upper: str, lower: str) -> bool:
        """Whether the block `upper` is on every path to the block `lower`."""
        return lower in self.dominators and dominates(self.dominators, upper, lower)

    def innermost_loop(self, label: str) -> Loop | None:
        """The smallest loop that a block is in."""
        return next((loop for loop in self.loops if label in loop.labels), None)

    def loops_before_exits(self) -> list[str]:
        """The labels as in `order`, with what is in a loop before what is behind it."""

        def together(label: str, target: str) -> int:
            return sum(label in loop.labels and target in loop.labels for loop in self.loops)

        # What is visited first comes last.
        ordered = {
            label: sorted(targets, key=lambda target: together(label, target))
            for label, targets in self.successors.items()
        }
        return reverse_postorder(ordered, self._entry)
