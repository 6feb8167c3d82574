"""What the demo says: progress and a coloured table on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from haulage.cli import tables
from haulage.cli.demo.checks import Check
from haulage.cli.demo.steps import STEPS, Operation

HEADER = ("step", "bytes", "busy ms", "GB/s", "device", "checked")
_NUMBERS = (1, 2, 3)


@dataclass(frozen=True)
class Row:
    """One step over all its operations: bytes read and written, and ms that streams were busy with
    it, which is more than elapsed where two of them were at once."""

    step: str
    nbytes: int
    milliseconds: float
    device: str
    check: Check

    def cells(self) -> tuple[str, ...]:
        """The row as text, in the order of `HEADER`."""
        rate = self.nbytes / self.milliseconds / 1e6 if self.milliseconds > 0 else float("nan")
        return (
            self.step,
            f"{self.nbytes:,}",
            f"{self.milliseconds:.2f}",
            f"{rate:.2f}",
            self.device,
            str(self.check),
        )


def rows(operations: Sequence[Operation], checks: Sequence[Check], device: str) -> list[Row]:
    """The rows of the table, in the order of `STEPS`; busy times of several streams add up."""
    by_step = {check.step: check for check in checks}
    found = []
    for step in STEPS:
        own = [o for o in operations if o.step == step]
        busy = sum(o.end - o.begin for o in own)
        found.append(Row(step, sum(o.nbytes for o in own), busy, device, by_step[step]))
    return found


def elapsed_and_busy(operations: Sequence[Operation], elapsed: float) -> str:
    """What passed by the clock (ms), and what the streams were busy together."""
    busy = sum(o.end - o.begin for o in operations)
    streams = len({o.lane for o in operations})
    return (
        f"{elapsed:.1f} ms elapsed; {busy:.1f} ms busy: those of {streams} streams, which work at "
        "the same time, added up"
    )


class Report:
    """A context manager; inside of it `phase` may be called once for each of `phases`."""

    def __init__(self, phases: int) -> None:
        self._terminal = sys.stdout.isatty()
        self._console = Console()
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._terminal,
        )
        self._task = self._progress.add_task("", total=phases)

    def __enter__(self) -> "Report":
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def phase(self, name: str) -> None:
        """What is being done now; shown on a terminal only."""
        begun = self._progress.tasks[0].description != ""
        self._progress.update(self._task, description=name, advance=1 if begun else 0)

    def line(self, name: str, text: str) -> None:
        """One fact: its name, and what it is."""
        if self._terminal:
            told = Text.assemble((f"{name:<10} ", "cyan"), text)
            self._progress.console.print(told, soft_wrap=True)
        else:
            print(f"{name:<10} {text}", flush=True)

    def table(self, found: Sequence[Row]) -> None:
        """The table of the steps."""
        if self._terminal:
            self._console.print(_rich_table(found))
        else:
            print("\n".join(tables.plain([HEADER, *(row.cells() for row in found)], _NUMBERS)))


def _rich_table(found: Sequence[Row]) -> Table:
    # Narrow enough for 80 columns.
    table = Table(header_style="bold", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for i, name in enumerate(HEADER):
        table.add_column(name, justify="right" if i in _NUMBERS else "left")
    for row in found:
        *cells, checked = row.cells()
        colour = "green" if row.check.passed else "bold red"
        table.add_row(*cells, f"[{colour}]{checked}[/]")
    return table
