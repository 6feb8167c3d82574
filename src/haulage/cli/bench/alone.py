"""Time the kernels of this process, without peers; one table or one JSON object."""

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import haulage.platforms  # noqa: F401  (it makes the devices known)
from haulage.cli import tables
from haulage.cli.bench import statistics
from haulage.cli.bench.problems import PROBLEMS, Problem
from haulage.cli.rounding import Agreement
from haulage.runtime.devices.registry import current_device, find, use


@dataclass(frozen=True)
class Timed:
    """Milliseconds of one problem, and how far its result is from NumPy's."""

    name: str
    title: str
    ms: float
    low: float
    high: float
    rounds: int
    agreement: Agreement
    gigabytes_per_second: float | None
    gigaflops: float | None

    @property
    def right(self) -> bool:
        """Whether the result is what NumPy gives."""
        return self.agreement.right

    def facts(self) -> dict[str, Any]:
        """Everything by name, for JSON."""
        facts = asdict(self)
        return facts | facts.pop("agreement") | {"right": self.right}


def run(names: Sequence[str], chosen: argparse.Namespace) -> int:
    """Time what is named and print it; returns 1 if a result is wrong. Raises DeviceNotFound."""
    device = current_device() if chosen.device is None else find(chosen.device, "--device")
    outcomes = []
    with use(device):
        heading = f"{device}, {device.name}; medians of {chosen.rounds} rounds"
        if sys.stderr.isatty():
            with Progress(console=Console(stderr=True), transient=True) as bar:
                task = bar.add_task("", total=len(names))
                for name in names:
                    bar.update(task, description=name)
                    outcomes.append(timed(PROBLEMS[name], chosen.rounds, chosen.small))
                    bar.advance(task)
        else:
            outcomes = [timed(PROBLEMS[name], chosen.rounds, chosen.small) for name in names]
    if chosen.json:
        shown = [outcome.facts() for outcome in outcomes]
        print(json.dumps({"device": str(device), "name": device.name, "timed": shown}, indent=1))
    else:
        lines = tables.plain([_HEADS, *map(_cells, outcomes)], _NUMBERS)
        # With a frame and room at each side of a cell. A narrower one would cut the numbers short.
        framed = max(map(len, lines)) + len(_HEADS) + 3
        if sys.stdout.isatty() and shutil.get_terminal_size().columns >= framed:
            _print_table(heading, outcomes)
        else:
            print("\n".join([heading, *lines]))
    return 0 if all(outcome.right for outcome in outcomes) else 1


def timed(problem: Problem, rounds: int, small: bool) -> Timed:
    """Work `problem` out on the device in force, in `rounds` turns, and check the result."""
    from haulage.cli.bench.kernels import setups

    size = problem.small if small else problem.size
    inputs = problem.inputs(size)
    run, result = setups()[problem.name](inputs)
    run()
    times = [statistics.turn(run) for _ in range(rounds)]
    agreement = problem.compare(result(), inputs, problem.expected(inputs))
    ms = statistics.median(times)
    return Timed(
        problem.name,
        problem.title,
        ms.value,
        ms.low,
        ms.high,
        rounds,
        agreement,
        problem.nbytes(size) / ms.value / 1e6 if problem.nbytes else None,
        problem.flops(size) / ms.value / 1e6 if problem.flops else None,
    )


_HEADS = ("name", "ms", "interval", "GB/s", "GFLOP/s", "result")
_NUMBERS = (1, 2, 3, 4)


def _cells(outcome: Timed) -> tuple[str, ...]:
    rate, work = outcome.gigabytes_per_second, outcome.gigaflops
    return (
        outcome.name,
        f"{outcome.ms:.4g}",
        f"{outcome.low:.4g} .. {outcome.high:.4g}",
        "" if rate is None else f"{rate:.1f}",
        "" if work is None else f"{work:.1f}",
        f"{'ok' if outcome.right else 'WRONG'}: {outcome.agreement}",
    )


def _print_table(heading: str, outcomes: Sequence[Timed]) -> None:
    table = Table(title=heading, title_justify="left")
    for i, head in enumerate(_HEADS):
        table.add_column(head, justify="right" if i in _NUMBERS else "left")
    for outcome in outcomes:
        table.add_row(*_cells(outcome), style=None if outcome.right else "red")
    Console().print(table)
