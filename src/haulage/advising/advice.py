"""What was seen of a program's copies, and what to change: as plain data."""

import ast
import os
from dataclasses import dataclass
from typing import Any

from haulage.advising import source
from haulage.advising.watcher import Amount, Row, Watcher, Way
from haulage.runtime.memory import owners
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
        change: what to write instead, one sentence each.
    """

    line: str
    function: str
    array: str
    called: str
    up: Way
    down: Way
    change: list[str]

    @property
    def again(self) -> Amount:
        """What need not be copied."""
        return _sum([self.up.again, self.down.again])


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
    findings = [_finding(row) for row in rows if _is_found(row)]
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
    return bool(row.up.again.count or row.down.again.count or (row.up.all.count and _is_out(row)))


def _accesses(row: Row) -> list[Any]:
    """What the kernel does with an argument, in each form that it was compiled in."""
    if row.argument is None or row.argument.kernel is None:
        return []
    overloads = row.argument.kernel.overloads.values()
    return [each.access.get(row.argument.name) for each in overloads]


def _is_read_only(row: Row) -> bool:
    accesses = _accesses(row)
    return bool(accesses) and all(each is not None and not each.writes for each in accesses)


def _is_out(row: Row) -> bool:
    """Whether the kernel writes all of an argument, if the launch is large enough, and reads
    nothing of it."""
    accesses = _accesses(row)
    return bool(accesses) and all(
        each is not None and each.mode == "w" and each.wholes for each in accesses
    )


def _sum(amounts: list[Amount]) -> Amount:
    return Amount(
        sum(each.count for each in amounts),
        sum(each.nbytes for each in amounts),
        sum(each.ns for each in amounts),
    )


def line_of(row: Row) -> str:
    """'file:line' of a row."""
    if not row.mark:
        return "(no line known)"
    site = owners.site(row.mark)
    return f"{shown(site.filename)}:{site.line}"


def _finding(row: Row) -> Finding:
    call = source.call_at(row.mark)
    if row.argument is not None:
        parameter = row.argument.name.partition("[")[0]
        given = source.argument(call, row.argument.path, parameter)
        called = f"{row.called}, argument {row.argument.name!r}"
        change = _of_launch(row, _text(given, row.argument.name or "the array"))
    else:
        given = source.argument(call, (0,), "obj" if row.called == "to_device" else "ary")
        called = row.called
        change = _of_copy(row, call, given)
    name = source.receiver(call) if row.called == "copy_to_host" else _text(given, "")
    kinds = " or ".join(row.arrays)
    return Finding(
        line=line_of(row),
        function=shown(owners.site(row.mark).function) if row.mark else "",
        array=shown(f"{name} {kinds}".strip()),
        called=shown(called),
        up=row.up,
        down=row.down,
        change=[shown(each) for each in change],
    )


def _text(given: ast.expr | None, otherwise: str) -> str:
    if given is None:
        return otherwise
    text = ast.unparse(given)
    return text if len(text) <= 60 else otherwise


def _device_name(name: str) -> str:
    """A name for a device array of what the program calls `name`."""
    return f"d_{name}" if name.isidentifier() else "d_array"


_MOVES_ITSELF = "which is copied only when it changed and someone looks"


def _of_launch(row: Row, name: str) -> list[str]:
    """What to change where a kernel is given a host array."""
    up, down = row.up, row.down
    nothing_came = bool(down.all.count) and down.again.count == down.all.count
    # Of what is overwritten the next launch may give other elements.
    reads = nothing_came and not _is_out(row)
    on_device = _device_name(name)
    found = []
    if up.all.count and _is_out(row):
        wholes = f"{_accesses(row)[0]}".partition(", ")[2]
        return [
            f"the kernel reads nothing of `{name}`, and writes {wholes}: then give it "
            f"cuda.Out({name}), which is not copied to the device"
        ]
    if up.again.count:
        comes_back = down.all.count > down.again.count
        then = (
            f", and {on_device}.copy_to_host({name}) when the host needs it" if comes_back else ""
        )
        found.append(
            f"make `{name}` a device array once, before the first launch: "
            f"{on_device} = cuda.to_device({name}); give the kernel {on_device}{then}"
        )
        smart = f"{name} = haulage.SmartArray({name})"
        found.append(
            f"or {smart if name.isidentifier() else 'make it a haulage.SmartArray'}, "
            f"{_MOVES_ITSELF}"
        )
    if reads:
        known = f"the kernel only reads `{name}`: "
        seen = f"the launches changed nothing of `{name}`: if the kernel only reads it, "
        found.append(
            f"{'if it stays a host array: ' if found else ''}"
            f"{known if _is_read_only(row) else seen}give it cuda.In({name}), which is not copied "
            "back"
        )
    elif not found:
        found.append(
            f"{down.again.count:,} of {down.all.count:,} launches changed nothing of `{name}`: "
            f"make it a haulage.SmartArray, {_MOVES_ITSELF}"
        )
    return found


def _of_copy(row: Row, call: ast.Call | None, given: ast.expr | None) -> list[str]:
    """What to change where the program copies itself."""
    if row.down.again.count:
        return [_of_download(row, call)]
    others = _others(row.up, row)
    if row.up.returned:
        advice = (
            f"the device had sent these elements to the host ({others or 'here'}) and has them "
            "still: go on with the device array that they came from"
        )
    elif row.called == "copy_to_device" or given is None:
        held = source.receiver(call) if row.called == "copy_to_device" else ""
        target = f"`{held}`" if held else "the device"
        name = f"`{ast.unparse(given)}`" if given is not None else "them"
        advice = f"{target} has these elements already: copy {name} only when something changed"
    elif others and row.up.all.count == 1:
        advice = (
            f"the device array that {others} made has these elements: use that one, or copy it on "
            "the device by copy_to_device"
        )
    else:
        name = ast.unparse(given)
        copies_only = row.called == "to_device"
        function = ast.unparse(call.func) if copies_only and call else "cuda.to_device"
        on_device = _device_name(name)
        advice = (
            f"make `{name}` a device array once, before it is repeated: "
            f"{on_device} = {function}({name})"
        )
        if not copies_only:
            advice += f"; give that instead of `{name}`"
    return [advice, f"or make it a haulage.SmartArray, {_MOVES_ITSELF}"]


def _of_download(row: Row, call: ast.Call | None) -> str:
    held = f"`{source.receiver(call)}`" if source.receiver(call) else "the array"
    others = _others(row.down, row)
    return (
        f"nothing has changed {held} since {others or 'the copy before'}: keep the host array that "
        "has its elements, and copy only after a kernel has written to it"
    )


def _others(way: Way, row: Row) -> str:
    """The other lines where the same was copied before."""
    return " and ".join(line_of(other) for other in way.since if other is not row)


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
