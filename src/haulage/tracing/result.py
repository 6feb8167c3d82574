"""What was recorded, as plain data: lines by their names, times from the begin of the program."""

import os
import sys
import time
from dataclasses import dataclass, field

from haulage.runtime.process import call_sites
from haulage.tracing.recorder import WAIT, Recorder


def shown(text: object) -> str:
    """Text of the program as it can be shown anywhere: what does not print is escaped."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in str(text)
    )


@dataclass(frozen=True)
class Place:
    """A line of the program, and those that called it: 'file:line' and the function of each."""

    lines: tuple[tuple[str, str], ...]

    @property
    def line(self) -> str:
        """'file:line' of the innermost one."""
        return self.lines[0][0] if self.lines else "(no line known)"

    @property
    def function(self) -> str:
        """The function that it is in."""
        return self.lines[0][1] if self.lines else ""


@dataclass(frozen=True)
class Lane:
    """A stream, or a thread of the host (then `device` is empty)."""

    device: str
    name: str


@dataclass(frozen=True)
class Drawn:
    """An operation; times in nanoseconds from the begin of the recording."""

    kind: str
    name: str
    lane: int
    place: int
    begin: int
    end: int
    nbytes: int
    count: int
    busy: int


@dataclass
class Holdings:
    """Memory of one device and kind, in bytes."""

    device: str
    kind: str
    peak: int
    peak_at: int
    left: int
    allocations: int
    # (place, bytes, blocks) of who held it at the peak, the largest first.
    holders: list[tuple[int, int, int]]
    # (time, place, bytes more)
    changes: list[tuple[int, int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Total:
    """All operations of one kind, name and place, drawn or not."""

    kind: str
    name: str
    place: int
    count: int
    nbytes: int
    busy: int


@dataclass(frozen=True)
class Repeat:
    """Copies from one line that repeated what was copied before, at `first` the first time."""

    kind: str
    device: str
    first: int
    place: int
    count: int
    nbytes: int


@dataclass
class Result:
    """All that the files are made of."""

    program: str
    process: int
    began: str
    length: int
    ended: str
    places: list[Place]
    lanes: list[Lane]
    drawn: list[Drawn]
    memory: list[Holdings]
    totals: list[Total]
    repeats: list[Repeat]
    waits: tuple[int, int]
    notes: list[str]


def made_of(recorder: Recorder, program: str) -> Result:
    """Look up the names of all that was recorded of `program`."""
    began = recorder.began
    names = _Places(recorder)
    lanes, rank = _lanes(recorder)
    operations = sorted(recorder.operations.kept, key=lambda each: (each.begin, each.end))
    drawn = [
        Drawn(
            *(each.kind, shown(each.name), rank[each.lane], names.number(each.place)),
            *(each.begin - began, each.end - began, each.nbytes, each.count, each.busy),
        )
        for each in operations
    ]
    merged: dict[tuple[str, str, int], list[int]] = {}
    for (kind, name, place), (count, nbytes, busy) in recorder.operations.totals.items():
        into = merged.setdefault((kind, shown(name), names.number(place)), [0, 0, 0])
        into[0] += count
        into[1] += nbytes
        into[2] += busy
    totals = [Total(*key, *figures) for key, figures in merged.items()]
    again: dict[tuple[str, str, int, int], list[int]] = {}
    compared = {} if recorder.comparing is None else recorder.comparing.found
    for (kind, device, first, place), (count, nbytes) in compared.items():
        into = again.setdefault((kind, device, names.number(first), names.number(place)), [0, 0])
        into[0] += count
        into[1] += nbytes
    repeats = [Repeat(*which, *amounts) for which, amounts in again.items()]
    memory = _memory(recorder, names)
    return Result(
        program=shown(program),
        process=os.getpid(),
        began=time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(recorder.began_at)),
        length=time.monotonic_ns() - began,
        ended=_ended(),
        places=names.found,
        lanes=lanes,
        drawn=drawn,
        memory=memory,
        totals=sorted(totals, key=lambda each: -each.busy),
        repeats=sorted(repeats, key=lambda each: -each.nbytes),
        waits=(recorder.waits[0], recorder.waits[1]),
        notes=_notes(recorder),
    )


class _Places:
    """Places by their lines: call sites of one line are one place."""

    def __init__(self, recorder: Recorder) -> None:
        self._call_sites = recorder.call_sites
        self._numbers: dict[int, int] = {}
        self._known: dict[Place, int] = {}
        self.found: list[Place] = []

    def number(self, call_site: int) -> int:
        """The place of a call site of the recorder's."""
        known = self._numbers.get(call_site)
        if known is None:
            lines = tuple(
                (f"{shown(site.filename)}:{site.line}", shown(site.function))
                for site in call_sites.sites(self._call_sites[call_site])
            )
            place = Place(lines)
            known = self._known.setdefault(place, len(self.found))
            if known == len(self.found):
                self.found.append(place)
            self._numbers[call_site] = known
        return known


def _lanes(recorder: Recorder) -> tuple[list[Lane], list[int]]:
    """The lanes, streams of the devices before threads of the host, and the place in that order of
    each of the recorder's."""
    lanes: list[Lane] = []
    streams: dict[str, int] = {}
    for device, stream, thread in recorder.lanes:
        if not device:
            lanes.append(Lane("", f"thread {shown(thread)}"))
        elif stream == 0:
            lanes.append(Lane(device, "default stream"))
        else:
            streams[device] = streams.get(device, 0) + 1
            lanes.append(Lane(device, f"stream {streams[device]}"))
    order = sorted(range(len(lanes)), key=lambda n: (not lanes[n].device, lanes[n].device))
    ranks = [0] * len(lanes)
    for rank, number in enumerate(order):
        ranks[number] = rank
    return [lanes[number] for number in order], ranks


def _memory(recorder: Recorder, names: _Places) -> list[Holdings]:
    found = {}
    for group, held in recorder.memory.groups.items():
        held.note_peak()
        holders: dict[int, list[int]] = {}
        for call_site, (nbytes, blocks) in held.at_peak.items():
            holder = holders.setdefault(names.number(call_site), [0, 0])
            holder[0] += nbytes
            holder[1] += blocks
        found[group] = Holdings(
            *(*group, held.peak, held.peak_at - recorder.began, held.total, held.allocations),
            sorted(
                ((place, nbytes, blocks) for place, (nbytes, blocks) in holders.items() if nbytes),
                key=lambda holder: -holder[1],
            ),
        )
    for at, group, call_site, nbytes in recorder.memory.changes:
        if nbytes:
            found[group].changes.append((at - recorder.began, names.number(call_site), nbytes))
    return sorted(found.values(), key=lambda each: (each.device, each.kind))


def _ended() -> str:
    # Set by Python when it shows an exception that nothing caught.
    kind = getattr(sys, "last_type", None)
    return f"by an uncaught {shown(kind.__name__)}" if kind is not None else ""


def _notes(recorder: Recorder) -> list[str]:
    notes = []
    operations, memory = recorder.operations, recorder.memory
    if operations.drawn_together:
        notes.append(
            f"{operations.count} operations and waits are more than are kept "
            f"({len(operations.kept)}): those of up to {operations.drawn_together / 1e3:.1f} "
            "microseconds that came one after the other in a stream are drawn as one. "
            "The totals count every one (--max-events)."
        )
    if operations.left_out:
        notes.append(
            f"{operations.left_out} short operations, of more streams than can be drawn, are in "
            "the totals only."
        )
    if memory.drawn_together:
        notes.append(
            f"{memory.count} changes of memory are more than are kept ({len(memory.changes)}): "
            f"those of one line within {memory.drawn_together / 1e6:.3f} milliseconds are drawn as "
            "one. The peaks and who held them are exact (--max-events)."
        )
    if unfinished := recorder.unfinished():
        notes.append(f"{unfinished} operations were not over when the program ended; not shown.")
    for device, why in recorder.failed.items():
        notes.append(f"{device} could not be asked for times any more: {shown(why)}")
    comparing = recorder.comparing
    if comparing is None:
        return notes
    if comparing.unsure:
        notes.append(
            f"{comparing.unsure} of the repeated transfers brought what was in memory that the "
            "program has let go of; haulage advise, which holds that, tells whether a kernel had "
            "changed it."
        )
    count, nbytes = comparing.not_compared
    if count:
        notes.append(
            f"{count} downloads ({nbytes / 1e6:.1f} MB) into pinned memory in a stream were still "
            "on their way when their call returned, and were not compared with earlier ones."
        )
    return notes


__all__ = ["WAIT", "Drawn", "Holdings", "Lane", "Place", "Repeat", "Result", "Total", "made_of"]
