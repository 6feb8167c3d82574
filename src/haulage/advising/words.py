"""Advice as people and programs read it."""

import json

from haulage.advising.advice import Advice, Finding, as_data
from haulage.advising.watcher import Amount, Way
from haulage.tracing.words import duration, size


def as_json(advice: Advice) -> str:
    """The advice in one line of JSON."""
    return json.dumps(as_data(advice))


def as_text(advice: Advice, begin: str = "", end: str = "") -> str:
    """The advice in lines; `begin` and `end` are around what is to stand out."""
    return "\n".join([f"haulage advise: {_verdict(advice)}", *_details(advice, begin, end)])


def _verdict(advice: Advice) -> str:
    every, again = advice.all, advice.again
    if not every.count and advice.smart.count:
        only = _amount(advice.smart, timed=False)
        return f"{advice.program}: nothing was copied but by SmartArrays or between devices: {only}"
    if not every.count:
        return f"{advice.program}: nothing was copied between the host and a device"
    if not again.count:
        one = every.count == 1
        none = "it did not repeat" if one else "none of them repeated"
        but = ", but:" if advice.findings else ""
        return f"{advice.program}: {_amount(every)}; {none} unchanged data{but}"
    return (
        f"{advice.program}: {again.count:,} of {every.count:,} copies repeated unchanged data: "
        f"{size(again.nbytes)} of {size(every.nbytes)}, {duration(again.ns)} of "
        f"{duration(every.ns)} that the copies took"
    )


def _details(advice: Advice, begin: str, end: str) -> list[str]:
    lines = []
    for each in advice.findings:
        lines += [
            f"{begin}{each.line}{end} in {each.function}: {each.array} ({each.called})",
            *(f"  {text}" for text in _ways(each)),
            *(f"  -> {text}" for text in each.change),
        ]
    if advice.not_compared.count:
        lines.append(
            f"{_amount(advice.not_compared, timed=False)} to pinned memory were still on their way "
            "when their call returned, and were not compared"
        )
    if advice.in_place and advice.findings:
        lines.append(
            f"On {' and '.join(advice.in_place)} kernels use host arrays in place when they are "
            "not advised; what their arguments cost here is what devices with memory of their own "
            "copy."
        )
    return lines


def _ways(each: Finding) -> list[str]:
    found = []
    for way, where in ((each.up, "to the device"), (each.down, "to the host")):
        if way.all.count:
            found.append(f"{_times(way.all)} {where}, {_again(way)}")
        if way.maybe.count:
            found.append(
                f"{way.maybe.count:,} more of these ({size(way.maybe.nbytes)}) were needed only if "
                "the host looked at them before they were sent back unchanged"
            )
    return found


def _again(way: Way) -> str:
    if not way.again.count:
        return f"none of them unchanged: {size(way.all.nbytes)}, {duration(way.all.ns)}"
    text = (
        f"{way.again.count:,} of them unchanged: {size(way.again.nbytes)} of "
        f"{size(way.all.nbytes)}, {duration(way.again.ns)} of {duration(way.all.ns)}"
    )
    if way.unsure:
        text += f" (for {way.unsure:,} if no kernel had changed them on the device meanwhile)"
    return text


def _times(amount: Amount) -> str:
    return "once" if amount.count == 1 else f"{amount.count:,} times"


def _amount(amount: Amount, timed: bool = True) -> str:
    copies = "1 copy" if amount.count == 1 else f"{amount.count:,} copies"
    took = f", {duration(amount.ns)}" if timed else ""
    return f"{copies}, {size(amount.nbytes)}{took}"
