"""What is measured, from what each package offers.

A package's module has `about()` and `offers()`, which gives some of:

    synchronize()                 wait for the device
    launch-0, -1, -3, -8 ()       a function that launches an empty kernel of so many arrays
    empty(nbytes)                 an array of bytes on the device
    pinned(nbytes)                a NumPy array of bytes in pinned memory
    upload(host, on_device)       copy bytes there, and
    download(on_device, host)     back, both waited for
    duplicate(source, target)     copy bytes on the device, not waited for
    saxpy, transpose, reduction, stencil, matmul (inputs...)
                                  put float32 inputs there; a function that launches, not waited
                                  for, and one that gives the result as a NumPy array
    compile()                     a function that compiles and runs a kernel nobody has compiled
    start()                       milliseconds of a new process with a kernel from the disk cache
    trim()                        give memory that is kept for later back to the driver
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import quantiles
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.gpu import problems

Offers = Mapping[str, Any]
Turn = Callable[[], float]

# Fewer than a driver's queue takes, so that a launch never waits for another one's end.
_LAUNCHES = 20
_WARM = 10
_BURSTS = 50
_SECONDS = 0.05


@dataclass(frozen=True)
class Measure:
    """One figure. `unit` is of time where less is better; `prepare(offers, small)` gives a function
    that measures it once. `needs` names what a package must offer."""

    name: str
    title: str
    unit: str
    prepare: Callable[[Offers, bool], Turn]
    needs: tuple[str, ...]

    @property
    def is_time(self) -> bool:
        """Whether less is better."""
        return self.unit in ("us", "ms", "ns")


def _per_second(offers: Offers, amount: float, work: Callable[[], object]) -> Turn:
    """Measures `amount` per second: `work` again and again, then one wait."""
    synchronize = offers["synchronize"]

    def many(calls: int) -> float:
        synchronize()
        began = perf_counter()
        for _ in range(calls):
            work()
        synchronize()
        return perf_counter() - began

    many(1)
    calls = max(1, min(1000, math.ceil(_SECONDS / max(many(3) / 3, 1e-7))))
    return lambda: amount * calls / many(calls)


def _undisturbed(burst: Turn) -> float:
    """What a quarter of some bursts is below: those are short, and in these no other process had
    the processor."""
    return quantiles((burst() for _ in range(_BURSTS)), n=4)[0]


def _launch(arrays: int) -> Measure:
    def prepare(offers: Offers, small: bool) -> Turn:
        launch, synchronize = offers[f"launch-{arrays}"](), offers["synchronize"]

        def burst() -> float:
            # The other packages have had the processor's caches.
            for _ in range(_WARM):
                launch()
            synchronize()
            began = perf_counter()
            for _ in range(_LAUNCHES):
                launch()
            took = perf_counter() - began
            synchronize()
            return took * 1e6 / _LAUNCHES

        return lambda: _undisturbed(burst)

    title = f"launch with {arrays} arrays, host time" if arrays else "launch, host time"
    name = f"launch-{arrays}"
    return Measure(name, title, "us", prepare, (name, "synchronize"))


def _pattern(nbytes: int) -> Any:
    return np.resize(np.arange(251, dtype=np.uint8), nbytes)


def _same(found: Any, pattern: Any) -> None:
    if not np.array_equal(found, pattern):
        raise problems.Wrong("the copies came to something else than was copied")


def _copy(name: str, nbytes: int, title: str, kind: str, there: bool) -> Measure:
    def prepare(offers: Offers, small: bool) -> Turn:
        size = min(nbytes, 1 << 16) if small else nbytes
        host = np.empty(size, np.uint8) if kind == "pageable" else offers["pinned"](size)
        array = offers["empty"](size)
        upload, download = offers["upload"], offers["download"]
        pattern = _pattern(size)
        host[...] = pattern
        upload(host, array)
        host[...] = 0
        download(array, host)
        _same(host, pattern)
        work = (lambda: upload(host, array)) if there else (lambda: download(array, host))
        return _per_second(offers, size / 1e9, work)

    needs = ("empty", "upload", "download", "synchronize", *(("pinned",) * (kind == "pinned")))
    return Measure(name, title, "GB/s", prepare, needs)


def _allocate(name: str, nbytes: int, title: str) -> Measure:
    def prepare(offers: Offers, small: bool) -> Turn:
        empty = offers["empty"]
        for _ in range(3000):
            empty(nbytes)

        def burst() -> float:
            began = perf_counter()
            for _ in range(_LAUNCHES):
                empty(nbytes)
            return (perf_counter() - began) * 1e9 / _LAUNCHES

        return lambda: _undisturbed(burst)

    return Measure(name, title, "ns", prepare, ("empty",))


def _device_copy(offers: Offers, small: bool) -> Turn:
    nbytes = 1 << (16 if small else 28)
    source, target = offers["empty"](nbytes), offers["empty"](nbytes)
    pattern, found = _pattern(nbytes), np.zeros(nbytes, np.uint8)
    offers["upload"](pattern, source)
    offers["upload"](found, target)
    offers["duplicate"](source, target)
    offers["synchronize"]()
    offers["download"](target, found)
    _same(found, pattern)
    return _per_second(offers, 2 * nbytes / 1e9, lambda: offers["duplicate"](source, target))


def _kernel(name: str, title: str, unit: str, size: int, amount: Callable[[int], float]) -> Measure:
    def prepare(offers: Offers, small: bool) -> Turn:
        chosen = min(size, 256 if name != "saxpy" and name != "reduction" else 1 << 14)
        chosen = chosen if small else size
        inputs = problems.INPUTS[name](chosen)
        work, result = offers[name](*inputs)
        work()
        offers["synchronize"]()
        problems.check(name, result(), inputs)
        return _per_second(offers, amount(chosen), work)

    return Measure(name, title, unit, prepare, (name, "synchronize"))


def _compile(offers: Offers, small: bool) -> Turn:
    def turn() -> float:
        work = offers["compile"]()
        began = perf_counter()
        work()
        offers["synchronize"]()
        return (perf_counter() - began) * 1e3

    turn()
    return turn


def _start(offers: Offers, small: bool) -> Turn:
    start: Turn = offers["start"]
    start()
    return start


_COPIES = [
    _copy(
        f"{kind}-{way}-{size}",
        nbytes,
        f"{kind} memory {words}, {said}",
        kind,
        way == "up",
    )
    for kind in ("pinned", "pageable")
    for way, words in (("up", "to the device"), ("down", "from the device"))
    for size, nbytes, said in (("256MB", 1 << 28, "256 MiB"), ("64KB", 1 << 16, "64 KiB"))
]

MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (
        *map(_launch, (0, 1, 3, 8)),
        *_COPIES,
        _allocate("allocate-4KB", 4096, "allocate and free 4 KiB"),
        _allocate("allocate-1MB", 1 << 20, "allocate and free 1 MiB"),
        Measure(
            "device-copy",
            "copy on the device, 256 MiB",
            "GB/s",
            _device_copy,
            ("empty", "upload", "download", "duplicate", "synchronize"),
        ),
        _kernel("saxpy", "saxpy of 2^26", "GB/s", 1 << 26, lambda n: 12 * n / 1e9),
        _kernel("transpose", "transpose of 8192 x 8192", "GB/s", 8192, lambda n: 8 * n * n / 1e9),
        _kernel("reduction", "sum of 2^27", "GB/s", 1 << 27, lambda n: 4 * n / 1e9),
        _kernel("stencil", "stencil of 8192 x 8192", "GB/s", 8192, lambda n: 8 * n * n / 1e9),
        _kernel("matmul", "tiled product, 2048", "TFLOP/s", 2048, lambda n: 2 * n**3 / 1e12),
        Measure("compile", "compile and run saxpy", "ms", _compile, ("compile", "synchronize")),
        Measure("start", "new process, kernel from its cache", "ms", _start, ("start",)),
    )
}


def possible(offers: Offers) -> list[str]:
    """The names of the measures for which a package offers what is needed."""
    return [
        measure.name
        for measure in MEASURES.values()
        if all(need in offers for need in measure.needs)
    ]
