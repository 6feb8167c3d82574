"""What the page's scripts draw, as JSON."""

import json
from typing import Any

from haulage.runtime.process.observing import COMPILE, COPY, DOWNLOAD, FILL, GRAPH, KERNEL, UPLOAD
from haulage.tracing.result import WAIT, Result

# Colours of the owners, those of most bytes first: the palette of Okabe and Ito (2008), which
# people who see few colours can tell apart, and darker ones of it.
COLOURS = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#b3a800",
    "#7a5195",
    "#00505c",
    "#8c564b",
)

# kind of operation -> (what it is called, its colour, on which white can be read)
KINDS = {
    KERNEL: ("kernel", "#0063a0"),
    UPLOAD: ("upload", "#007a5a"),
    DOWNLOAD: ("download", "#b34a00"),
    COPY: ("copy on the device", "#7a5195"),
    FILL: ("fill", "#74681c"),
    GRAPH: ("graph", "#5b3a9e"),
    COMPILE: ("compilation", "#a3195b"),
    WAIT: ("wait of the host", "#66707a"),
    "several": ("several kinds", "#4b535c"),
}


# A canvas cannot be of any height; nobody would look at more.
MOST_LANES = 60


def lanes_drawn(result: Result) -> list[int]:
    """The numbers of the lanes that are drawn: of too many, those with the longest work."""
    if len(result.lanes) <= MOST_LANES:
        return list(range(len(result.lanes)))
    busy = [0] * len(result.lanes)
    for each in result.drawn:
        busy[each.lane] += each.busy
    return sorted(sorted(range(len(busy)), key=lambda lane: -busy[lane])[:MOST_LANES])


def drawing(result: Result) -> str:
    """The data of the charts, safe between `<script>` and `</script>`."""
    names: dict[str, int] = {}
    rank = {lane: n for n, lane in enumerate(lanes_drawn(result))}
    drawn = [each for each in result.drawn if each.lane in rank]
    kinds = list(KINDS)
    columns: dict[str, list[int]] = {
        "lane": [rank[each.lane] for each in drawn],
        "kind": [kinds.index(each.kind) for each in drawn],
        "name": [names.setdefault(each.name, len(names)) for each in drawn],
        "place": [each.place for each in drawn],
        "begin": [each.begin for each in drawn],
        "length": [each.end - each.begin for each in drawn],
        "bytes": [each.nbytes for each in drawn],
        "count": [each.count for each in drawn],
        "busy": [each.busy for each in drawn],
    }
    data: dict[str, Any] = {
        "length": result.length,
        "colours": COLOURS,
        # Names of what threads of the host do say it all.
        "kinds": [
            {"name": name, "colour": colour, "whole": kind in (COMPILE, WAIT)}
            for kind, (name, colour) in KINDS.items()
        ],
        "names": list(names),
        "lanes": [f"{result.lanes[n].device} {result.lanes[n].name}".strip() for n in rank],
        "places": [{"lines": place.lines} for place in result.places],
        "operations": columns,
        "memory": [
            {
                "peak": held.peak,
                "owners": [place for place, _, _ in held.holders[: len(COLOURS)]],
                "at": [at for at, _, _ in held.changes],
                "place": [place for _, place, _ in held.changes],
                "bytes": [nbytes for _, _, nbytes in held.changes],
            }
            for held in result.memory
        ],
    }
    text = json.dumps(data, separators=(",", ":"))
    # Nothing in it may end the element that it stands in, or begin a comment there.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
