"""The table of coverage in the report."""

from collections.abc import Iterable, Sequence

from haulage.checking.coverage import Coverage, FunctionCoverage
from haulage.checking.excerpts import shown
from haulage.compiler.checks.flow import Arc

TITLE = "coverage: the lines and branches that threads of kernels came to"

_HEAD = ("", "lines", "missing", "branches", "missing", "threads", "not executed")
# Columns of text, which are not aligned to the right.
_TEXT = (0, len(_HEAD) - 1)


def table(coverage: Coverage) -> list[str]:
    """Lines of text: the functions of each file, and their sums."""
    rows: list[tuple[str, ...]] = []
    for file, functions in coverage.files.items():
        rows += [(shown(file),), _HEAD, *map(_row, functions)]
    cells = [row for row in rows if len(row) > 1]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in rows:
        if len(row) == 1:
            lines += ["", row[0]]
            continue
        aligned = [
            cell.ljust(width) if number in _TEXT else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(["", *aligned]).rstrip())
    return lines


def summary(coverage: Coverage) -> str:
    """One line: how much of all functions was executed."""
    lines = [count for each in coverage for count in each.lines.values()]
    branches = [count for each in coverage for count in each.branches.values()]
    if not lines:
        return "no kernel of the program was there to be counted"
    files = len(coverage.files)
    return (
        f"{_part(lines)} lines and {_part(branches)} branches of {len(coverage)} "
        f"{'function' if len(coverage) == 1 else 'functions'} in {files} "
        f"{'file' if files == 1 else 'files'} executed"
    )


def _part(counts: Sequence[int]) -> str:
    done = sum(map(bool, counts))
    share = f" ({100 * done // len(counts)} %)" if counts else ""
    return f"{done:,} of {len(counts):,}{share}"


def _row(each: FunctionCoverage) -> tuple[str, ...]:
    lines, branches = each.lines, each.branches
    what = "kernel" if each.is_kernel else "function"
    return (
        f"{what} {each.name}",
        f"{len(lines):,}",
        f"{len(each.missing):,}",
        f"{len(branches):,}",
        f"{sum(not count for count in branches.values()):,}",
        f"{each.threads:,}",
        _not_executed(each),
    )


def _not_executed(each: FunctionCoverage) -> str:
    missing = ranges(each.missing, each.lines)
    missing += [f"{_way(arc)} never" for arc in each.partly]
    left_out = ranges(each.left_out, {*each.lines, *each.left_out})
    if left_out:
        missing.append(f"({', '.join(left_out)}: not for these types)")
    return ", ".join(missing)


def _way(arc: Arc) -> str:
    before, line = arc
    return f"{before}->{'exit' if line < 0 else line}"


def ranges(some: Iterable[int], every: Iterable[int]) -> list[str]:
    """Lines in words: those between which there are no others are a range, '12-14'."""
    wanted = set(some)
    found: list[list[int]] = []
    before = None
    for line in sorted(every):
        if line in wanted:
            if before in wanted:
                found[-1].append(line)
            else:
                found.append([line])
        before = line
    return [str(each[0]) if len(each) == 1 else f"{each[0]}-{each[-1]}" for each in found]
