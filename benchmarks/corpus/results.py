"""What runs of the corpus found: JSON on disk, the arithmetic of the tables, and their text."""

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from haulage.cli.bench import statistics
from haulage.cli.bench.statistics import Estimate

Found = dict[str, Any]

# A kernel gains or loses if its ratio is beyond these, and its interval does not have 1 in it.
MARKED, LARGE = 1.05, 1.10
# What a pass has to bring, over all kernels or to so many of them.
LEAST_MEAN, LEAST_KERNELS = 1.01, 3
# Below this of njit's speed a kernel is named.
BEHIND = 0.8


# ---- files --------------------------------------------------------------------------------------


def empty() -> Found:
    """Nothing found yet."""
    return {"machine": {}, "passes": {}, "kernels": {}, "corpus": {}}


def new_kernel(group: str) -> dict[str, Any]:
    """A kernel of which nothing is known yet.

    `compile` has the milliseconds with and without a pass, `times` those of runs; `unchanged` names
    the passes without which the code is the same, `failed` tells what goes wrong without a pass, or
    with all of them ("").
    """
    return {"group": group, "compile": {}, "unchanged": [], "failed": {}, "times": {}}


def read(path: Path) -> Found:
    """What a file has."""
    found: Found = json.loads(path.read_text(encoding="utf-8"))
    return empty() | found


def keep(found: Found, path: Path | None) -> None:
    """Write a file, if there is to be one: one line for each list."""
    if path is not None:
        text = json.dumps(found, indent=1)
        joined = re.sub(r"\[\s+([-\d.e+,\s])+\]", lambda part: " ".join(part[0].split()), text)
        path.write_text(joined + "\n", encoding="utf-8")


def missing_passes(found: Found, kernel: str, wanted: Iterable[str]) -> list[str]:
    """Those of the passes that were not yet left out of a kernel."""
    entry = found["kernels"].get(kernel, new_kernel(""))
    done = {*entry["unchanged"], *entry["failed"], *entry["times"]}
    return [name for name in wanted if name not in done]


def has_corpus(found: Found, kernel: str, sides: Container[str]) -> bool:
    """Whether a kernel was run already, with these sides as far as it has them."""
    entry = found["corpus"].get(kernel)
    if entry is None:
        return False
    return "njit" not in sides or bool(entry.get("asked_njit", "njit" in entry["times"]))


# ---- passes -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One pass. Ratios are the time without it over that with it: above 1 it makes kernels faster.

    `mean` is the geometric mean over all `kernels`, those whose code is the same without the pass
    among them; `gains` and `losses` have the ratios beyond 5 %, the largest first; `compiling` is
    the part of the time of compiling that it takes; `needed` tells by kernel what goes wrong
    without it.
    """

    name: str
    summary: str
    kernels: int
    unchanged: int
    mean: float
    gains: dict[str, Estimate]
    losses: dict[str, Estimate]
    compiling: float
    needed: dict[str, str]

    @property
    def earns_its_place(self) -> bool:
        """Whether it brings enough, or is needed to be right."""
        large = sum(ratio.value > LARGE for ratio in self.gains.values())
        return bool(self.needed) or self.mean >= LEAST_MEAN or large >= LEAST_KERNELS


def rows(found: Found) -> list[Row]:
    """A row for each pass, in the order of the list."""
    return [_row(found, name, summary) for name, summary in found["passes"].items()]


def _row(found: Found, name: str, summary: str) -> Row:
    ratios: dict[str, Estimate] = {}
    unchanged, on, off, needed = 0, 0.0, 0.0, {}
    for kernel, entry in found["kernels"].items():
        if name in entry["unchanged"]:
            unchanged += 1
        elif name in entry["times"]:
            times = entry["times"][name]
            ratios[kernel] = statistics.ratio(times["off"], times["on"])
        if name in entry["failed"] and "" not in entry["failed"]:
            needed[kernel] = entry["failed"][name]
        if name in entry["compile"]:
            with_it, without = entry["compile"][name]
            on, off = on + with_it, off + without
    values = [1.0] * unchanged + [ratio.value for ratio in ratios.values()]
    gains = {k: r for k, r in ratios.items() if r.value > MARKED and r.low > 1}
    losses = {k: r for k, r in ratios.items() if r.value < 1 / MARKED and r.high < 1}
    return Row(
        name,
        summary,
        len(values),
        unchanged,
        statistics.geometric_mean(values) if values else 1.0,
        dict(sorted(gains.items(), key=lambda item: -item[1].value)),
        dict(sorted(losses.items(), key=lambda item: item[1].value)),
        1 - off / on if on else 0.0,
        needed,
    )


_HEAD = """\
# What each pass of the CPU compiler brings

    make bench ARGS='--what passes --into benchmarks/passes.json' && make bench-page
    make bench ARGS='--what passes scan --passes NAME,NAME'     # some kernels, some passes
    make bench ARGS='--what corpus --peers njit'                # the corpus beside loops for njit

This page is written by `make bench-page`, from `benchmarks/passes.json`. Each kernel of the corpus
(`benchmarks/corpus/`) is compiled with all passes and with each one left out; where the object
code differs both are run by turns. A ratio is the time without the pass over the time with it:
above 1 the pass makes the kernel faster. The mean is the geometric one over all kernels, those
whose code is the same without the pass among them. A kernel is named if its ratio is beyond 5 %
and the 95 % interval, in parentheses, does not hold 1. "Compiling" is the part of the time of
compiling, Numba's front end included, that goes if the pass is left out.
"""


def page(found: Found) -> str:
    """The page about passes."""
    facts = found["machine"]
    parts = [
        _HEAD,
        f"{facts['processor']}, {facts['cores']} cores, {facts['date']}; Numba {facts['numba']}, "
        f"llvmlite {facts['llvmlite']}; {len(found['kernels'])} kernels.\n",
        _overview(rows(found)),
    ]
    for row in rows(found):
        parts += [f"## {row.name}\n", f"{row.summary[:1].upper()}{row.summary[1:].rstrip('.')}.\n"]
        parts += [_named(row)]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def _overview(found: list[Row]) -> str:
    heads = ("pass", "mean", "gain > 5 %", "> 10 %", "lose > 5 %", "> 10 %", "code differs",
             "compiling", "needed to be right", "earns its place")  # fmt: skip
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    lines += [f"| {' | '.join(_cells(row))} |" for row in found]
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.name,
        f"{row.mean:.3f}",
        str(len(row.gains)),
        str(sum(ratio.value > LARGE for ratio in row.gains.values())),
        str(len(row.losses)),
        str(sum(ratio.value < 1 / LARGE for ratio in row.losses.values())),
        f"{row.kernels - row.unchanged} of {row.kernels}",
        f"{100 * row.compiling:.1f} %",
        f"{len(row.needed)} kernels" if row.needed else "",
        "yes" if row.earns_its_place else "no",
    )


def _named(row: Row) -> str:
    lines = []
    for title, ratios in (("Faster", row.gains), ("Slower", row.losses)):
        if ratios:
            told = ", ".join(f"{k} {_ratio(ratio)}" for k, ratio in ratios.items())
            lines.append(f"{title} by it: {told}.\n")
    for kernel, why in row.needed.items():
        lines.append(f"Without it {kernel}: {why}.\n")
    return "\n".join(lines) or "No kernel by more than 5 %.\n"


def _ratio(ratio: Estimate) -> str:
    return f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def told_passes(found: Found) -> Iterator[str]:
    """The same for a terminal."""
    yield f"{'pass':<32} {'mean':>6} {'gain':>5} {'>10%':>5} {'lose':>5} {'>10%':>5} " + (
        f"{'differs':>10} {'compiling':>9}  earns"
    )
    for row in rows(found):
        name, mean, gain, more, lose, worse, differs, compiling, needed, earns = _cells(row)
        yield (
            f"{name:<32} {mean:>6} {gain:>5} {more:>5} {lose:>5} {worse:>5} {differs:>10} "
            f"{compiling:>9}  {earns}{f', needed by {needed}' if needed else ''}"
        )
        for sign, ratios in (("+", row.gains), ("-", row.losses)):
            for kernel, ratio in ratios.items():
                yield f"  {sign} {kernel:<40} {_ratio(ratio)}"
        for kernel, why in row.needed.items():
            yield f"  ! {kernel:<40} {why}"
    for kernel, entry in found["kernels"].items():
        if "" in entry["failed"]:
            yield f"with all passes: {kernel}: {entry['failed']['']}"


# ---- the corpus beside njit ---------------------------------------------------------------------


@dataclass(frozen=True)
class Beside:
    """A kernel beside loops for njit: `ratio` is njit's time over ours by the medians, `fastest` by
    the fastest rounds, which says more on a busy machine.
    """

    kernel: str
    ours: Estimate
    theirs: Estimate
    ratio: Estimate
    fastest: float


def pairs(found: Found) -> list[Beside]:
    """The kernels that were run by both, those with a wrong result left out; the worst first."""
    both = [
        Beside(
            kernel,
            statistics.median(entry["times"]["haulage"]),
            statistics.median(entry["times"]["njit"]),
            statistics.ratio(entry["times"]["njit"], entry["times"]["haulage"]),
            min(entry["times"]["njit"]) / min(entry["times"]["haulage"]),
        )
        for kernel, entry in found["corpus"].items()
        if {"haulage", "njit"} <= entry["times"].keys() and not entry["wrong"]
    ]
    return sorted(both, key=lambda pair: pair.ratio.value)


def told_corpus(found: Found) -> Iterator[str]:
    """Times of the corpus, and the comparison with njit."""
    both = {pair.kernel: pair for pair in pairs(found)}
    yield f"{'kernel':<40} {'ours ms':>9} {'njit ms':>9} {'ratio':>6} {'fastest':>8}  interval"
    for kernel, entry in found["corpus"].items():
        if kernel in both:
            pair = both[kernel]
            yield (
                f"{kernel:<40} {pair.ours.value:>9.3f} {pair.theirs.value:>9.3f} "
                f"{pair.ratio.value:>6.2f} {pair.fastest:>8.2f}  "
                f"{pair.ratio.low:.2f} to {pair.ratio.high:.2f}"
            )
        elif entry["times"].get("haulage"):
            yield f"{kernel:<40} {statistics.median(entry['times']['haulage']).value:>9.3f}"
        for side, why in entry["wrong"].items():
            yield f"{kernel}: WRONG: {side}: {why}"
    if both:
        ratios = [pair.ratio.value for pair in both.values()]
        behind = [pair for pair in both.values() if pair.ratio.value < BEHIND]
        yield ""
        yield (
            f"{len(ratios)} kernels beside njit: geometric mean {_mean(ratios)} "
            f"({_mean([pair.fastest for pair in both.values()])} by the fastest rounds), "
            f"{len(behind)} below {BEHIND:g}, the worst first:"
        )
        for pair in behind:
            block = found["corpus"][pair.kernel].get("block", "")
            yield f"  {pair.kernel:<40} {_ratio(pair.ratio)}, fastest {pair.fastest:.2f}  {block}"
        groups: dict[str, list[float]] = {}
        for pair in both.values():
            groups.setdefault(found["corpus"][pair.kernel]["group"], []).append(pair.ratio.value)
        yield "by group: " + ", ".join(f"{g} {_mean(r)}" for g, r in sorted(groups.items()))


def _mean(ratios: list[float]) -> str:
    return f"{statistics.geometric_mean(ratios):.2f}"


def any_wrong(found: Mapping[str, Any]) -> bool:
    """Whether a result of Haulage's was wrong with all passes."""
    corpus = any("haulage" in entry["wrong"] for entry in found["corpus"].values())
    return corpus or any("" in entry["failed"] for entry in found["kernels"].values())
