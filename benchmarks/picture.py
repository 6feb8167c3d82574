"""The picture of a run: each kernel's time, and its peers' as multiples of it."""

from pathlib import Path

from benchmarks.outcomes import Run, pairs
from benchmarks.peers import PEERS

# Distinct without colour as well.
_MARKS = {
    "njit": ("o", "#0072b2"),
    "loop": ("|", "#0072b2"),
    "numpy": ("x", "#999999"),
    "intel": ("s", "#d55e00"),
    "pocl": ("^", "#009e73"),
    "taichi": ("D", "#cc79a7"),
    "warp": ("v", "#e69f00"),
}
_WITHOUT = ("launch", "copy", "random", "reduce-float")


def draw(run: Run, path: Path) -> None:
    """Write a PNG: a row a kernel, on a logarithmic axis; hollow marks are limits."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    found = [pair for pair in pairs(run) if not pair.case.startswith(_WITHOUT)]
    names = [name for name in run["cases"] if not name.startswith(_WITHOUT)]
    row = {name: len(names) - i for i, name in enumerate(names)}
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.36 * len(names)), dpi=110)
    for peer, (mark, colour) in _MARKS.items():
        mine = [pair for pair in found if pair.peer == peer]
        for hollow in (False, True):
            shown = [pair for pair in mine if (pair.limit is not None) is hollow]
            if not shown:
                continue
            plain = mark in "x|"
            axes.scatter(
                [pair.ratio.value for pair in shown],
                [row[pair.case] for pair in shown],
                marker=mark,
                s=34,
                linewidths=1.2,
                c=colour if plain or not hollow else "none",
                edgecolors=None if plain else colour,
                label=PEERS[peer].title + (" (limit)" if hollow else ""),
                zorder=3,
            )
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(list(row.values()), list(row))
    axes.set_xlabel("time, as a multiple of Haulage's: right of the line Haulage is faster")
    axes.grid(axis="x", which="both", color="#dddddd", linewidth=0.6)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, frameon=False)
    figure.savefig(path, bbox_inches="tight", metadata={"Software": None})
    plt.close(figure)
