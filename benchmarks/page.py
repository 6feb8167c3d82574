"""docs/performance.md, drawn from the JSON of a run and from the remarks of people."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from benchmarks import outcomes
from benchmarks.corpus import results as of_corpus
from benchmarks.environments import ROOT
from benchmarks.memory import section
from benchmarks.outcomes import Pair, Run, pairs
from benchmarks.peers import PEERS
from benchmarks.smart import section as of_smart_arrays
from haulage.cli.bench import statistics
from haulage.cli.bench.problems import PROBLEMS

PAGE = ROOT / "docs" / "performance.md"
PAGE_OF_PASSES = ROOT / "docs" / "passes.md"
PICTURE = ROOT / "docs" / "images" / "performance.png"
HERE = Path(__file__).parent
RESULTS, REMARKS = HERE / "results.json", HERE / "remarks.json"
# Of `--what passes`; without it there is no page about them.
PASSES = HERE / "passes.json"

# What issue and page measure Haulage by: the ratio to reach, theirs over ours.
GOALS = {"intel": 0.5, "njit": 0.8}
LEVEL = 1.0
_AT_ONCE = ("copy", "launch", "random", "reduce-float")

_HEAD = """\
# How fast the CPU device is

Kernels written as for a GPU, with no hint for the CPU, against other runtimes on the same machine.

    make bench-peers                                # install the other runtimes, below .peers
    make bench                                      # everything: some ten minutes
    make bench ARGS='scan --peers njit --rounds 7'  # one case, quickly
    make bench ARGS='--what memory'                 # allocations and fragmentation alone
    make bench ARGS='--what smart'                  # SmartArrays alone
    make bench ARGS='--into benchmarks/results.json' && make bench-page
    haulage bench                                   # the kernels alone

This page is written by `make bench-page`, from `benchmarks/results.json` and the remarks in
`benchmarks/remarks.json`. Runtimes take turns: in each round each is called until 20 ms have passed
(one call that is not counted goes before). Times are medians in milliseconds, of float32 unless the
name says otherwise. Each result is compared with NumPy's.

A **bar** is a runtime that runs the same algorithm with the same synchronisation. Figures in
parentheses are **limits**: loops or library calls that solve the problem another way.
"""


def draw() -> list[str]:
    """Write the page and its pictures; returns what was written, below the repository."""
    from benchmarks import picture
    from benchmarks.memory import picture as of_memory

    run = outcomes.read(RESULTS)
    remarks = json.loads(REMARKS.read_text(encoding="utf-8"))
    fragmentation = PICTURE.with_name(section.PICTURE)
    picture.draw(run, PICTURE)
    of_memory.draw(fragmentation)
    PAGE.write_text(text(run, remarks), encoding="utf-8")
    written = [PAGE, PICTURE, fragmentation]
    if PASSES.exists():
        PAGE_OF_PASSES.write_text(of_corpus.page(of_corpus.read(PASSES)), encoding="utf-8")
        written.append(PAGE_OF_PASSES)
    return [path.relative_to(ROOT).as_posix() for path in written]


def text(run: Run, remarks: Mapping[str, str]) -> str:
    """The whole page. `remarks` has a sentence for cases by name, and `general` ones under ""."""
    found = pairs(run)
    parts = [
        _HEAD,
        *_machine(run),
        "## Kernels\n",
        "![Haulage and its peers](images/performance.png)\n",
        *_kernels(run, found),
        *_behind(found, remarks),
        *_launches(run, found),
        *_copies(run, found),
        *of_smart_arrays.lines(run["smart"]),
        *section.lines(run["memory"]),
        *_small(run),
        *_compiling(run),
        *_starts(run),
        *_peers(run),
    ]
    if remarks.get(""):
        parts += ["## Remarks\n", remarks[""] + "\n"]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def short(ms: float) -> str:
    """Milliseconds with three digits that count, or whole ones from 100 on."""
    return f"{ms:.0f}" if ms >= 100 else f"{ms:.3g}"


def _machine(run: Run) -> Iterator[str]:
    machine = run["machine"]
    rows = [
        ("date", machine["date"]),
        ("processor", f"{machine['processor']}, {machine['cores']} cores"),
        ("system", machine["system"]),
        ("Python", machine["python"]),
        *((name, machine[name]) for name in ("numpy", "numba", "llvmlite")),
    ]
    limits = machine.get("limits")
    if limits:
        rows += [
            ("multiply-adds, float32", f"{limits['gigaflops']:.0f} GFLOP/s on all cores"),
            ("triad (a = b + s c)", f"{limits['triad']:.1f} GB/s"),
            ("`numpy.copyto`, read and written", f"{limits['copy']:.1f} GB/s"),
        ]
    yield "## The machine\n"
    yield _table(("", ""), rows)


def _kernels(run: Run, found: list[Pair]) -> Iterator[str]:
    names = [name for name in run["cases"] if not name.startswith(_AT_ONCE)]
    peers = [peer for peer in PEERS if any(p.peer == peer and p.case in names for p in found)]
    rows = []
    for name in names:
        entry = run["cases"][name]
        if "ours" not in entry:
            continue
        ours = statistics.median(entry["ours"]).value
        mine = {pair.peer: pair for pair in found if pair.case == name}
        cells = [_time(mine[peer]) if peer in mine else "" for peer in peers]
        rows.append((PROBLEMS[name].title, f"**{short(ours)}**", *cells, _limit(run, name, ours)))
    heads = ("kernel", "Haulage", *(PEERS[peer].title for peer in peers), "of the machine's limit")
    yield _table(heads, rows)
    yield from _means(found)
    yield "### Ratios\n"
    yield "Their time over Haulage's (above 1 Haulage is faster), with 95 % intervals; bars only.\n"
    yield _ratios(found, names)


def _means(found: list[Pair]) -> Iterator[str]:
    yield "Geometric means of the bars, their time over Haulage's:\n"
    for peer in PEERS:
        bars = [p.ratio.value for p in found if p.peer == peer and _is_bar_of_kernels(p)]
        if bars:
            mean, worst = statistics.geometric_mean(bars), min(bars)
            yield f"- {PEERS[peer].title}: {mean:.2f}, at worst {worst:.2f} ({len(bars)} kernels)"
    yield ""


def _is_bar_of_kernels(pair: Pair) -> bool:
    return pair.limit is None and not pair.wrong and not pair.case.startswith(_AT_ONCE)


def _ratios(found: list[Pair], names: list[str]) -> str:
    bars = [pair for pair in found if _is_bar_of_kernels(pair)]
    peers = [peer for peer in PEERS if any(pair.peer == peer for pair in bars)]
    rows = []
    for name in names:
        mine = {pair.peer: pair for pair in bars if pair.case == name}
        if mine:
            rows.append((name, *(_ratio(mine[p]) if p in mine else "" for p in peers)))
    return _table(("kernel", *(PEERS[peer].title for peer in peers)), rows)


def _ratio(pair: Pair) -> str:
    return f"{pair.ratio.value:.2f} ({pair.ratio.low:.2f} to {pair.ratio.high:.2f})"


def _time(pair: Pair) -> str:
    # By this pair's own ratio: the pairs of a case may be of different runs.
    cell = short(pair.theirs.value) + (" wrong" if pair.wrong else "")
    return f"({cell})" if pair.limit else cell


def _limit(run: Run, name: str, ours: float) -> str:
    limits, problem = run["machine"].get("limits"), PROBLEMS[name]
    size = run["cases"][name]["size"]
    if not limits:
        return ""
    least = max(
        (problem.nbytes(size) / limits["triad"] if problem.nbytes else 0) / 1e6,
        (problem.flops(size) / limits["gigaflops"] if problem.flops else 0) / 1e6,
    )
    return f"{100 * least / ours:.0f} %" if least else ""


def _behind(found: list[Pair], remarks: Mapping[str, str]) -> Iterator[str]:
    behind = [
        pair
        for pair in found
        if pair.limit is None and pair.ratio.value < GOALS.get(pair.peer, LEVEL)
        and not pair.case.startswith("launch")
    ]  # fmt: skip
    yield "## Where Haulage is behind\n"
    yield (
        "Bars that it does not reach: level with PoCL, Taichi and Warp; half of Intel's speed in\n"
        "each kernel, and level with it over all; 0.8 of loops by hand; copies level with NumPy.\n"
    )
    rows = [
        (
            pair.case,
            PEERS[pair.peer].title,
            _ratio(pair),
            f"{GOALS.get(pair.peer, LEVEL):g}",
            remarks.get(pair.case, ""),
        )
        for pair in sorted(behind, key=lambda p: p.ratio.value / GOALS.get(p.peer, LEVEL))
    ]
    yield _table(("case", "peer", "ratio", "bar", "why"), rows) if rows else "Nowhere.\n"


def _launches(run: Run, found: list[Pair]) -> Iterator[str]:
    names = [name for name in run["cases"] if name.startswith("launch")]
    if names:
        yield "## Empty launches, microseconds\n"
        yield _beside(
            run,
            found,
            names,
            lambda ours: f"{ours * 1e3:.2f}",
            lambda pair: f"{pair.theirs.value * 1e3:.2f}",
        )


def _copies(run: Run, found: list[Pair]) -> Iterator[str]:
    names = [name for name in run["cases"] if name.startswith(_AT_ONCE) and "launch" not in name]
    if names:
        yield "## Copies, sums and random numbers, ms\n"
        yield _beside(run, found, names, short, _time)


def _beside(
    run: Run,
    found: list[Pair],
    names: list[str],
    shown: Callable[[float], str],
    shown_of: Callable[[Pair], str],
) -> str:
    """Cases with Haulage's medians and those of the peers that took part in any of them."""
    peers = [peer for peer in PEERS if any(p.peer == peer and p.case in names for p in found)]
    rows = []
    for name in names:
        ours = statistics.median(run["cases"][name]["ours"]).value
        mine = {pair.peer: pair for pair in found if pair.case == name}
        cells = (shown_of(mine[peer]) if peer in mine else "" for peer in peers)
        rows.append((PROBLEMS[name].title, f"**{shown(ours)}**", *cells))
    return _table(("", "Haulage", *(PEERS[peer].title for peer in peers)), rows)


def _small(run: Run) -> Iterator[str]:
    found = [pair for pair in pairs(run, "small") if PEERS[pair.peer].small]
    if not found:
        return
    rows = [
        (pair.case, str(run["small"][pair.case]["size"]), short(pair.ours.value), _time(pair))
        for pair in found
    ]
    yield "## Numba's simulator, at tiny sizes, ms\n"
    yield _table(("kernel", "size", "Haulage", "Numba's simulator"), rows)


def _compiling(run: Run) -> Iterator[str]:
    if not run["compile"]:
        return
    peers = [p for p in PEERS if any(p in entry for entry in run["compile"].values())]
    rows = []
    for name, entry in run["compile"].items():
        cells = (short(statistics.median(entry[p]).value) if entry.get(p) else "" for p in peers)
        rows.append((name, f"**{short(statistics.median(entry['haulage']).value)}**", *cells))
    yield "## Compiling, ms\n"
    yield (
        "From a kernel's source to the end of its first small run, in a process that has compiled "
        "another one before; njit has the same algorithm as loops by hand.\n"
    )
    yield _table(("kernel", "Haulage", *(PEERS[p].title for p in peers)), rows)


def _starts(run: Run) -> Iterator[str]:
    if not run["start"]:
        return
    names = [name for name in ("haulage", "njit") if any(name in e for e in run["start"].values())]
    rows = []
    for case, entry in run["start"].items():
        row = [case]
        for name in names:
            kept = entry.get(name)
            row += [short(statistics.median(kept[k]).value) if kept else "" for k in _KINDS]
        rows.append(row)
    yield "## Fresh processes up to their first result, ms\n"
    yield (
        "With `cache=True`: the first process compiles, later ones find the code on disk. The "
        "start of Python and of NumPy does not count; the import does, and stands beside it.\n"
    )
    titles = {"haulage": "Haulage", "njit": PEERS["njit"].title}
    heads = [f"{titles[name]}: {_KINDS[kind]}" for name in names for kind in _KINDS]
    yield _table(("kernel", *heads), rows)


_KINDS = {"cold": "compiles", "cached": "from disk", "import": "of it import"}


def _peers(run: Run) -> Iterator[str]:
    yield "## Who took part\n"
    for name, peer in PEERS.items():
        entry = run["peers"].get(name)
        if entry is None:
            yield f"- {peer.title}: not asked"
        elif "skipped" in entry:
            yield f"- {peer.title}: skipped: {entry['skipped']}"
        else:
            yield f"- {peer.title}: {entry['about']}"
    yield ""
    yield "Why a runtime's figure is a limit and no bar, or is missing:\n"
    for name, peer in PEERS.items():
        for reason in dict.fromkeys(peer.limits.values()):
            cases = [case for case, why in peer.limits.items() if why == reason]
            shown = "all" if cases == ["*"] else ", ".join(cases)
            yield f"- {peer.title}: {reason} ({shown})"
        for case, entry in run["cases"].items():
            if name in entry["skipped"]:
                yield f"- {peer.title}, {case}: {entry['skipped'][name]}"
    yield ""


def _table(heads: tuple[str, ...] | list[str], rows: list) -> str:  # type: ignore[type-arg]
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    lines += [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join(lines) + "\n"
