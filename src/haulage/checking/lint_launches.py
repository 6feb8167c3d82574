"""What one launch costs, measured on some of its warps: see `_core/lint_native.h`."""

from collections.abc import Callable, Iterable
from math import prod
from typing import Any

from haulage._core import lint
from haulage.checking.findings import (
    BANK_CONFLICT,
    DIVERGENCE,
    FLOAT64,
    IDLE_LANES,
    LOCAL_MEMORY,
    UNCOALESCED,
    Access,
    Finding,
    Place,
)
from haulage.checking.lint_messages import GPUS
from haulage.checking.places import place_of_program
from haulage.compiler.checks.lint import Linted, LintSite, LocalArray
from haulage.errors import CompileError

# Of a larger grid some blocks are measured, with about so many warps; from the second number of
# launches of a configuration on with so many.
MOST_WARPS, FIRST_LAUNCHES, LATER_WARPS = 1024, 8, 64
# Where memory of GPUs begins.
_ALIGNED = 256


class Linting:
    """Measures launches of one kernel in one configuration."""

    def __init__(
        self,
        linted: Linted,
        overload: Any,
        kernel: str,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        lanes: int,
        *,
        is_single: bool,
        keeps: bool,
    ) -> None:
        self._sites, self._groups = linted.sites, linted.groups
        self._layouts = linted.layouts
        self._kernel, self._lanes, self._block = kernel, lanes, block
        self._is_single, self._keeps = is_single, keeps
        self._threads = prod(block)
        self._warps = -(-self._threads // lanes)
        self._all_blocks = prod(grid)
        self._local = _local_memory(linted, overload, lanes)
        self._launches = 0
        self._chosen = [
            _chosen(self._all_blocks, max(1, warps // self._warps))
            for warps in (MOST_WARPS, LATER_WARPS)
        ]

    @property
    def blocks(self) -> list[int] | None:
        """The numbers of the blocks that the next launch measures, in order; None: all."""
        return self._chosen[self._launches >= FIRST_LAUNCHES]

    def begin(self, host: Iterable[tuple[int, int]]) -> None:
        """Measure the launch that begins next; `host` has the address and the bytes of each array
        that is NumPy's: a GPU would have a copy, which begins at the beginning of a sector.

        Raises:
            MemoryError: there is none for that.
        """
        sites = [
            (each.kind, each.nbytes, each.group, each.waits, each.taken_waits, each.exits)
            for each in self._sites
        ]
        shifts = [(low, nbytes, low % _ALIGNED) for low, nbytes in host if low % _ALIGNED]
        lint.begin(
            sites,
            self._groups,
            self._threads,
            self._lanes,
            self.blocks,
            shifts,
            keeps=self._keeps,
        )

    def end(self, add: Callable[[Finding], object]) -> int:
        """End it; hands on what was measured, whether it is worth telling or not, and gives the
        accesses that were measured."""
        accesses, threads, idle, of_sites, of_groups = lint.end(len(self._sites), self._groups)
        measured = threads // self._threads * self._warps
        about = {
            "launches": 1,
            "warps": measured,
            "all_warps": self._all_blocks * self._warps,
            "lanes": self._lanes,
        }
        for kind, figures_of in _FIGURES.items():
            for sites in self._grouped(kind):
                found = figures_of(sites, of_sites, of_groups)
                if found is not None:
                    site, figures = found
                    add(self._finding(site, about | figures))
        self._add_idle(add, about, threads, idle)
        if self._local is not None:
            largest, hint, nbytes = self._local
            access = Access(Place(largest.file, largest.line), "array", self._kernel)
            figures = {"bytes": nbytes, "threads": self._all_blocks * self._threads}
            name = largest.name
            measure = about | figures
            add(Finding(LOCAL_MEMORY, "", access, array=name, measured=measure, hint=hint))
        self._launches += 1
        return accesses

    def _grouped(self, kind: int) -> list[list[tuple[int, LintSite]]]:
        """The sites of a kind, with their numbers, those of one line, array and sort together."""
        found: dict[object, list[tuple[int, LintSite]]] = {}
        for number, each in enumerate(self._sites):
            if each.kind == kind:
                key = each.file, each.line, each.array, each.what
                found.setdefault(key, []).append((number, each))
        return [*found.values()]

    def _finding(self, site: LintSite, measured: dict[str, int]) -> Finding:
        kind = _KINDS[site.kind]
        hint, what = "", site.what
        if kind == FLOAT64:
            hint, what = site.what, "float64"
            measured["is_single"] = int(self._is_single)
        elif kind == BANK_CONFLICT:
            shape = self._layouts.get(site.array)
            if shape is not None and len(shape) > 1 and all(shape) and shape[-1] % 8 == 0:
                hint = str((*shape[:-1], shape[-1] + 1))
        place = Place(site.file, site.line)
        access = Access(place, what, self._kernel)
        return Finding(kind, "", access, array=site.array, measured=measured, hint=hint)

    def _add_idle(
        self, add: Callable[[Finding], object], about: dict[str, int], threads: int, idle: int
    ) -> None:
        place = place_of_program()
        hint = str(self._block)
        all_lanes = self._warps * self._lanes
        if self._all_blocks > 1 and self._threads < all_lanes:
            figures = {
                "idle_lanes": (all_lanes - self._threads) * self._all_blocks,
                "all_lanes": all_lanes * self._all_blocks,
                "block": self._threads,
            }
            access = Access(place, "launch", self._kernel)
            add(Finding(IDLE_LANES, "", access, measured=about | figures, hint=hint))
        figures = {"idle_threads": idle, "threads": threads}
        access = Access(place, "launch of threads without work", self._kernel)
        add(Finding(IDLE_LANES, "", access, measured=about | figures, hint=hint))


_Sites = list[tuple[int, LintSite]]
_Figures = list[list[int]]
_Found = tuple[LintSite, dict[str, int]] | None


def _of_global(sites: _Sites, of_sites: _Figures, of_groups: _Figures) -> _Found:
    numbers = [number for number, _ in sites]
    requests, looked_at, sectors, least, whole = (
        sum(of_sites[number][at] for number in numbers) for at in range(5)
    )
    groups = {site.group for _, site in sites}
    line_sectors, line_least = (sum(of_groups[group][at] for group in groups) for at in (2, 3))
    figures = {
        "requests": requests,
        "looked_at": looked_at,
        "sectors": sectors,
        "least_sectors": least,
        "whole_sectors": whole,
        "line_sectors": line_sectors,
        "line_least_sectors": line_least,
    }
    return (sites[0][1], figures) if requests else None


def _of_shared(sites: _Sites, of_sites: _Figures, of_groups: _Figures) -> _Found:
    numbers = [number for number, _ in sites]
    requests, looked_at, parts, steps = (
        sum(of_sites[number][at] for number in numbers) for at in range(4)
    )
    figures = {
        "requests": requests,
        "looked_at": looked_at,
        "least_cycles": parts,
        "cycles": steps,
        "most_ways": max(of_sites[number][4] for number in numbers),
    }
    return (sites[0][1], figures) if requests else None


def _of_branches(sites: _Sites, of_sites: _Figures, of_groups: _Figures) -> _Found:
    """Those of the branch of a line at which most lanes wait."""
    number, site = max(sites, key=lambda each: of_sites[each[0]][4])
    times, looked_at, diverged, lanes, idle, *_ = of_sites[number]
    figures = {
        "times": times,
        "looked_at": looked_at,
        "diverged": diverged,
        "all_lanes": lanes,
        "idle_lanes": idle,
    }
    return (site, figures) if times else None


def _of_loops(sites: _Sites, of_sites: _Figures, of_groups: _Figures) -> _Found:
    found = _of_branches(sites, of_sites, of_groups)
    if found is None:
        return None
    number, _ = max(sites, key=lambda each: of_sites[each[0]][4])
    return found[0], found[1] | {"iterations": of_sites[number][5]}


def _of_counts(sites: _Sites, of_sites: _Figures, of_groups: _Figures) -> _Found:
    operations = sum(of_sites[number][0] for number, _ in sites)
    return (sites[0][1], {"operations": operations}) if operations else None


_FIGURES = {
    lint.GLOBAL: _of_global,
    lint.SHARED: _of_shared,
    lint.BRANCH: _of_branches,
    lint.LOOP: _of_loops,
    lint.COUNT: _of_counts,
}
_KINDS = {
    lint.GLOBAL: UNCOALESCED,
    lint.SHARED: BANK_CONFLICT,
    lint.BRANCH: DIVERGENCE,
    lint.LOOP: DIVERGENCE,
    lint.COUNT: FLOAT64,
}


def _local_memory(linted: Linted, overload: Any, lanes: int) -> tuple[LocalArray, str, int] | None:
    """Of a kernel with local arrays that are in memory on a GPU the largest one, the names of all
    of them, and the bytes of memory that a thread takes; else None."""
    arrays = sorted(linted.local_arrays, key=lambda each: each.nbytes)
    if not arrays or overload.body.lowered.prints:
        # What is printed is in local memory, too.
        return None
    try:
        nbytes = overload.local_bytes_on(GPUS[lanes])
    except CompileError:
        # It is for other GPUs, or for the CPU only.
        return None
    if nbytes < arrays[0].nbytes:
        return None
    named = ", ".join(f"{each.name or 'an array'} of {each.nbytes:,} bytes" for each in arrays)
    return arrays[-1], named, nbytes


def _chosen(blocks: int, most: int) -> list[int] | None:
    """So many of the blocks of a grid, or all of them (None): one of each of as many equal parts,
    at places without a pattern."""
    if blocks <= most:
        return None
    chosen = []
    for part in range(most):
        first, behind = part * blocks // most, (part + 1) * blocks // most
        chosen.append(first + part * 2654435761 % 4294967296 * (behind - first) // 4294967296)
    return chosen


def is_single(dtypes: list[Any]) -> bool:
    """Whether the arrays of a kernel have numbers of float32 or float16, and none of float64."""
    kinds = set().union(*(_floats(each) for each in dtypes if each is not None))
    return bool(kinds) and max(kinds) <= 4


def _floats(dtype: Any) -> set[int]:
    """The bytes of the floating-point numbers that elements have."""
    if dtype.subdtype is not None:
        return _floats(dtype.subdtype[0])
    if dtype.fields is not None:
        return set().union(*(_floats(kind) for kind, *_ in dtype.fields.values()))
    if dtype.kind == "f":
        return {dtype.itemsize}
    return {dtype.itemsize // 2} if dtype.kind == "c" else set()
