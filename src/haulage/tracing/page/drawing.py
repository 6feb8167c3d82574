"""What the page's scripts draw, as JSON."""

import json
from typing import Any

from haulage.runtime.observing import COPY, DOWNLOAD, FILL, KERNEL, UPLOAD
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
    WAIT: ("wait of the host", "#66707a"),
    "several": ("several kinds", "#4b535c"),
}


def drawing(result: Result) -> str:
    """The data of the charts, safe between `<script>` and `</script>`."""
    names: dict[str, int] = {}
    kinds = list(KINDS)
    columns: dict[str, list[int]] = {
        "lane": [each.lane for each in result.drawn],
        "kind": [kinds.index(each.kind) for each in result.drawn],
        "name": [names.setdefault(each.name, len(names)) for each in result.drawn],
        "place": [each.place for each in result.drawn],
        "begin": [each.begin for each in result.drawn],
        "length": [each.end - each.begin for each in result.drawn],
        "bytes": [each.nbytes for each in result.drawn],
        "count": [each.count for each in result.drawn],
        "busy": [each.busy for each in result.drawn],
    }
    data: dict[str, Any] = {
        "length": result.length,
        "colours": COLOURS,
        "kinds": [{"name": name, "colour": colour} for name, colour in KINDS.values()],
        "names": list(names),
        "lanes": [f"{lane.device} {lane.name}".strip() for lane in result.lanes],
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
