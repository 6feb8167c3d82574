"""Writes the files at the end of the program, and says where they are."""

import os
import sys
from collections.abc import Callable
from typing import IO

from haulage.runtime.process.observing import COMPILE, DOWNLOAD, GRAPH, KERNEL, UPLOAD
from haulage.tracing import chrome
from haulage.tracing.page import page
from haulage.tracing.recorder import Recorder
from haulage.tracing.result import Result, made_of
from haulage.tracing.settings import Settings
from haulage.tracing.words import duration, size, throughput

# What the summary adds up, and what it calls that.
_TOLD = {
    UPLOAD: "uploads",
    DOWNLOAD: "downloads",
    KERNEL: "kernels",
    GRAPH: "graphs",
    COMPILE: "compilations",
}


def write(recorder: Recorder, settings: Settings) -> None:
    """Write what the settings ask for, and a summary to standard error."""
    name, program = settings.output, settings.program
    if not settings.is_program:
        name, program = f"{name}-{os.getpid()}", " ".join(sys.argv)
    result = made_of(recorder, program)
    said = [f"haulage: trace of {result.program}", *summary(result)]
    if settings.html:
        said.append(_write(f"{name}.html", lambda file: file.write(page(result))))
    if settings.json:
        path, hint = f"{name}.json", " (ui.perfetto.dev)"
        said.append(_write(path, lambda file: chrome.write(result, file), hint))
    if sys.stderr is not None and not sys.stderr.closed:
        print("\n  ".join(said), file=sys.stderr, flush=True)


def summary(result: Result) -> list[str]:
    """What a person wants to know first, in a few lines."""
    lines = [f"{note}" for note in result.notes]
    for held in result.memory:
        place = result.places[held.holders[0][0]] if held.holders else None
        most = f"; most of it by {place.line} in {place.function}" if place is not None else ""
        lines.append(
            f"{held.device} {held.kind} memory: peak {size(held.peak)} at "
            f"{duration(held.peak_at)}, {size(held.left)} in use at the end{most}"
        )
    for kind, name in _TOLD.items():
        of_kind = [each for each in result.totals if each.kind == kind]
        if of_kind:
            nbytes, busy = sum(e.nbytes for e in of_kind), sum(e.busy for e in of_kind)
            moved = f", {size(nbytes)}, {throughput(nbytes, busy)}" if nbytes else ""
            lines.append(f"{name}: {sum(e.count for e in of_kind)}, {duration(busy)}{moved}")
    if result.repeats:
        first = result.places[result.repeats[0].place]
        lines.append(
            f"{sum(e.count for e in result.repeats)} transfers repeated unchanged data: "
            f"{size(sum(e.nbytes for e in result.repeats))}, most of it at {first.line}"
        )
    if not (result.memory or result.lanes):
        lines.append("the program did nothing with a device")
    return lines


def _write(path: str, write_to: Callable[[IO[str]], object], hint: str = "") -> str:
    # Whoever looks at the path sees a whole file, this one or an older one.
    unfinished = f"{path}.{os.getpid()}.unfinished"
    try:
        with open(unfinished, "w", encoding="utf-8", newline="\n") as file:
            write_to(file)
        os.replace(unfinished, path)
    except OSError as error:
        return f"{path} could not be written: {error}"
    return f"{path}{hint}"
