"""A run as a table on a terminal, or as plain lines."""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks import outcomes
from benchmarks.outcomes import Run, pairs
from benchmarks.smart import section
from haulage.cli.bench import statistics

HEADS = ("case", "peer", "Haulage ms", "its ms", "ratio", "interval", "rounds", "kind", "results")
_LINE = "{:<18} {:<10} {:>10} {:>10} {:>7} {:>15} {:>6} {:<6} {}"


def rows(run: Run) -> Iterator[tuple[str, ...]]:
    """A row of text for each pair, and for each case that no peer took part in."""
    for part in ("cases", "small"):
        yield from _rows(run, part)


def _rows(run: Run, part: str) -> Iterator[tuple[str, ...]]:
    found = pairs(run, part)
    for case, entry in run[part].items():
        ours = "wrong" if outcomes.is_wrong(entry) else "ok"
        mine = [pair for pair in found if pair.case == case]
        if not mine and "ours" in entry:
            value = statistics.median(entry["ours"]).value
            yield case, "", f"{value:.4g}", "", "", "", str(len(entry["ours"])), "", ours
        for pair in mine:
            yield (
                case,
                pair.peer,
                f"{pair.ours.value:.4g}",
                f"{pair.theirs.value:.4g}",
                f"{pair.ratio.value:.2f}",
                f"{pair.ratio.low:.2f} .. {pair.ratio.high:.2f}",
                str(pair.rounds),
                "limit" if pair.limit else "bar",
                f"{ours}, {'WRONG' if pair.wrong else 'ok'}",
            )


def print_run(run: Run) -> None:
    """Print what was measured, and what could not be."""
    if (run["cases"] or run["small"]) and sys.stdout.isatty():
        table = Table(*HEADS)
        for row in rows(run):
            table.add_row(*row, style="red" if "wrong" in row[-1].lower() else None)
        Console().print(table)
    elif run["cases"] or run["small"]:
        print(_LINE.format(*HEADS))
        for row in rows(run):
            print(_LINE.format(*row).rstrip())
    for case, entry in run["compile"].items():
        told = "  ".join(f"{n} {statistics.median(ms).value:.0f}" for n, ms in entry.items() if ms)
        print(f"{case:<18} compiled, ms: {told}")
    for case, entry in run["start"].items():
        for name, kept in entry.items():
            cold, cached, importing = (
                statistics.median(kept[part]).value for part in ("cold", "cached", "import")
            )
            print(
                f"{case:<18} {name:<10} first result in a fresh process, ms: {cold:.0f} compiled, "
                f"{cached:.0f} from disk, of which import {importing:.0f}"
            )
    _print_memory(run["memory"])
    for line in section.told(run["smart"]):
        print(line)
    limits = run["machine"].get("limits")
    if limits:
        print(
            "limits of the machine: {gigaflops} GFLOP/s, triad {triad} GB/s, "
            "copy {copy} GB/s".format(**limits)
        )
    for name, entry in run["peers"].items():
        if "skipped" in entry:
            print(f"skipped: {name}: {entry['skipped']}")
    for case, entry in (*run["cases"].items(), *run["small"].items()):
        for name, reason in entry["skipped"].items():
            print(f"skipped: {name} in {case}: {reason}")


def _print_memory(memory: Mapping[str, Any]) -> None:
    for name, times in memory.get("cases", {}).items():
        told = "  ".join(f"{n} {statistics.median(ns).value:.0f}" for n, ns in times.items())
        print(f"{name:<18} allocated and freed, ns: {told}")
    for path, parts in memory.get("parts", {}).items():
        for name, ns in parts.items():
            print(f"{path:<10} {statistics.median(ns).value:>6.0f} ns: {name}")
    for name, why in memory.get("skipped", {}).items():
        print(f"skipped: {name}: {why}")
    for trace, ratios in memory.get("fragmentation", {}).items():
        told = "  ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
        print(f"{trace:<18} reserved over live: {told}")


def any_wrong(run: Run) -> bool:
    """Whether a result of Haulage's was wrong, or it could not do a case."""
    both = (*run["cases"].values(), *run["small"].values())
    return any(outcomes.is_wrong(entry) for entry in both)
