"""What to write instead of a line that copies what need not be copied."""

import ast
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from haulage.advising import source
from haulage.advising.watcher import Row, Way
from haulage.runtime.process import call_sites
from haulage.tracing.result import shown

_IT_A = "it a haulage.SmartArray", "them haulage.SmartArrays"
_MOVE_THEMSELVES = (
    "which is copied only when it changed and someone looks",
    "which are copied only when they changed and someone looks",
)
_MOVES_ITSELF = _MOVE_THEMSELVES[0]
# Text of the program that is longer is not repeated.
_LONGEST = 60
# So many other lines are named.
_MOST_LINES = 3


class Fellows:
    """Which arguments of launches are the same host arrays."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._by_host: dict[int, list[Row]] = defaultdict(list)
        for row in rows:
            if row.argument is not None:
                for host in row.hosts:
                    self._by_host[host].append(row)

    def of(self, row: Row) -> list[Row]:
        """Other arguments that a host array of this one is given as, too."""
        found = {id(other): other for host in row.hosts for other in self._by_host[host]}
        return [other for other in found.values() if other is not row]


def _accesses(row: Row) -> list[Any]:
    """What the kernel does with an argument, in each form that it was compiled in."""
    if row.argument is None or row.argument.kernel is None:
        return []
    overloads = row.argument.kernel.overloads.values()
    return [each.access.get(row.argument.name) for each in overloads]


def _is_read_only(row: Row) -> bool:
    accesses = _accesses(row)
    return bool(accesses) and all(each is not None and not each.writes for each in accesses)


def is_out(row: Row) -> bool:
    """Whether the kernel writes all of an argument, if the launch is large enough, and reads
    nothing of it."""
    accesses = _accesses(row)
    return bool(accesses) and all(
        each is not None and each.mode == "w" and each.wholes for each in accesses
    )


def line_of(row: Row) -> str:
    """'file:line' of a row."""
    if not row.call_site:
        return "(no line known)"
    site = call_sites.site(row.call_site)
    return f"{shown(site.filename)}:{site.line}"


def of_launch(row: Row, fellows: Fellows) -> list[str]:
    """What to change where a kernel is given a host array."""
    down, out, name = row.down, is_out(row), _name(row)
    others = fellows.of(row)
    nothing_came = bool(down.all.count) and down.again.count == down.all.count
    found = []
    if row.up.again.count and (others or not out):
        found += [_on_device(row, others), _smart(_take_turns(row, others) or [name])]
    stays = "if it stays a host array: " if found else ""
    if out and row.up.all.count:
        wholes = f"{_accesses(row)[0]}".partition(", ")[2]
        found.append(
            f"{stays}the kernel reads nothing of `{name}`, and writes {wholes}: then give it "
            f"cuda.Out({name}), which is not copied to the device"
        )
    elif nothing_came and not out:
        known = f"the kernel only reads `{name}`: "
        seen = f"the launches changed nothing of `{name}`: if the kernel only reads it, "
        found.append(
            f"{stays}{known if _is_read_only(row) else seen}give it cuda.In({name}), which is not "
            "copied back"
        )
    elif not found:
        found.append(
            f"{down.again.count:,} of {down.all.count:,} launches changed nothing of `{name}`: "
            f"make it a haulage.SmartArray, {_MOVES_ITSELF}"
        )
    return found


def _on_device(row: Row, others: list[Row]) -> str:
    """To make what a kernel is given a device array; `others` are given the same host arrays."""
    name, names = _name(row), _take_turns(row, others)
    on_device = _device_name(name)
    if names:
        made = ", ".join(f"{_device_name(each)} = cuda.to_device({each})" for each in names)
        advice = (
            f"{_listed([f'`{each}`' for each in names])} take turns: make device arrays of them "
            f"once, before the first launch: {made}; let these take turns, and give the kernel "
            "them"
        )
    elif len(row.hosts) > 1 and sum(row.hosts.values()) > 1:
        advice = (
            f"`{name}` is one of several arrays here: make a device array of each once: "
            f"{on_device} = cuda.to_device({name}); give the kernel {on_device}"
        )
    else:
        advice = (
            f"make `{name}` a device array once, before the first launch: "
            f"{on_device} = cuda.to_device({name}); give the kernel {on_device}"
        )
    elsewhere = [_where(other, row) for other in others if _name(other) not in names]
    if elsewhere:
        advice += f", also {_listed(list(dict.fromkeys(elsewhere)))}"
    if _is_changed(row):
        advice += f", and {on_device}.copy_to_device({name}) when the host has changed it"
    if any(each.down.all.count > each.down.again.count for each in (row, *others)):
        advice += f", and {on_device}.copy_to_host({name}) when the host needs it"
    return advice


def _smart(names: list[str]) -> str:
    """To make arrays, which are those to be made device arrays, SmartArrays instead."""
    if not all(name.isidentifier() for name in names):
        return f"or make {_IT_A[len(names) > 1]} there, {_MOVE_THEMSELVES[len(names) > 1]}"
    made = ", ".join(f"{name} = haulage.SmartArray({name})" for name in names)
    return f"or {made} there, {_MOVE_THEMSELVES[len(names) > 1]}"


def _take_turns(row: Row, others: list[Row]) -> list[str]:
    """The words for arguments of one launch that several arrays take turns to be."""
    turning = [
        other
        for other in others
        if other.call_site == row.call_site and len(other.hosts.keys() & row.hosts.keys()) > 1
    ]
    names = list(dict.fromkeys(map(_name, (row, *turning))))
    return names if len(names) > 1 else []


def _where(other: Row, row: Row) -> str:
    """Where a kernel is given what it is given at `row`."""
    if other.call_site == row.call_site and other.argument is not None:
        return f"as argument {other.argument.name!r}"
    return f"at {line_of(other)}"


def _listed(words: list[str]) -> str:
    if len(words) > _MOST_LINES:
        words = [*words[:_MOST_LINES], f"{len(words) - _MOST_LINES} others"]
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _is_changed(row: Row) -> bool:
    """Whether one host array was sent with several contents."""
    return any(needed > 1 for needed in row.hosts.values())


def of_copy(row: Row, call: ast.Call | None, given: ast.expr | None, fellows: Fellows) -> list[str]:
    """What to change where the program copies itself."""
    if row.down.again.count:
        return [_of_download(row, call)]
    others, launches = _others(row.up, row), fellows.of(row)
    # What a launch has sent back came from an array that is gone.
    if row.up.returned and any(each.down.all.count and not each.argument for each in row.up.since):
        advice = (
            f"the device had sent these elements to the host ({others or 'here'}) and has them "
            "still: go on with the device array that they came from"
        )
    elif row.called == "copy_to_device" or given is None:
        held = source.receiver(call) if row.called == "copy_to_device" else ""
        target = f"`{held}`" if held else "the device"
        name = f"`{ast.unparse(given)}`" if given is not None else "them"
        advice = f"{target} has these elements already: copy {name} only when something changed"
    elif others and row.up.all.count == 1 and not launches:
        advice = (
            f"the device array that {others} made has these elements: use that one, or copy it on "
            "the device by copy_to_device"
        )
    else:
        name = ast.unparse(given)
        copies_only = row.called == "to_device"
        function = ast.unparse(call.func) if copies_only and call else "cuda.to_device"
        on_device = _device_name(name)
        several = len(row.hosts) > 1 and sum(row.hosts.values()) > 1
        each = "each array that is " if several else ""
        advice = f"make {each}`{name}` a device array once, "
        advice += f"before it is repeated: {on_device} = {function}({name})"
        if not copies_only:
            advice += f"; give that instead of `{name}`"
        if launches:
            lines = dict.fromkeys(map(line_of, launches))
            advice += f"; give the kernel that, too, at {_listed(list(lines))}"
        if _is_changed(row):
            advice += (
                f"; and {on_device}.copy_to_device({name}) when the host or a kernel has changed it"
            )
    return [advice, f"or make it a haulage.SmartArray, {_MOVES_ITSELF}"]


def _of_download(row: Row, call: ast.Call | None) -> str:
    held = f"`{source.receiver(call)}`" if source.receiver(call) else "the array"
    since = _others(row.down, row) or "the copy before"
    again, every = row.down.again.count, row.down.all.count
    seen = "nothing has" if again >= every - 1 else f"{again:,} of {every:,} times nothing had"
    return (
        f"{seen} changed {held} since {since}: keep the host array that has its elements, and copy "
        "only after a kernel has written to it (one that wrote the same again was not told from "
        "one that wrote nothing)"
    )


def _others(way: Way, row: Row) -> str:
    """The other lines where the same was copied before."""
    return " and ".join(line_of(other) for other in way.since if other is not row)


def _name(row: Row) -> str:
    """What the program calls an argument of a launch."""
    assert row.argument is not None
    parameter = row.argument.name.partition("[")[0]
    given = source.argument(source.call_at(row.call_site), row.argument.path, parameter)
    return text(given, row.argument.name or "the array")


def text(given: ast.expr | None, otherwise: str) -> str:
    """An expression of the program, if it is there and short."""
    if given is None:
        return otherwise
    words = ast.unparse(given)
    return words if len(words) <= _LONGEST else otherwise


def _device_name(name: str) -> str:
    """A name for a device array of what the program calls `name`."""
    last = name.rpartition(".")[2]
    return f"d_{last}" if last.isidentifier() else "d_array"
