"""The report that people read."""

import html
import os
import sys
import textwrap
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import TextIO

from haulage.checking import coverage_table
from haulage.checking.excerpts import Mark, excerpts, shown
from haulage.checking.findings import KINDS, Access, Finding, Place
from haulage.checking.result import Result
from haulage.tracing.words import duration

# Letters in a line of a message.
_WIDTH = 100

# What mostly helps.
HELP = {
    "bounds": "Compare the index with the size of the array first.",
    "race": "What orders them: a barrier within a block, atomic operations, or two launches.",
    "uninitialized": "New device arrays and shared arrays hold garbage: write what is read first.",
    "barrier": "Put it where all threads of the block come: behind the `if`, outside of the loop.",
    "stream": "What orders them: one stream, an event that is waited for, or synchronize().",
    "leak": "Give it back by hand, or take it by `with`.",
    "freed": "Keep the array as long as anything uses it.",
    "address": "Look at how the pointer or the view was made.",
    "float64": "GPUs have few units for float64, most of them one for 32 or 64 of float32.",
    "uncoalesced": "Let threadIdx.x count along the last axis; use an array for each field of a "
    "record; transpose in shared memory.",
    "bank-conflict": "Let neighbouring lanes use neighbouring words; rows of one element more put "
    "a column into different banks.",
    "divergence": "Give neighbouring threads like work: sort it, or decide by warps.",
    "local-memory": "Index arrays by constants, in loops with constant bounds, or keep them small.",
    "idle-lanes": "Lanes without work take the place of others.",
}

# What is told instead of "nothing found" where nothing was looked at.
NO_LAUNCH = "nothing found, as no kernel was launched on the CPU device"

# Gives a text in the colour of its role, one of `_COLOURS`.
Paint = Callable[[str, str], str]

_COLOURS = {"head": "1;31", "title": "1", "mark": "33", "place": "36", "quiet": "2", "good": "32"}


def plain(text: str, role: str) -> str:
    """The text as it is."""
    return text


def coloured(text: str, role: str) -> str:
    """The text in the colour of its role, for a terminal."""
    return f"\033[{_COLOURS[role]}m{text}\033[0m"


def paint_for(file: TextIO) -> Paint:
    """Colours where a file is a terminal that has them, and NO_COLOR is not set; plain else."""
    wanted = file.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return coloured if wanted else plain


def as_text(result: Result, paint: Paint = plain) -> str:
    """All that was found, a page for each kind, and the line of figures."""
    lines = []
    for kind, group in groupby(result.findings, key=lambda each: each.kind):
        lines += [*_page(kind, list(group), result, paint), ""]
    lines += _coverage(result, paint)
    lines += [f"haulage check: {note}" for note in result.notes]
    return "\n".join([*lines, figures(result, paint)])


def _coverage(result: Result, paint: Paint) -> list[str]:
    if result.coverage is None:
        return []
    title, total = coverage_table.TITLE, coverage_table.summary(result.coverage)
    head = [paint(title, "title"), paint("=" * len(title), "title")]
    table = [*head, *coverage_table.table(result.coverage), ""] if len(result.coverage) else []
    return [*table, f"haulage check: coverage: {total}"]


def pages(result: Result, paint: Paint = plain) -> str:
    """All that was found, without the line of figures."""
    lines = []
    for kind, group in groupby(result.findings, key=lambda each: each.kind):
        lines += [*_page(kind, list(group), result, paint), ""]
    return "\n".join(lines).rstrip()


def headline(result: Result) -> str:
    """The first finding and the number of the others, in one line."""
    first, *others = result.findings
    place, kernel = first.access.place, first.access.kernel
    words = first.kind + (f" in kernel {kernel}" if kernel else "")
    words += f" at {_place(place)}" if place else ""
    return words + (f", and {counted(len(others), 'more finding')}" if others else "")


def figures(result: Result, paint: Paint = plain) -> str:
    """One line: what was found, and how much was checked."""
    kinds: dict[str, int] = {}
    for each in result.findings:
        kinds[each.kind] = kinds.get(each.kind, 0) + 1
    by_kind = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    many = len(result.findings)
    if many:
        found = paint(f"{counted(many, 'finding')} ({by_kind})", "head")
    elif result.launches:
        found = paint("nothing found", "good")
    else:
        found = NO_LAUNCH
    suppressed = f", {result.suppressed:,} suppressed" if result.suppressed else ""
    return (
        f"haulage check: {found}{suppressed}; {counted(result.launches, 'launch', 'launches')} and "
        f"{counted(result.accesses, 'access', 'accesses')} checked in "
        f"{duration(round(result.seconds * 1e9))}"
    )


def counted(count: int, one: str, many: str = "") -> str:
    """A number with what it counts: '1 launch', '2,000 launches'."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _page(kind: str, findings: list[Finding], result: Result, paint: Paint) -> list[str]:
    title = f"{kind}: {KINDS.get(kind, kind)}"
    lines = [paint(title, "head"), paint("=" * len(title), "head")]
    lines += [paint(HELP[kind], "quiet")] if kind in HELP else []
    for finding in findings:
        lines += ["", *_finding(finding, result, paint)]
    return lines


def _finding(finding: Finding, result: Result, paint: Paint) -> list[str]:
    lines = [paint(line, "title") for line in _wrapped(finding.message)]
    lines += [f"  {each}" for each in _places(finding, result, paint)]
    if finding.same_value:
        lines.append("  each time both wrote the same value")
    if finding.allocated is not None:
        what = finding.array or "the memory"
        lines.append(f"  {what} was allocated at {paint(_place(finding.allocated), 'place')}")
    if finding.count > 1 and finding.measured is None:
        places = {each.place for each in (finding.access, finding.other) if each is not None}
        where = "these lines" if len(places) > 1 else "this line"
        lines.append(f"  found {finding.count:,} times at {where}")
    return lines


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _places(finding: Finding, result: Result, paint: Paint) -> list[str]:
    """The lines of both accesses."""
    accesses = [finding.access, *([finding.other] if finding.other else [])]
    lines = []
    for file, group in _by_file(accesses):
        marks = [
            Mark(each.place.line, each.what, finding.array, said(each, finding))
            for each in group
            if each.place is not None
        ]
        parts = excerpts(file, marks, result.sources) if file else []
        lines.append(f"{paint('-->', 'quiet')} {paint(_heading(group), 'place')}")
        if not parts:
            lines += [f"  {said(each, finding)}" for each in group]
        for number, part in enumerate(parts):
            lines += [paint("  ...", "quiet")] if number else []
            lines += [f"  {_painted(line, paint)}" for line in part]
    return lines


def _heading(group: list[Access]) -> str:
    """The lines of accesses in one file, and their kernels."""
    kernels: dict[str, list[str]] = {}
    for each in group:
        kernels.setdefault(each.kernel, []).append(_where(each))
    return ", ".join(
        " and ".join(dict.fromkeys(places)) + (f" in kernel {kernel}" if kernel else "")
        for kernel, places in kernels.items()
    )


def _painted(line: str, paint: Paint) -> str:
    number, bar, rest = line.partition("|")
    if not number.strip():
        return paint(number + bar, "quiet") + paint(rest, "mark")
    return paint(number + bar, "quiet") + rest


def _by_file(accesses: list[Access]) -> Iterable[tuple[str, list[Access]]]:
    found: dict[str, list[Access]] = {}
    for each in accesses:
        found.setdefault(each.place.file if each.place else "", []).append(each)
    return found.items()


def said(access: Access, finding: Finding) -> str:
    """What was done, to which element, and by which thread."""
    what, by, whom = access.what.partition(" by ")
    element = finding.element
    if not element and finding.array and finding.index is not None:
        element = f"{finding.array}[{', '.join(map(str, finding.index))}]"
    words = f"{what}{element and ' of '}{element}{by}{whom}"
    if access.thread is not None:
        words += f" by thread {_index(access.thread)}"
    if access.block is not None:
        words += f" {'in' if access.thread is not None else 'by'} block {_index(access.block)}"
    return words


def _index(index: tuple[int, ...]) -> str:
    return f"({','.join(map(str, index))})"


def _where(access: Access) -> str:
    return _place(access.place) if access.place else "(no line known)"


def _place(place: Place) -> str:
    return f"{shown(place.file)}:{place.line}"


def show(text: str, file: TextIO | None = None) -> None:
    """Print on standard error, if there is one."""
    file = file or sys.stderr
    if file is not None and not file.closed:
        print(text, file=file, flush=True)


_STYLES = {
    "head": "color:#c5221f;font-weight:bold",
    "title": "font-weight:bold",
    "mark": "color:#a15c00",
    "place": "color:#00658a",
    "quiet": "color:#777",
    "good": "color:#1a7f37",
}


def as_html(result: Result) -> str:
    """The report for a notebook."""

    def paint(text: str, role: str) -> str:
        # What stands between these is escaped with all else.
        return f"\0{role}\1{text}\2"

    text = html.escape(as_text(result, paint))
    for role, style in _STYLES.items():
        text = text.replace(f"\0{role}\1", f'<span style="{style}">')
    return f"<pre>{text.replace(chr(2), '</span>')}</pre>"
