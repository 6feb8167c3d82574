"""The order in which the blocks of a region are written: one after another, loops within loops.

With every loop taken as one node a reducible graph has no cycle. In that order a block comes after
all that can lead to it, and the blocks of a loop stand together.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from haulage.compiler.simt.analysis import control_flow
from haulage.compiler.simt.analysis.control_flow import EXIT, Loop, Successors


class Irreducible(Exception):
    """A cycle that can be entered at two places."""


@dataclass
class Region:
    """A loop, or the whole region, whose `header` is its entry.

    `items` are labels and inner loops in order, the header first; `edges` lead from item to item
    (inner loops by their headers), with `EXIT` for all ways that leave the region or begin its next
    turn. `same[item]` is an item before it which every thread passes that passes this one, and the
    other way round.
    """

    header: str
    labels: frozenset[str]
    parent: "Region | None"
    items: list["str | Region"] = field(default_factory=list)
    edges: dict[str, list[str]] = field(default_factory=dict)
    same: dict[str, str] = field(default_factory=dict)
    after: dict[str, str] = field(default_factory=dict)

    @property
    def is_loop(self) -> bool:
        return self.parent is not None

    def inner(self) -> Iterable["Region"]:
        """The loops directly in this region."""
        return (item for item in self.items if isinstance(item, Region))


class Layout:
    """The regions of a region, given as label -> successors."""

    def __init__(self, successors: Successors, entry: str) -> None:
        self.successors = successors
        loops = control_flow.natural_loops(successors, entry)
        self.region_of: dict[str, Region] = {}
        self.root = self._region(entry, frozenset(successors), None, loops)
        self.sources = control_flow.invert(successors)

    def regions(self, label: str) -> Iterable[Region]:
        """The regions that a block stands in, the innermost first."""
        region: Region | None = self.region_of[label]
        while region is not None:
            yield region
            region = region.parent

    def all_regions(self) -> list[Region]:
        """Every region, inner ones first."""
        found: list[Region] = []
        waiting = [self.root]
        while waiting:
            region = waiting.pop()
            found.append(region)
            waiting += region.inner()
        return found[::-1]

    def node(self, label: str, region: Region) -> str:
        """The item of `region` that a block inside it belongs to."""
        inner = label
        for each in self.regions(label):
            if each is region:
                return inner
            inner = each.header
        raise KeyError(label)

    def _region(
        self, header: str, labels: frozenset[str], parent: Region | None, loops: list[Loop]
    ) -> Region:
        region = Region(header, labels, parent)
        within = [loop for loop in loops if loop.labels < labels and loop.header != header]
        outermost = [
            loop for loop in within if not any(loop.labels < other.labels for other in within)
        ]
        node = {label: loop.header for loop in outermost for label in loop.labels}
        edges: dict[str, list[str]] = {}
        for label in self.successors:
            if label not in labels:
                continue
            source = node.get(label, label)
            found = edges.setdefault(source, [])
            for target in self.successors[label] or (EXIT,):
                to = node.get(target, target)
                if target == header or target not in labels:
                    to = EXIT
                if to != source and to not in found:
                    found.append(to)
        edges[EXIT] = []
        order = [each for each in control_flow.reverse_postorder(edges, header) if each != EXIT]
        place = {each: number for number, each in enumerate(order)}
        if any(
            to != EXIT and place[to] <= place[source] for source in order for to in edges[source]
        ):
            raise Irreducible
        inner = {loop.header: loop for loop in outermost}
        for each in order:
            if each in inner:
                loop = inner[each]
                region.items.append(self._region(each, loop.labels, region, loops))
            else:
                self.region_of[each] = region
                region.items.append(each)
        region.edges = edges
        region.same, region.after = _same(edges, header, order)
        return region


def _same(
    edges: Mapping[str, list[str]], header: str, order: list[str]
) -> tuple[dict[str, str], dict[str, str]]:
    above = control_flow.immediate_dominators(edges, header)
    after = control_flow.immediate_postdominators(edges)
    found: dict[str, str] = {}
    for each in order:
        if each == header:
            continue
        start = above[each]
        behind = after.get(start, EXIT)
        while behind not in (EXIT, each):
            behind = after[behind]
        if behind == each:
            found[each] = start
    return found, after
