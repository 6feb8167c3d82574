"""Which tests a run takes: `pytest --share quick`, `rest` or `all`.

The quick share has something of every test function: all cases of those that are done within
`SECONDS`, of longer ones as many cases as fit, spread over them. A function of which one case
takes longer than `LONGEST` is in the rest. How long functions take was measured, with
`pytest --measure tests/times.json`; those that the file does not name are short.
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

TIMES = Path(__file__).with_name("times.json")
SECONDS = 0.5
LONGEST = 1.5
# The file names no function that takes less, all cases together: most do.
NOTED = 0.5


def pytest_addoption(parser: Any) -> None:
    parser.addoption(
        "--share",
        choices=("quick", "rest", "all"),
        default="all",
        help="run the quick share of the tests, which has something of each function, or the rest",
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
    if share == "all":
        return
    quick = chosen([item.nodeid for item in items], json.loads(TIMES.read_text()))
    kept = [item for item in items if (item.nodeid in quick) == (share == "quick")]
    left_out = [item for item in items if (item.nodeid in quick) != (share == "quick")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def chosen(tests: Iterable[str], times: dict[str, float]) -> set[str]:
    """The quick ones of `tests`, which are names as pytest prints them.

    Args:
        times: seconds for one case of each test function that takes long.
    """
    functions: dict[str, list[str]] = {}
    for test in tests:
        functions.setdefault(_function(test), []).append(test)
    quick: set[str] = set()
    for function, cases in functions.items():
        seconds = times.get(function, 0)
        if seconds > LONGEST:
            continue
        number = min(len(cases), max(1, int(SECONDS / seconds))) if seconds else len(cases)
        quick.update(cases[len(cases) * n // number] for n in range(number))
    return quick


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
