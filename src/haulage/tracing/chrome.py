"""A trace in the trace-event format: for ui.perfetto.dev and chrome://tracing.

The format is that of "Trace Event Format" (Google, 2016): complete events ("X"), counters ("C")
and metadata ("M"), times in microseconds.
"""

import json
from collections.abc import Iterator
from typing import IO, Any

from haulage.tracing.result import Drawn, Result
from haulage.tracing.words import label, rate, size

# Processes of the trace that are devices: above all numbers that real processes have.
_FIRST_DEVICE = 10_000_000
# Owners that get a counter of their own: those who held most at the peak.
_OWNERS = 8


def write(result: Result, file: IO[str]) -> None:
    """Write the trace as one JSON object."""
    file.write('{"traceEvents": [\n')
    for number, event in enumerate(_events(result)):
        file.write((",\n" if number else "") + json.dumps(event))
    about = {"program": result.program, "began": result.began, "notes": result.notes}
    file.write(f'\n],\n"displayTimeUnit": "ms",\n"otherData": {json.dumps(about)}}}\n')


def _events(result: Result) -> Iterator[dict[str, Any]]:
    host = result.process
    devices = list(
        dict.fromkeys(
            [lane.device for lane in result.lanes if lane.device]
            + [each.device for each in result.memory]
        )
    )
    numbers = {device: _FIRST_DEVICE + n for n, device in enumerate(devices)}
    numbers[""] = host
    yield _named("process_name", host, 0, name=f"host: {result.program}")
    for order, device in enumerate(devices):
        yield _named("process_name", numbers[device], 0, name=f"device {device}")
        yield _named("process_sort_index", numbers[device], 0, sort_index=order - len(devices))
    for number, lane in enumerate(result.lanes):
        yield _named("thread_name", numbers[lane.device], number + 1, name=lane.name)
        yield _named("thread_sort_index", numbers[lane.device], number + 1, sort_index=number)
    ends: dict[int, int] = {}
    for each in result.drawn:
        # Work of a stream does not overlap; clocks of devices may say so by some nanoseconds.
        begin = max(each.begin, ends.get(each.lane, each.begin))
        end = max(each.end, begin)
        ends[each.lane] = end
        yield {
            "ph": "X",
            "name": label(each),
            "cat": each.kind,
            "pid": numbers[result.lanes[each.lane].device],
            "tid": each.lane + 1,
            "ts": begin / 1e3,
            "dur": (end - begin) / 1e3,
            "args": _arguments(result, each),
        }
    yield from _counters(result, numbers)


def _named(what: str, process: int, thread: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": args}


def _arguments(result: Result, each: Drawn) -> dict[str, Any]:
    place = result.places[each.place]
    args: dict[str, Any] = {"line": place.line, "function": place.function}
    if len(place.lines) > 1:
        args["called from"] = [f"{line} in {function}" for line, function in place.lines[1:]]
    if each.nbytes:
        args |= {"bytes": each.nbytes, "size": size(each.nbytes), "rate": rate(each)}
    if each.count > 1:
        args |= {"operations": each.count, "busy": f"{each.busy / 1e3:.3f} us"}
    return args


def _counters(result: Result, numbers: dict[str, int]) -> Iterator[dict[str, Any]]:
    for held in result.memory:
        owners = {place: result.places[place].line for place, _, _ in held.holders[:_OWNERS]}
        now = dict.fromkeys([*owners.values(), "others"], 0)
        total = 0
        common = {"ph": "C", "pid": numbers[held.device], "tid": 0}
        for at, place, nbytes in held.changes:
            total += nbytes
            owner = owners.get(place, "others")
            now[owner] += nbytes
            times = {**common, "ts": at / 1e3}
            yield {**times, "name": f"{held.kind} memory", "args": {"bytes": total}}
            yield {
                **times,
                "name": f"{held.kind} memory of {owner}",
                "args": {"bytes": now[owner]},
            }
