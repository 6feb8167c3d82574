"""The timeline picture: which copy and which kernel ran when, in which stream."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from haulage.cli.demo import steps
from haulage.cli.demo.pictures import FAINT, INK, PAPER
from haulage.cli.demo.steps import Operation

COLOURS = {
    steps.PHOTO_IN: "#2fb8ac",
    steps.MATRIX_IN: "#7fd6c2",
    steps.RESULTS_OUT: "#4f8fd9",
    steps.BLUR: "#f2a65a",
    steps.EDGES: "#e4576b",
    steps.HISTOGRAM: "#b38cf0",
    steps.PRODUCT: "#f4d35e",
}
_BAR = 0.8
_LABEL_SHARE = 0.0072  # of the axis, for each character that a bar has room for


def draw(operations: list[Operation], title: str, path: Path) -> None:
    """Write the picture (PNG) to `path`: one row for the copies and one for the kernels of each
    stream, time in ms to the right. Raises OSError."""
    lanes = sorted({o.lane for o in operations})
    rows = [(lane, copies) for lane in lanes for copies in (True, False)]
    begin = min(o.begin for o in operations)
    whole = max(max(o.end for o in operations) - begin, 1e-6)
    figure = Figure(figsize=(13.8, 1.9 + 0.62 * len(rows)), facecolor=PAPER, dpi=110)
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    edge = figure.get_figheight()
    figure.subplots_adjust(left=0.12, right=0.985, top=1 - 0.8 / edge, bottom=0.95 / edge)
    figure.text(0.012, 1 - 0.2 / edge, title, color=INK, size=15, weight="bold", va="top")

    for o in operations:
        row = rows.index((o.lane, o.step in steps.COPIES))
        _draw_operation(axes, o, row, begin, whole)
    for y in range(2, len(rows), 2):
        axes.axhline(y - 0.5, color="#2b3140", linewidth=1.2)
    axes.set_yticks(
        range(len(rows)), [f"stream {n + 1}  {'copies' if c else 'kernels'}" for n, c in rows]
    )
    axes.set_ylim(len(rows) - 0.45, -0.55)
    axes.set_xlim(-0.003 * whole, 1.003 * whole)
    axes.set_xlabel("milliseconds", color=FAINT, loc="right", size=10)
    axes.set_facecolor(PAPER)
    axes.grid(axis="x", color="#232833", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, length=0, labelsize=10.5)
    axes.tick_params(axis="x", colors=FAINT)
    for spine in axes.spines.values():
        spine.set_visible(False)
    figure.legend(
        handles=[Patch(color=COLOURS[s], label=s) for s in steps.STEPS],
        loc="lower left",
        bbox_to_anchor=(0.11, 0.0),
        ncols=len(steps.STEPS),
        frameon=False,
        labelcolor=INK,
        fontsize=10,
        handlelength=1.0,
        columnspacing=1.6,
    )
    figure.savefig(path, facecolor=PAPER)


def _draw_operation(axes: Axes, o: Operation, row: int, begin: float, whole: float) -> None:
    # An operation too short to see still gets a hair's breadth.
    width = max(o.end - o.begin, 0.0012 * whole)
    left = o.begin - begin
    axes.barh(row, width, _BAR, left=left, color=COLOURS[o.step], edgecolor=PAPER, linewidth=0.6)
    if width > _LABEL_SHARE * whole * len(o.step):
        axes.text(
            left + width / 2,
            row,
            o.step,
            color=PAPER,
            size=9,
            weight="bold",
            ha="center",
            va="center",
        )
