"""The part of docs/performance.md that is about memory."""

from collections.abc import Iterator
from typing import Any

from benchmarks.memory import fragmentation, traces
from benchmarks.memory.allocations import CASES, PEERS, PUBLISHED, Case
from haulage.cli.bench import statistics

PICTURE = "fragmentation.png"

_TRACES = {"log-uniform": "log-uniform sizes", "drifting-batches": "drifting batches"}


def lines(memory: dict[str, Any]) -> Iterator[str]:
    """Markdown of what `benchmarks.memory.measure` gave."""
    if not memory:
        return
    yield "## Memory\n"
    yield from _allocations(memory)
    yield from _parts(memory)
    yield from _fragmentation(memory)


def _allocations(memory: dict[str, Any]) -> Iterator[str]:
    yield "### An array made and dropped, copied, indexed, nanoseconds\n"
    yield (
        "From Python, the garbage collector on and the ledger of who holds what, which is always "
        "on. A bar is a multiple of NumPy's time, or nanoseconds.\n"
    )
    rows = []
    for name, case in CASES.items():
        times = memory["cases"].get(name, {})
        if "haulage" not in times:
            continue
        cells = [_ns(times[peer]) if peer in times else "" for peer in PEERS]
        rows.append((case.title, f"**{cells[0]}**", *cells[1:], *_against(times, case)))
    heads = ("", *(peer.title for peer in PEERS.values()), "of NumPy's time", "bar")
    yield _table(heads, rows)
    for peer, why in memory["skipped"].items():
        yield f"{PEERS[peer].title} is skipped: {why}\n"
    yield "Published figures of others, microseconds, on other machines:\n"
    for what, microseconds, source in PUBLISHED:
        yield f"- {what}: {microseconds} ({source})"
    yield ""


def _against(times: dict[str, list[float]], case: Case) -> tuple[str, str]:
    """What it takes of NumPy's time, and the bar."""
    text, held = "", True
    if "numpy" in times:
        ratio = statistics.ratio(times["haulage"], times["numpy"])
        text = f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
        held = not case.most or ratio.value <= case.most
    if case.most_ns:
        held = statistics.median(times["haulage"]).value <= case.most_ns
    bar = f"{case.most_ns:g} ns" if case.most_ns else f"{case.most:g}" if case.most else ""
    return text, bar if held else f"{bar}: **missed**"


def _parts(memory: dict[str, Any]) -> Iterator[str]:
    yield "### What it is made of, nanoseconds\n"
    yield (
        "An array of 1000 float32: parts that can be called alone, by the same turns. What is\n"
        "left of the whole is what cannot: its list, the ledger's counters and the way back.\n"
    )
    rows = [(part, _ns(times)) for part, times in memory["parts"].get("haulage", {}).items()]
    yield _table(("part", ""), rows)


def _fragmentation(memory: dict[str, Any]) -> Iterator[str]:
    found = memory["fragmentation"]
    yield "### Fragmentation\n"
    yield (
        "The most bytes reserved over the most bytes live, for two recorded traces of 12 000\n"
        "allocations and frees with at most 3.2 GiB live (`benchmarks/memory/traces.py` says how\n"
        "they were made). Haulage's rows are its own code, over pages that are only counted; the\n"
        "others are models of the policies, not the real libraries. Nothing is trimmed by hand.\n"
        f"The bar for Haulage with virtual memory is {fragmentation.BAR:g}.\n"
    )
    yield f"![What is reserved while the traces are replayed](images/{PICTURE})\n"
    rows = []
    for name, (title, _) in fragmentation.ALL.items():
        cells = [found[trace].get(name) for trace in traces.NAMES]
        rows.append((title, *("" if cell is None else f"{cell:.2f}" for cell in cells)))
    yield _table(("policy", *(_TRACES[trace] for trace in traces.NAMES)), rows)


def _ns(times: list[float]) -> str:
    return f"{statistics.median(times).value:.0f}"


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"
