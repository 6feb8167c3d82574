"""The before/after picture: the photo, what the kernels made of it, and what they counted."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from haulage.cli.demo.steps import Results

PAPER, INK, FAINT = "#0f1218", "#e8eaf0", "#8b93a5"
ACCENT = "#f2a65a"

_MOST_SHOWN = 1400  # pixels a side that a panel of the figure can show
_EDGE_COLOURS = LinearSegmentedColormap.from_list(
    "edges", [PAPER, "#3b2a52", "#b5476a", "#f2a65a", "#fff3d6"]
)
_ALIKE_COLOURS = LinearSegmentedColormap.from_list(
    "alike", ["#4cc3d9", "#1d4e63", PAPER, "#8a4b3a", "#f2a65a"]
)


def draw(results: Results, title: str, subtitle: str, path: Path) -> None:
    """Write the picture (PNG) to `path`, under a title and a smaller line. Raises OSError."""
    height, width = results.photo.shape[:2]
    # Panels have the photo's shape, within bounds that leave a figure even for 1 x 9000 pixels.
    panel_width = 4.5
    panel_height = panel_width * min(2.2, max(0.45, height / width))
    head, middle, lower, foot = 1.35, 0.75, 3.1, 0.45
    full_width = 3 * panel_width + 0.9
    full_height = head + panel_height + middle + lower + foot
    figure = Figure(figsize=(full_width, full_height), facecolor=PAPER, dpi=110)
    FigureCanvasAgg(figure)
    left, right = 0.45 / full_width, 1 - 0.3 / full_width
    figure.text(left, 1 - 0.28 / full_height, title, color=INK, size=18, weight="bold", va="top")
    figure.text(left, 1 - 0.66 / full_height, subtitle, color=FAINT, size=11.5, va="top")

    top = 1 - head / full_height
    photos = figure.add_gridspec(
        1, 3, left=left, right=right, top=top, bottom=top - panel_height / full_height, wspace=0.04
    )
    _panel(figure.add_subplot(photos[0]), results.photo, "the photo")
    blurred = np.clip(_shown(results.blurred) / 255, 0, 1)
    _panel(figure.add_subplot(photos[1]), blurred, "Gaussian blur: tiles in shared memory")
    # Edges are few: the root brings out the faint ones, and one bright pixel must not dim all.
    steep = np.sqrt(_shown(results.edges))
    bright = max(float(np.percentile(steep, 99.7)), 1e-6)
    edges = _EDGE_COLOURS(np.clip(steep / bright, 0, 1))[..., :3]
    _panel(figure.add_subplot(photos[2]), edges, "Sobel edges of the blurred photo")

    bottom = foot / full_height
    counts = figure.add_gridspec(
        1,
        2,
        left=left,
        right=right,
        top=bottom + lower / full_height,
        bottom=bottom,
        wspace=0.04,
        width_ratios=((right - left) * full_width - lower - 0.5, lower),
    )
    _histogram(figure.add_subplot(counts[0]), results.bins)
    alike = figure.add_subplot(counts[1])
    _title(alike, "matrix product: row against row")
    alike.imshow(results.product, cmap=_ALIKE_COLOURS, vmin=-1, vmax=1)
    alike.set_anchor("E")
    _bare(alike)
    figure.savefig(path, facecolor=PAPER)


def _panel(axes: Axes, picture: np.ndarray, title: str) -> None:
    small = max(picture.shape[:2]) < 200
    axes.imshow(_shown(picture), interpolation="nearest" if small else "antialiased")
    axes.set_anchor("NW")
    _title(axes, title)
    _bare(axes)


def _title(axes: Axes, title: str) -> None:
    axes.set_title(title, color=INK, size=11.5, loc="left", pad=7)


def _bare(axes: Axes) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_facecolor(PAPER)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _shown(picture: np.ndarray) -> np.ndarray:
    """Every n-th pixel, so that a large photo is drawn as fast as a small one."""
    step = max(1, max(picture.shape[:2]) // _MOST_SHOWN)
    return picture[::step, ::step]


def _histogram(axes: Axes, bins: np.ndarray) -> None:
    """Bars in the grey that they count."""
    greys = np.linspace(0.18, 1.0, len(bins))
    axes.bar(
        np.arange(len(bins)),
        bins / max(1, bins.sum()) * 100,
        width=1.0,
        color=[(g, g, g * 0.97) for g in greys],
        linewidth=0,
    )
    _title(axes, "histogram of brightness: shared and global atomics, in % of pixels")
    axes.set_facecolor(PAPER)
    axes.set_xlim(-1, len(bins))
    axes.set_xticks([0, 64, 128, 192, 255])
    axes.tick_params(colors=FAINT, length=0, labelsize=10)
    axes.grid(axis="y", color="#232833", linewidth=0.8)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)
