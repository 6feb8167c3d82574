"""Writes the two loops in which a piece is run whose threads a condition sends two ways."""

from collections.abc import Callable

from haulage.compiler.simt.bounds import BoundsWriter, Ranges
from haulage.compiler.simt.guards import Guard
from haulage.compiler.simt.loop_nest import LoopNest


def parted(
    number: int,
    parting: Guard,
    writer: BoundsWriter,
    everyone: Ranges,
    sizes: tuple[int, int, int],
    axes: tuple[str, ...],
    run: Callable[[LoopNest, bool], list[str]],
) -> tuple[list[str], str]:
    """(lines that run piece `number` for those of `everyone` that pass `parting`, then for the
    others; the label that they end in).

    `run` writes the piece in a nest of loops, whose threads pass or not.
    """
    some = writer.ranges((parting,), everyone, sizes)
    others = writer.others(parting, some, everyone)
    lines: list[str] = []
    ways = (("some", some, "others", True), ("others", others, "all", False))
    for way, ranges, following, passing in ways:
        anybody = writer.not_empty(ranges, everyone)
        nest = LoopNest(f"{number}.{way}", f"{way}.{number}", sizes, axes, ranges, False)
        lines += [
            f"  br i1 {anybody}, label %{way}.{number}, label %{following}.next.{number}",
            f"{way}.{number}:",
            *run(nest, passing),
            f"  br label %{following}.next.{number}",
            f"{following}.next.{number}:",
        ]
    return [*writer.lines, *lines], f"all.next.{number}"
