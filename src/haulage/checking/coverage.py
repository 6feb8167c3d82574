"""Which lines and branches the threads of kernels came to, and how often."""

import gc
import io
import linecache
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from types import CodeType
from typing import Any

from haulage.checking.excerpts import Sources
from haulage.checking.places import from_root
from haulage.compiler.checks.counters import COUNTERS, is_counted
from haulage.compiler.checks.flow import Arc, flow_of


@dataclass(frozen=True)
class FunctionCoverage:
    """What threads did in a kernel, or in a function that kernels call.

    Lines are those that statements begin in. An arc (a, b) is that a thread did line b after line
    a; (-L, a) that it began in line a, and (a, -L) that it ended there, where L is `line`.

    Attributes:
        file, name: where it is written, and its qualified name.
        line: the one that it begins in, with its decorators.
        is_kernel: whether it is a kernel.
        arcs: how often threads went each way from line to line that there is.
        compiled: those that are in some code: the types of all signatures may rule out others.
            Empty if it was never compiled.
    """

    file: str
    name: str
    line: int
    is_kernel: bool
    arcs: Mapping[Arc, int]
    compiled: frozenset[Arc]

    @property
    def threads(self) -> int:
        """How many threads, or calls, began it."""
        return sum(count for (before, _), count in self.arcs.items() if before == -self.line)

    @property
    def lines(self) -> dict[int, int]:
        """How often threads came to each line that is in some code, or to all if none is."""
        found: dict[int, int] = {}
        for (before, line), count in sorted(self.arcs.items(), key=lambda each: each[0][1]):
            if line > 0 and before != line and self._is_there((before, line)):
                found[line] = found.get(line, 0) + count
        return found

    @property
    def missing(self) -> list[int]:
        """The lines that no thread came to."""
        return [line for line, count in self.lines.items() if not count]

    @property
    def left_out(self) -> list[int]:
        """The lines that are in no code: the types that it was compiled for rule them out."""
        return sorted({line for _, line in self.arcs if line > 0} - self.lines.keys())

    @property
    def branches(self) -> dict[Arc, int]:
        """The arcs from lines with several of them that are in some code."""
        after: dict[int, list[Arc]] = {}
        for arc in sorted(self.arcs):
            if arc[0] != arc[1] and arc[0] > 0 and self._is_there(arc):
                after.setdefault(arc[0], []).append(arc)
        several = [arc for arcs in after.values() if len(arcs) > 1 for arc in arcs]
        return {arc: self.arcs[arc] for arc in several}

    @property
    def partly(self) -> list[Arc]:
        """The branches that no thread took, of lines that threads came to."""
        lines = self.lines
        return [arc for arc, count in self.branches.items() if not count and lines.get(arc[0])]

    def _is_there(self, arc: Arc) -> bool:
        return not self.compiled or arc in self.compiled

    def __add__(self, other: "FunctionCoverage") -> "FunctionCoverage":
        arcs = dict(self.arcs)
        for arc, count in other.arcs.items():
            arcs[arc] = arcs.get(arc, 0) + count
        is_kernel = self.is_kernel or other.is_kernel
        return replace(
            self, arcs=arcs, compiled=self.compiled | other.compiled, is_kernel=is_kernel
        )


class Coverage:
    """What threads did in each function, sorted by file and line."""

    def __init__(self, functions: Iterable[FunctionCoverage] = ()) -> None:
        found: dict[tuple[str, int, str], FunctionCoverage] = {}
        for each in functions:
            key = each.file, each.line, each.name
            found[key] = found[key] + each if key in found else each
        self.functions = tuple(found[key] for key in sorted(found))

    def __iter__(self) -> Iterator[FunctionCoverage]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def __add__(self, other: "Coverage") -> "Coverage":
        return Coverage((*self, *other))

    @property
    def files(self) -> dict[str, list[FunctionCoverage]]:
        """The functions of each file."""
        return {file: list(group) for file, group in groupby(self, key=lambda each: each.file)}

    def from_folder(self, folder: str) -> "Coverage":
        """The same with the names of files, which are from a folder on, from the root on."""
        return Coverage(replace(each, file=from_root(each.file, folder)) for each in self)

    def by_statements(self, sources: Sources) -> "Coverage":
        """The same with each line for the first one of its statement."""
        made = []
        for file, functions in self.files.items():
            starts = statement_starts(_text(file, sources))
            made += [_by_statements(each, starts) for each in functions]
        return Coverage(made)


def coverage_since(before: list[int], now: list[int], *, alive: bool = True) -> Coverage:
    """What was counted between two of `COUNTERS.counts()`. With `alive`, kernels and functions that
    were never compiled are there, too, if the program has them."""
    found = []
    for code, is_kernel, flow, start in COUNTERS:
        numbers = range(start, start + len(flow.counted))
        counts = [_at(now, number) - _at(before, number) for number in numbers]
        compiled = [int(COUNTERS.is_compiled(number)) for number in numbers]
        arcs = flow.arcs_of(counts)
        there = frozenset(arc for arc, count in flow.arcs_of(compiled).items() if count)
        found.append(_of(code, is_kernel, arcs, there))
    return Coverage([*found, *(_unused() if alive else ())])


def _of(
    code: CodeType, is_kernel: bool, arcs: Mapping[Arc, int], compiled: frozenset[Arc]
) -> FunctionCoverage:
    name, first = code.co_qualname, code.co_firstlineno
    return FunctionCoverage(code.co_filename, name, first, is_kernel, arcs, compiled)


def _at(counts: list[int], number: int) -> int:
    return counts[number] if number < len(counts) else 0


def _unused() -> Iterator[FunctionCoverage]:
    """All kernels and functions that the program has made and not let go, without any counts."""
    # They import all that launches kernels.
    from haulage.kernel.as_function import AsFunction
    from haulage.kernel.kernel import Kernel

    for each in gc.get_objects():
        if not isinstance(each, AsFunction):
            continue
        code = getattr(each.py_func, "__code__", None)
        if isinstance(code, CodeType) and is_counted(code):
            yield from _nothing_in(code, isinstance(each, Kernel))


def _nothing_in(code: CodeType, is_kernel: bool) -> Iterator[FunctionCoverage]:
    yield _of(code, is_kernel, dict.fromkeys(flow_of(code).arcs, 0), frozenset())
    for inner in code.co_consts:
        # Lambdas and comprehensions are parts of a line.
        if isinstance(inner, CodeType) and not inner.co_name.startswith("<"):
            yield from _nothing_in(inner, False)


# ---- statements -------------------------------------------------------------------------------


def _text(file: str, sources: Sources) -> str:
    told = sources.get(file)
    if told is None:
        return "".join(linecache.getlines(file))
    return "".join(f"{told.get(number, '')}\n" for number in range(1, max(told, default=0) + 1))


def statement_starts(text: str) -> dict[int, int]:
    """For the lines of statements of several lines, the first ones; nothing of what is not
    Python."""
    found: dict[int, int] = {}
    first = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in _NO_STATEMENT:
                continue
            first = first or token.start[0]
            if token.type == tokenize.NEWLINE:
                found |= dict.fromkeys(range(first + 1, token.end[0] + 1), first)
                first = 0
    except (tokenize.TokenError, SyntaxError):
        return {}
    return found


_NO_STATEMENT = (
    tokenize.NL,
    tokenize.COMMENT,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
)


def _by_statements(each: FunctionCoverage, starts: Mapping[int, int]) -> FunctionCoverage:
    def moved(arc: Arc) -> Arc:
        before, line = (place if place < 0 else starts.get(place, place) for place in arc)
        return before, line

    arcs: dict[Arc, int] = {}
    for arc, count in each.arcs.items():
        arcs[moved(arc)] = arcs.get(moved(arc), 0) + count
    return replace(each, arcs=arcs, compiled=frozenset(map(moved, each.compiled)))


# ---- as plain data ----------------------------------------------------------------------------


def as_data(coverage: Coverage) -> list[dict[str, Any]]:
    """As each process writes it: arcs with their counts, and whether they are in some code."""
    return [
        {
            "file": each.file,
            "name": each.name,
            "line": each.line,
            "kernel": each.is_kernel,
            "arcs": [[*arc, count, arc in each.compiled] for arc, count in each.arcs.items()],
        }
        for each in coverage
    ]


def of_data(data: list[dict[str, Any]]) -> Coverage:
    """The coverage that `as_data` gave this for."""
    return Coverage(
        FunctionCoverage(
            each["file"],
            each["name"],
            each["line"],
            each["kernel"],
            {(before, line): count for before, line, count, _ in each["arcs"]},
            frozenset((before, line) for before, line, _, there in each["arcs"] if there),
        )
        for each in data
    )


def report_data(coverage: Coverage) -> dict[str, Any]:
    """What `--json` writes of it; `schema.json` says what it is."""
    return {
        "files": [
            {
                "file": file,
                "functions": [
                    {
                        "name": each.name,
                        "line": each.line,
                        "kernel": each.is_kernel,
                        "threads": each.threads,
                        "lines": [[line, count] for line, count in each.lines.items()],
                        "missing": each.missing,
                        "left_out": each.left_out,
                        "branches": [[*arc, count] for arc, count in each.branches.items()],
                        "arcs": [[*arc, count] for arc, count in sorted(each.arcs.items())],
                    }
                    for each in functions
                ],
            }
            for file, functions in coverage.files.items()
        ]
    }
