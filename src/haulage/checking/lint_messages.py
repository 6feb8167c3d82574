"""What of the figures of a launch is worth telling, and in which words."""

import ast
import linecache
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

from haulage.checking.findings import (
    BANK_CONFLICT,
    DIVERGENCE,
    FLOAT64,
    IDLE_LANES,
    LOCAL_MEMORY,
    UNCOALESCED,
    Finding,
)

# Of grids with fewer threads it does not matter how many of them have nothing to do.
_LEAST_THREADS = 4096
# Names by which a kernel says that it wants float64.
_MEANT = frozenset(("float64", "double", "complex128", "float_"))

# The GPU that code is made for to see what it keeps in local memory, by the lanes of a warp.
GPUS = {32: "sm_80", 64: "gfx90a"}

_Figures = Mapping[str, int]


def told(finding: Finding) -> Finding | None:
    """A finding as it is told; None: what was measured is not worth it. Those of other checks are
    told as they are."""
    if finding.measured is None:
        return finding
    words = _WORDS[finding.kind](finding, finding.measured)
    if words is None:
        return None
    message, count = words
    if finding.kind != LOCAL_MEMORY:
        message += _part(finding.measured)
    return replace(finding, message=message, count=count)


_Words = tuple[str, int] | None


def _uncoalesced(finding: Finding, of: _Figures) -> _Words:
    requests, sectors, least = of["requests"], of["sectors"], of["least_sectors"]
    # Lanes that do not take part, and one sector more for rows that are not aligned, are no matter.
    if sectors < 2 * least or sectors - of["whole_sectors"] < 2 * requests:
        return None
    # What the line's other requests use of the same sectors is in the cache.
    if of["line_sectors"] < 2 * of["line_least_sectors"]:
        return None
    what = "reads" if finding.access.what == "read" else "writes"
    return (
        f"a warp {what} {finding.array or 'memory'} in {_number(sectors / requests)} sectors of 32 "
        f"bytes per request, and {_number(least / requests)} would hold as much "
        f"({_counted(requests, 'request')})"
    ), requests


def _bank_conflict(finding: Finding, of: _Figures) -> _Words:
    requests, least, cycles = of["requests"], of["least_cycles"], of["cycles"]
    if cycles < 2 * least:
        return None
    pad = ""
    if finding.hint and cycles >= 8 * least:
        # Lanes that go down a column.
        pad = f"; rows of one element more help: {finding.hint}"
    return (
        f"lanes of a warp use different words of one bank of {finding.array or 'shared memory'}: "
        f"{_number(cycles / least)} ways per request, at most {of['most_ways']}, and "
        f"{_counted(cycles - least, 'extra cycle')} in {_counted(requests, 'request')}{pad}"
    ), requests


def _divergence(finding: Finding, of: _Figures) -> _Words:
    times, diverged = of["times"], of["diverged"]
    if 4 * of["idle_lanes"] < of["all_lanes"]:
        return None
    idle = _percent(of["idle_lanes"], of["all_lanes"])
    if finding.access.what == "loop":
        if of["iterations"] < 4 * times or 4 * diverged < times:
            return None
        return (
            f"lanes of a warp make different numbers of iterations, in {_percent(diverged, times)} "
            f"of {_counted(times, 'loop')} of a warp: {idle} of the lanes wait for the others, in "
            f"{_counted(of['iterations'], 'iteration')}"
        ), times
    # In the last steps of a reduction the lanes of one warp part, however it is written.
    if times < 4 * of["warps"] or 2 * diverged < times:
        return None
    return (
        f"lanes of a warp go different ways in a loop, {_percent(diverged, times)} of "
        f"{_counted(times, 'time')}: {idle} of the lanes wait for the others"
    ), times


def _float64(finding: Finding, of: _Figures) -> _Words:
    place = finding.access.place
    if not of["is_single"] or place is None or _means_double(place.file, place.line):
        return None
    operations = of["operations"]
    return (
        f"the arrays are float32, and this is calculated in float64: {finding.hint} "
        f"({_counted(operations, 'operation')})"
    ), operations


def _idle_lanes(finding: Finding, of: _Figures) -> _Words:
    launches = _counted(of["launches"], "launch", "launches")
    if "block" in of:
        if 10 * of["idle_lanes"] < of["all_lanes"]:
            return None
        lanes = of["lanes"]
        size = "a multiple of" if of["block"] > lanes else "at least"
        return (
            f"blocks of {finding.hint} have {_counted(of['block'], 'thread')}, and warps "
            f"{lanes} lanes: {_percent(of['idle_lanes'], of['all_lanes'])} of the lanes are never "
            f"used, in {launches}; make it {size} {lanes}"
        ), of["launches"]
    idle, threads = of["idle_threads"], of["threads"]
    if 2 * idle < threads or of["all_warps"] * of["lanes"] < _LEAST_THREADS * of["launches"]:
        return None
    return (
        f"{_percent(idle, threads)} of the threads do nothing, in {launches} with blocks of "
        f"{finding.hint}: make the grid or the blocks smaller"
    ), of["launches"]


def _local_memory(finding: Finding, of: _Figures) -> _Words:
    gpu = GPUS[of["lanes"]]
    return (
        f"code for {gpu} keeps {_counted(of['bytes'], 'byte')} of each thread in local memory, and "
        f"not in registers: {finding.hint} ({_counted(of['threads'], 'thread')})"
    ), of["threads"]


_WORDS: dict[str, Callable[[Finding, _Figures], _Words]] = {
    UNCOALESCED: _uncoalesced,
    BANK_CONFLICT: _bank_conflict,
    DIVERGENCE: _divergence,
    FLOAT64: _float64,
    IDLE_LANES: _idle_lanes,
    LOCAL_MEMORY: _local_memory,
}


def folded(findings: list[Finding]) -> list[Finding]:
    """The findings, of which requests of one array in one kernel are one: that of the worst line,
    which names the others."""
    alike: dict[object, list[Finding]] = {}
    for each in findings:
        key: object = id(each)
        if each.kind in _COSTS and each.array:
            file = each.access.place and each.access.place.file
            key = each.kind, file, each.access.kernel, each.array, each.access.what
        alike.setdefault(key, []).append(each)
    return [_folded(group) for group in alike.values()]


# What requests cost more than they need.
_COSTS: dict[str, Callable[[_Figures], int]] = {
    UNCOALESCED: lambda of: of["sectors"] - of["least_sectors"],
    BANK_CONFLICT: lambda of: of["cycles"] - of["least_cycles"],
}


def _folded(group: list[Finding]) -> Finding:
    if len(group) == 1:
        return group[0]
    worst = max(group, key=lambda each: _COSTS[each.kind](each.measured or {}))
    lines = sorted({each.access.place.line for each in group if each.access.place})
    others = [line for line in lines if line != (worst.access.place and worst.access.place.line)]
    if not others:
        return worst
    named = ", ".join(map(str, others[:8])) + (", ..." if len(others) > 8 else "")
    word = "line" if len(others) == 1 else "lines"
    return replace(worst, message=f"{worst.message}; so do others in {word} {named}")


def _part(of: _Figures) -> str:
    """What part was measured, where it was not all."""
    parts = []
    if of["warps"] < of["all_warps"]:
        parts.append(f"{of['warps']:,} of {of['all_warps']:,} warps")
    some = of.get("looked_at")
    if some is not None and some < of.get("requests", of.get("times", 0)):
        parts.append(f"{some:,} of their requests" if "requests" in of else f"{some:,} of these")
    return f"; measured on {', '.join(parts)}" if parts else ""


def _number(value: float) -> str:
    return f"{value:.0f}" if value == round(value) else f"{value:.1f}"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %"


def _counted(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


@cache
def _means_double(file: str, line: int) -> bool:
    """Whether the function that a line is in names float64 itself."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return False
    around = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.FunctionDef) and each.lineno <= line <= (each.end_lineno or 0)
    ]
    if not around:
        return False
    function = max(around, key=lambda each: each.lineno)
    names = {each.id for each in ast.walk(function) if isinstance(each, ast.Name)}
    names |= {each.attr for each in ast.walk(function) if isinstance(each, ast.Attribute)}
    return bool(names & _MEANT)
