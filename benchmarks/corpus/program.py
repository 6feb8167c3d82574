"""What a program of the corpus is: kernels, how they are launched, and what must come out."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import njit

# As for the suite's loops: what CUDA's compiler may do, no more.
_LIKE_KERNELS = {"fastmath": {"contract"}, "error_model": "numpy"}
loop = njit(**_LIKE_KERNELS)
parallel = njit(parallel=True, **_LIKE_KERNELS)

# How far results may be from the reference, in parts of the largest one, by the kind of numbers.
_TOLERANCES = {"float16": 2e-3, "float32": 1e-4, "complex64": 1e-4}


@dataclass(frozen=True)
class View:
    """An argument that is a part of an array, as a view: `index`, or the transposed array."""

    array: np.ndarray
    index: Any = None

    def of(self, array: Any) -> Any:
        """The same part of another array, on a device or not."""
        return array.T if self.index is None else array[self.index]


@dataclass(frozen=True)
class Launch:
    """A kernel, its grid, and its arguments: arrays, views of arrays, and scalars."""

    kernel: Any
    grid: Any
    block: Any
    args: tuple[Any, ...]
    shared: int = 0


@dataclass(frozen=True)
class Made:
    """A program with its data.

    `expect` gives pairs of an array that the launches write and what must stand in it; nothing
    changes the arrays themselves, as they are copied to the device. `restore` names those that
    each run must find as they were. `loops` are calls of functions for Numba's `njit` that do the
    same. `tolerance` replaces the usual one.
    """

    launches: list[Launch]
    expect: Callable[[], list[tuple[np.ndarray, Any]]]
    loops: list[tuple[Any, tuple[Any, ...]]] = field(default_factory=list)
    restore: tuple[np.ndarray, ...] = ()
    tolerance: float | None = None


@dataclass(frozen=True)
class Program:
    """One program: `make(size, rng)` gives it with data of a size.

    `cheap`: its reference can be worked out at the full size, too.
    """

    name: str
    group: str
    size: int
    small: int
    make: Callable[[int, np.random.Generator], Made]
    cheap: bool = True

    def made(self, small: bool = False) -> Made:
        """The program with its data, the same in each process."""
        return self.make(self.small if small else self.size, np.random.default_rng(7))

    def on_device(self, small: bool = False) -> Any:
        """The program with its data on the current device."""
        from benchmarks.corpus.running import OnDevice

        return OnDevice(self.made(small))

    def as_loops(self, small: bool = False) -> Any:
        """Its loops for Numba's `njit` with their data; None if it has none."""
        from benchmarks.corpus.running import AsLoops

        made = self.made(small)
        return AsLoops(made) if made.loops else None


PROGRAMS: dict[str, Program] = {}


def program(name: str, size: int, small: int, *, cheap: bool = True) -> Callable[..., Any]:
    """A decorator for the `make` of a program, whose group is the name of the module."""

    def add(make: Callable[[int, np.random.Generator], Made]) -> Any:
        if name in PROGRAMS:
            raise ValueError(f"there are two programs {name}")
        group = make.__module__.rpartition(".")[2].replace("_", " ")
        PROGRAMS[name] = Program(name, group, size, small, make, cheap)
        return make

    return add


def over(n: int, block: int) -> int:
    """Blocks that cover n elements."""
    return -(-n // block)


def over2(shape: tuple[int, ...], block: tuple[int, ...]) -> tuple[int, ...]:
    """Blocks that cover a shape, axis by axis: (x, y) for (x, y)."""
    return tuple(over(n, b) for n, b in zip(shape, block, strict=True))


def wrong(result: np.ndarray, expected: Any, tolerance: float | None = None) -> str | None:
    """What is wrong with a result; None if nothing is."""
    expected = np.asarray(expected)
    if result.shape != expected.shape:
        return f"its shape is {result.shape}, not {expected.shape}"
    if result.dtype.names:
        told = (wrong(result[name], expected[name], tolerance) for name in result.dtype.names)
        return next(filter(None, told), None)
    if result.dtype.kind in "biu":
        bad = int(np.count_nonzero(result != expected))
        return f"{bad} of {result.size} elements differ" if bad else None
    if tolerance is None:
        tolerance = _TOLERANCES.get(result.dtype.name, 1e-9)
    with np.errstate(invalid="ignore"):
        off = np.abs(result.astype(_wide(result)) - expected.astype(_wide(result)))
    most = tolerance * max(1e-30, float(np.max(np.abs(expected), initial=0.0)))
    bad = int(np.count_nonzero(~(off <= most)))
    return f"{bad} of {result.size} elements are off by up to {np.max(off):.3g}" if bad else None


def _wide(array: np.ndarray) -> Any:
    return np.complex128 if array.dtype.kind == "c" else np.float64
