"""Figures and names as people read them."""

from haulage.tracing.result import Drawn

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size(nbytes: int) -> str:
    """Bytes with a unit: '1.50 MiB'."""
    value, unit = float(nbytes), 0
    while abs(value) >= 1024 and unit < len(_UNITS) - 1:
        value /= 1024
        unit += 1
    return f"{value:.2f} {_UNITS[unit]}" if unit else f"{nbytes} B"


def duration(ns: int) -> str:
    """Nanoseconds with a unit: '1.50 ms'."""
    for factor, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if ns >= factor:
            return f"{ns / factor:.2f} {unit}"
    return f"{ns} ns"


def throughput(nbytes: int, ns: int) -> str:
    """Bytes in nanoseconds as '1.50 GB/s'; nothing where either is none."""
    return f"{nbytes / ns:.2f} GB/s" if nbytes and ns else ""


def rate(each: Drawn) -> str:
    """How fast an operation moved its bytes."""
    return throughput(each.nbytes, each.busy)


def label(each: Drawn) -> str:
    """What an operation is called."""
    if each.count > 1:
        return f"{each.count} x {each.name or each.kind}"
    return each.name or each.kind
