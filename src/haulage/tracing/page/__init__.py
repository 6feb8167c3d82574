"""One HTML page of all that was recorded, which asks for nothing from anywhere."""

import html
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from haulage.runtime.process.observing import COMPILE, GRAPH, KERNEL
from haulage.tracing.page.drawing import COLOURS, KINDS, drawing, lanes_drawn
from haulage.tracing.result import WAIT, Holdings, Place, Result, Total
from haulage.tracing.words import duration, size, throughput

_FOLDER = Path(__file__).parent
_SCRIPTS = ("time.js", "memory.js", "lanes.js", "main.js")
# Rows of a table; the charts and the trace have all.
# Kinds of operations that run code.
_RUNNING = (KERNEL, GRAPH)
_MOST_ROWS = 50


def page(result: Result) -> str:
    """The whole page."""
    parts: dict[str, Callable[[], str]] = {
        "title": lambda: _text(f"Haulage trace of {result.program}"),
        "program": lambda: _path(result.program),
        "facts": lambda: _facts(result),
        "notes": lambda: _notes(result),
        "memory": lambda: _memory(result),
        "streams": lambda: _streams(result),
        "repeats": lambda: _repeats(result),
        "totals": lambda: _totals(result),
        "data": lambda: drawing(result),
        "style": lambda: _file("page.css"),
        "script": lambda: "\n".join(map(_file, _SCRIPTS)),
    }
    # In one pass: what is put in may itself look like a mark.
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: parts[mark[1]](), _file("page.html"))


def _file(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8").rstrip()


def _text(text: object) -> str:
    return html.escape(str(text))


def _path(text: str) -> str:
    """A path as text that can be broken behind each slash."""
    return _text(text).replace("/", "/<wbr>")


def _facts(result: Result) -> str:
    facts = {
        "began": result.began,
        "length": duration(result.length),
        "process": result.process,
        "operations": sum(each.count for each in result.totals),
        "host waited": f"{duration(result.waits[1])} in {result.waits[0]} waits",
    }
    if result.ended:
        facts["ended"] = result.ended
    return "".join(
        f"<div><dt>{name}</dt><dd>{_text(value)}</dd></div>" for name, value in facts.items()
    )


def _notes(result: Result) -> str:
    if not result.notes:
        return ""
    return f'<ul class="notes">{"".join(f"<li>{_text(note)}</li>" for note in result.notes)}</ul>'


def _memory(result: Result) -> str:
    if not result.memory:
        return '<p class="none">The program allocated no memory of a device.</p>'
    return "\n".join(_group(result, number) for number in range(len(result.memory)))


def _group(result: Result, number: int) -> str:
    held = result.memory[number]
    what = _text(f"{held.device}, {held.kind} memory")
    figures = (
        f"peak {size(held.peak)} at {duration(held.peak_at)}; {held.allocations} allocations; "
        f"{size(held.left)} in use at the end"
    )
    return (
        f"<h3>{what}</h3>\n<figure>\n"
        f'<canvas class="memory" data-group="{number}" tabindex="0" role="img" '
        f'aria-label="Memory in use over time, {what}: {figures}. Keys N and P tell each change."'
        f"></canvas>\n<figcaption>{figures}</figcaption>\n</figure>\n{_holders(result, held)}"
    )


def _holders(result: Result, held: Holdings) -> str:
    rows = []
    for rank, (place, nbytes, blocks) in enumerate(held.holders):
        colour = COLOURS[rank] if rank < len(COLOURS) else ""
        swatch = f'<span class="swatch" data-colour="{colour}"></span>' if colour else ""
        rows.append(
            [
                swatch,
                _number(size(nbytes)),
                _number(f"{100 * nbytes / held.peak:.1f} %"),
                _number(blocks),
                *_where(result.places[place]),
            ]
        )
    heads = ["", "#bytes", "#share", "#blocks", "line", "function"]
    return _table("Who held memory at the peak, the largest first", heads, rows)


def _streams(result: Result) -> str:
    if not result.lanes:
        return '<p class="none">The program handed no work to a device.</p>'
    used = {each.kind for each in result.drawn}
    key = "".join(
        f'<li><span class="swatch" data-colour="{colour}"></span> {name}</li>'
        for kind, (name, colour) in KINDS.items()
        if kind in used
    )
    more = len(result.lanes) - len(lanes_drawn(result))
    rest = (
        f'<p class="none">{more} more streams and threads, with less work, are in the trace.</p>'
        if more
        else ""
    )
    return (
        f'<ul class="key">{key}</ul>\n<figure><canvas class="lanes" tabindex="0" role="img" '
        'aria-label="Transfers and kernels of each stream over time. Keys N and P tell each one."'
        f"></canvas></figure>{rest}"
    )


def _repeats(result: Result) -> str:
    if not result.repeats:
        return '<p class="none">None was found.</p>'
    rows = [
        [
            _number(each.count),
            _number(size(each.nbytes)),
            KINDS[each.kind][0],
            _text(each.device),
            *_where(result.places[each.place]),
            f'<td class="line">{_path(result.places[each.first].line)}</td>',
        ]
        for each in result.repeats
    ]
    wasted = size(sum(each.nbytes for each in result.repeats))
    times = sum(each.count for each in result.repeats)
    about = (
        f"{times} transfers moved {wasted} again that were unchanged: an upload of what the same "
        "array or line had sent and the device had still, a download of what the host had already"
    )
    heads = ["#times", "#bytes wasted", "what", "device", "line", "function", "moved first at"]
    return _table(about, heads, rows)


def _totals(result: Result) -> str:
    kernels = [each for each in result.totals if each.kind in _RUNNING]
    waits = [each for each in result.totals if each.kind == WAIT]
    compiled = [each for each in result.totals if each.kind == COMPILE]
    moved = [each for each in result.totals if each.kind not in (*_RUNNING, COMPILE, WAIT)]
    return "\n".join(
        _total(result, *each)
        for each in (
            ("Transfers", moved),
            ("Kernels and graphs", kernels),
            ("Compilations", compiled),
            ("Waits of the host, of 5 microseconds or more", waits),
        )
        if each[1]
    )


def _total(result: Result, what: str, totals: list[Total]) -> str:
    heads = ["", "#times", "#time", *(["#bytes", "#rate"] if what == "Transfers" else [])]
    rows = []
    for each in totals:
        row = [
            f'<td class="name">{_text(each.name or KINDS[each.kind][0])}</td>',
            _number(each.count),
            _number(duration(each.busy)),
        ]
        if what == "Transfers":
            row += [_number(size(each.nbytes)), _number(throughput(each.nbytes, each.busy))]
        rows.append([*row, *_where(result.places[each.place])])
    times, busy = sum(each.count for each in totals), sum(each.busy for each in totals)
    moved = sum(each.nbytes for each in totals)
    caption = f"{what}: {times}, {duration(busy)}{f', {size(moved)}' if moved else ''}"
    return _table(caption, [*heads, "line", "function"], rows)


def _where(place: Place) -> list[str]:
    lines = [f"{line} in {function}" for line, function in place.lines[1:]]
    callers = "".join(f"<br>called from {_path(line)}" for line in lines)
    return [
        f'<td class="line">{_path(place.line)}{callers}</td>',
        f'<td class="name">{_text(place.function)}</td>',
    ]


def _number(value: object) -> str:
    return f'<td class="number">{_text(value)}</td>'


def _table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(
        f'<th scope="col" class="number">{name[1:]}</th>'
        if name.startswith("#")
        else f'<th scope="col">{name}</th>'
        for name in heads
    )
    body = "\n".join(f"<tr>{_cells(heads, row)}</tr>" for row in rows[:_MOST_ROWS])
    more = len(rows) - _MOST_ROWS
    rest = f'<p class="none">{more} more lines are in the trace.</p>' if more > 0 else ""
    return (
        f'<div class="scroll"><table><caption>{_text(caption)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>{rest}"
    )


def _cells(heads: Sequence[str], row: Sequence[str]) -> str:
    """Cells with the heads of their columns, which stand beside them where there is little room."""
    return "".join(
        f'<td data-head="{head.removeprefix("#")}"'
        + (cell.removeprefix("<td") if cell.startswith("<td") else f">{cell}</td>")
        for head, cell in zip(heads, row, strict=True)
    )
