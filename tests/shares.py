"""Which tests a run takes: `pytest --share quick`, `more`, `rest` or `all`.

The quick share has something of every test function: all cases of those that are done within
`SECONDS`, of longer ones as many cases as fit, spread over them. A function of which one case
takes longer than `LONGEST` is in the rest, which is all that the quick share leaves out. Of the
rest, the share `more` has at least one case of each function, and as many as are done within
`MORE_SECONDS`. How long functions take was measured, with
`pytest --measure tests/times.json`; those that the file does not name are short.

Where files are handed to several processes, the longest are first: no process then is left with a
long one when the others are done.
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

TIMES = Path(__file__).with_name("times.json")
SECONDS = 0.25
LONGEST = 1.0
MORE_SECONDS = 2.0
# The file names no function that takes less, all cases together: most do.
NOTED = 0.5
# What a case of the others takes, about.
SHORT = 0.02


def pytest_addoption(parser: Any) -> None:
    parser.addoption(
        "--share",
        choices=("quick", "more", "rest", "all"),
        default="all",
        help="run the quick share of the tests, which has something of most functions, or "
        "the rest; more is a part of the rest with something of each function",
    )
    parser.addoption(
        "--measure",
        type=Path,
        metavar="FILE",
        help="write how long the functions take, by which the shares are made: on an idle machine",
    )


def pytest_configure(config: Any) -> None:
    # Reports of the tests that workers of pytest-xdist run come to the process that started them.
    path = config.getoption("--measure")
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Measured(path))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    share = config.getoption("--share")
    times = json.loads(TIMES.read_text())
    if share != "all":
        wanted = of_share(share, [item.nodeid for item in items], times)
        kept = [item for item in items if item.nodeid in wanted]
        left_out = [item for item in items if item.nodeid not in wanted]
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept
    # In a process of pytest-xdist, which hands files over in this order.
    if hasattr(config, "workerinput"):
        items[:] = longest_files_first(items, times)


def of_share(share: str, tests: list[str], times: dict[str, float]) -> set[str]:
    """Those of `tests`, which are names as pytest prints them, that a share has.

    Args:
        times: seconds for one case of each test function that takes long.
    """
    quick = chosen(tests, times)
    if share == "quick":
        return quick
    rest = [test for test in tests if test not in quick]
    return chosen(rest, times, MORE_SECONDS, float("inf")) if share == "more" else set(rest)


def chosen(
    tests: Iterable[str],
    times: dict[str, float],
    seconds_of_each: float = SECONDS,
    longest: float = LONGEST,
) -> set[str]:
    """As many cases of each function as are done within `seconds_of_each`, at least one; none of
    functions of which one case takes longer than `longest`."""
    functions: dict[str, list[str]] = {}
    for test in tests:
        functions.setdefault(_function(test), []).append(test)
    quick: set[str] = set()
    for function, cases in functions.items():
        seconds = times.get(function, 0)
        if seconds > longest:
            continue
        fitting = int(seconds_of_each / seconds) if seconds else len(cases)
        number = min(len(cases), max(1, fitting))
        quick.update(cases[len(cases) * n // number] for n in range(number))
    return quick


def longest_files_first(items: list[Any], times: dict[str, float]) -> list[Any]:
    """`items` file by file, those files first that take longest by `times` (see `chosen`)."""
    files: Counter[str] = Counter()
    for item in items:
        files[_file(item)] += times.get(_function(item.nodeid), SHORT)
    return sorted(items, key=lambda item: (-files[_file(item)], _file(item)))


def _file(item: Any) -> str:
    return str(item.nodeid.partition("::")[0])


def _function(test: str) -> str:
    return test.partition("[")[0]


class _Measured:
    """Adds up how long the cases of each function take, their fixtures included."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seconds: Counter[str] = Counter()
        self.cases: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: Any) -> None:
        function = _function(report.nodeid)
        self.seconds[function] += report.duration
        self.cases[function] += report.when == "call"

    def pytest_sessionfinish(self) -> None:
        long = {
            function: round(seconds / (self.cases[function] or 1), 3)
            for function, seconds in sorted(self.seconds.items())
            if seconds >= NOTED
        }
        self.path.write_text(json.dumps(long, indent=0) + "\n")
