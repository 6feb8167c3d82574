"""The part of docs/performance.md, and of what is printed, that is about SmartArrays."""

from collections.abc import Iterator
from typing import Any

from benchmarks.smart.cases import DEVICE, HOST, PROGRAMS, SMART, USES
from haulage.cli.bench import statistics


def lines(smart: dict[str, Any]) -> Iterator[str]:
    """Markdown of what `benchmarks.smart.measure` gave."""
    if not smart:
        return
    yield "## SmartArrays\n"
    yield (
        f"From one run, on {smart['date']}: `make bench ARGS='--what smart'`. What is compared "
        "takes turns.\n"
    )
    yield from _launches(smart["uses"])
    yield from _host(smart["uses"])
    yield from _jacobi(smart["jacobi"])


def told(smart: dict[str, Any]) -> Iterator[str]:
    """Lines for a terminal."""
    for use, times in smart.get("uses", {}).items():
        each = "  ".join(f"{kind} {_us(ns)}" for kind, ns in times.items())
        yield f"{use:<18} microseconds: {each}"
    for program, kept in smart.get("jacobi", {}).get("programs", {}).items():
        seconds = statistics.median(kept["seconds"]).value
        yield f"{'jacobi':<18} {program}: {seconds:.3f} s, {kept['copies']} copies"


def _launches(uses: dict[str, Any]) -> Iterator[str]:
    yield "### Arguments of launches, microseconds\n"
    yield (
        "A launch of a kernel with one thread, from Python, with arrays that are where they are "
        "needed.\nWith host arrays it waits for the kernel; these are used in place. Here and on "
        "the host, times are\nthose of the shortest of all loops of a millisecond, 15 in each of "
        f"{_rounds(uses)} rounds; ratios are of these.\n"
    )
    rows = [
        (
            USES[use].title,
            f"**{_us(times[SMART])}**",
            _us(times[DEVICE]),
            _us(times[HOST]),
            _times(times[SMART], times[DEVICE]),
        )
        for use, times in uses.items()
        if DEVICE in times
    ]
    heads = ("", "SmartArray", "device array", "host array", "SmartArray over device array")
    yield _table(heads, rows)


def _host(uses: dict[str, Any]) -> Iterator[str]:
    yield "### On the host, nanoseconds\n"
    yield "With 1000 float64 that are current on the host.\n"
    rows = [
        (
            USES[use].title,
            f"**{_ns(times[SMART])}**",
            _ns(times[HOST]),
            _times(times[SMART], times[HOST]),
        )
        for use, times in uses.items()
        if DEVICE not in times
    ]
    yield _table(("", "SmartArray", "NumPy's array", "SmartArray over NumPy's"), rows)


def _jacobi(jacobi: dict[str, Any]) -> Iterator[str]:
    programs = jacobi["programs"]
    size, steps, every = (jacobi[name] for name in ("size", "steps", "every"))
    rounds = len(programs["smart"]["seconds"])
    yield "### An iterative program\n"
    yield (
        f"`examples/jacobi.py --size {size} --steps {steps} --every {every}`, {rounds} runs of "
        "each by turns, with all of its copies\nbetween host and device. Times are ratios of the "
        "medians of these runs, with 95 % intervals: other work\nof the machine disturbs these "
        "less than seconds. The last row is what a device with memory of its own\ncopies, here "
        "within the memory of one processor: over a bus it takes longer. No GPU was there.\n"
    )
    by_hand = programs["by hand"]["seconds"]
    rows = [
        (
            PROGRAMS[name].title,
            f"{kept['copies']:,}",
            f"{kept['nbytes']:,}",
            _ratio(kept["seconds"], by_hand) if name != "by hand" else "1",
        )
        for name, kept in programs.items()
    ]
    heads = ("given to the kernels", "copies", "bytes", "time over that by hand")
    yield _table(heads, rows)


def _us(nanoseconds: list[float]) -> str:
    return f"{min(nanoseconds) / 1e3:.2f}"


def _ns(nanoseconds: list[float]) -> str:
    shortest = min(nanoseconds)
    return f"{shortest:,.0f}" if shortest >= 100 else f"{shortest:.1f}"


def _rounds(uses: dict[str, Any]) -> int:
    return len(next(iter(uses.values()))[SMART])


def _times(ours: list[float], others: list[float]) -> str:
    ratio = min(ours) / min(others)
    return f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.1f}"


def _ratio(ours: list[float], others: list[float]) -> str:
    ratio = statistics.ratio(ours, others)
    return f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    table = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    table += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(table) + "\n"
