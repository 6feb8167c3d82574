"""What was seen of a program's copies, and what to change: as plain data."""

import os
from dataclasses import dataclass
from typing import Any

from haulage.advising import changes, source
from haulage.advising.watcher import Amount, Row, Watcher, Way
from haulage.runtime.process import call_sites
from haulage.tracing.result import shown


@dataclass(frozen=True)
class Finding:
    """Copies of one line that repeated unchanged data.

    Attributes:
        line: 'file:line'.
        function: that it is in.
        array: what the line calls it, with its shape and dtype.
        called: what copies: 'to_device', "kernel f, argument 'x'".
        up, down: copies to the device and back.
        overwritten: whether the kernel overwrites it, so that the same may be new each time.
        change: what to write instead, one sentence each.
    """

    line: str
    function: str
    array: str
    called: str
    up: Way
    down: Way
    overwritten: bool
    change: list[str]

    @property
    def again(self) -> Amount:
        """What need not be copied."""
        return _sum([self.up.again] if self.overwritten else [self.up.again, self.down.again])


@dataclass(frozen=True)
class Advice:
    """What was seen of a process.

    Attributes:
        program, process: what it was called by, and its number.
        all, again: all copies, and those that repeated unchanged data.
        findings: by line, those that copied most in vain first.
        smart: copies of SmartArrays and between devices, which are not looked at.
        not_compared: copies that were still on their way when their call returned.
        in_place: devices whose kernels use host arrays in place when they are not advised.
    """

    program: str
    process: int
    all: Amount
    again: Amount
    findings: list[Finding]
    smart: Amount
    not_compared: Amount
    in_place: list[str]


def advice_of(watcher: Watcher, program: str) -> Advice:
    """The advice for what was watched."""
    rows = list(watcher.rows)
    fellows = changes.Fellows(rows)
    findings = [_finding(row, fellows) for row in rows if _is_found(row)]
    return Advice(
        program=shown(program),
        process=os.getpid(),
        all=_sum([way.all for row in rows for way in (row.up, row.down)]),
        again=_sum([finding.again for finding in findings]),
        findings=sorted(findings, key=lambda each: -each.again.nbytes),
        smart=watcher.smart,
        not_compared=watcher.not_compared,
        in_place=sorted(watcher.in_place),
    )


def _is_found(row: Row) -> bool:
    return bool(
        row.up.again.count or row.down.again.count or (row.up.all.count and changes.is_out(row))
    )


def _sum(amounts: list[Amount]) -> Amount:
    return Amount(
        sum(each.count for each in amounts),
        sum(each.nbytes for each in amounts),
        sum(each.ns for each in amounts),
    )


def _finding(row: Row, fellows: changes.Fellows) -> Finding:
    call = source.call_at(row.call_site)
    if row.argument is not None:
        parameter = row.argument.name.partition("[")[0]
        given = source.argument(call, row.argument.path, parameter)
        called = f"{row.called}, argument {row.argument.name!r}"
        change = changes.of_launch(row, fellows)
    else:
        given = source.argument(call, (0,), "obj" if row.called == "to_device" else "ary")
        called = row.called
        change = changes.of_copy(row, call, given, fellows)
    name = source.receiver(call) if row.called == "copy_to_host" else changes.text(given, "")
    kinds = " or ".join(row.arrays)
    return Finding(
        line=changes.line_of(row),
        function=shown(call_sites.site(row.call_site).function) if row.call_site else "",
        array=shown(f"{name} {kinds}".strip()),
        called=shown(called),
        up=row.up,
        down=row.down,
        overwritten=changes.is_out(row),
        change=[shown(each) for each in change],
    )


def as_data(advice: Advice) -> dict[str, Any]:
    """The advice as it is given as JSON."""
    return {
        "program": advice.program,
        "process": advice.process,
        "transfers": _amount(advice.all),
        "repeated": _amount(advice.again),
        "findings": [
            {
                "line": each.line,
                "function": each.function,
                "array": each.array,
                "called": each.called,
                "to_device": _way(each.up),
                "to_host": _way(each.down),
                "repeated": _amount(each.again),
                "change": each.change,
            }
            for each in advice.findings
        ],
        "not_looked_at": {"count": advice.smart.count, "nbytes": advice.smart.nbytes},
        "not_compared": {
            "count": advice.not_compared.count,
            "nbytes": advice.not_compared.nbytes,
        },
        "in_place": advice.in_place,
    }


def _amount(amount: Amount) -> dict[str, Any]:
    return {"count": amount.count, "nbytes": amount.nbytes, "seconds": amount.ns / 1e9}


def _way(way: Way) -> dict[str, Any]:
    return {
        "all": _amount(way.all),
        "repeated": _amount(way.again),
        "returned": way.returned,
        "unsure": way.unsure,
        "only_if_the_host_looks": {"count": way.maybe.count, "nbytes": way.maybe.nbytes},
    }
