"""The picture of fragmentation: what is reserved while the traces are replayed."""

from pathlib import Path

from benchmarks.memory import fragmentation, traces

# Name, label, colour and dashes: distinct without colour as well.
_SHOWN = (
    ("haulage", "Haulage", "#d55e00", "-"),
    ("growing", "one growing range", "#e69f00", "-."),
    ("pytorch", "2/20 MiB segments", "#009e73", "--"),
    ("cupy", "segments as requested", "#0072b2", ":"),
    ("powers", "powers of two", "#cc79a7", (0, (1, 4))),
    ("eighths", "8 classes per doubling", "#000000", (0, (6, 3))),
)


def draw(path: Path) -> None:
    """Write a PNG: a panel for each trace, GiB over operations; live memory is the filled area."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    gib = 2**30
    figure, panels = plt.subplots(1, len(traces.NAMES), figsize=(11, 3.6), dpi=110)
    for panel, trace in zip(panels, traces.NAMES, strict=True):
        operations = traces.read(trace)
        live = [nbytes / gib for nbytes in fragmentation.live(operations)]
        panel.fill_between(range(len(live)), live, color="#dddddd", label="live")
        for name, label, colour, dashes in _SHOWN:
            held = fragmentation.reserved(operations, fragmentation.ALL[name][1]())
            panel.plot(
                [nbytes / gib for nbytes in held],
                color=colour,
                linestyle=dashes,
                linewidth=2 if name == "haulage" else 1.2,
                label=label,
            )
        panel.set_ylim(0, 14)
        panel.set_title(trace.replace("-", " "), fontsize=10)
        panel.set_xlabel("operations")
        panel.set_ylabel("GiB reserved")
        panel.grid(axis="y", color="#eeeeee", linewidth=0.6)
    panels[-1].legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, frameon=False)
    figure.savefig(path, bbox_inches="tight", metadata={"Software": None})
    plt.close(figure)
