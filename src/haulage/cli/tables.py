"""Tables as plain lines, for output that goes into a pipe or a file."""

from collections.abc import Collection, Sequence


def plain(lines: Sequence[Sequence[str]], numbers: Collection[int]) -> list[str]:
    """Lines of cells as text with aligned columns, those at `numbers` to the right."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return [
        "  ".join(
            cell.rjust(w) if i in numbers else cell.ljust(w)
            for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
