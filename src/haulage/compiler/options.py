"""What a user can ask of a compilation."""

from dataclasses import dataclass, fields, replace
from typing import Any

from haulage.compiler.linked import Linked


@dataclass(frozen=True)
class Options:
    """How a function is compiled; part of every key that compiled code is found by.

    `fastmath`: False, True (all of LLVM's fast-math flags) or a frozenset of flag names. As on
    CUDA, products and sums are contracted into fused operations unless told otherwise.
    `debug`: division by zero is an error, and a thread that fails tells where it stands.
    `boundscheck`: whether an index out of bounds is an error, too; None for as with `debug`.
    `checks`: what the CPU device looks for while the code runs (`checking.names.CHECKS`).

    The others make a difference on GPUs only. `optimised`: False for code as it was written.
    `lineinfo`: the code says of which source lines it is made. `launch_bounds`: most threads of a
    block, fewest blocks of a multiprocessor and most blocks of a cluster, or the first of these.
    `max_registers`: of a thread; 0 is as many as the assembler likes. `linked`: code of others that
    the kernel is linked with.
    """

    fastmath: bool | frozenset[str] = False
    debug: bool = False
    boundscheck: bool | None = None
    checks: frozenset[str] = frozenset()
    optimised: bool = True
    lineinfo: bool = False
    launch_bounds: tuple[int, ...] = ()
    max_registers: int = 0
    linked: tuple[Linked, ...] = ()

    def __reduce__(self) -> Any:
        # A set's order differs from process to process, and what is pickled is hashed, as by Dask.
        given = (getattr(self, each.name) for each in fields(self))
        return _unpickled, tuple(
            sorted(each) if isinstance(each, frozenset) else each for each in given
        )

    def without_hints(self) -> "Options":
        """Those that change what a kernel does; the others are about code for GPUs."""
        return Options(self.fastmath, self.debug, self.boundscheck, self.checks)

    def for_threads(self, threads: int) -> "Options":
        """These with bounds of a launch in which blocks of so many threads have enough registers;
        0: as they are."""
        if not threads:
            return self
        most, fewest, *others = (*self.launch_bounds, 0, 0)[: max(2, len(self.launch_bounds))]
        return replace(self, launch_bounds=(most or threads, fewest or 1, *others))

    @property
    def watched(self) -> frozenset[str]:
        """Those of `checks` that look at what the kernel does to memory, and where it waits."""
        return self.checks - {"coverage"}

    @property
    def counts(self) -> bool:
        """Whether the ways of threads through the code are counted."""
        return "coverage" in self.checks

    @property
    def checks_indices(self) -> bool:
        """Whether indices are compared with their bounds."""
        return self.raises_index_errors or "bounds" in self.checks

    @property
    def raises_index_errors(self) -> bool:
        """Whether an index out of bounds is an error of the program."""
        return self.debug if self.boundscheck is None else self.boundscheck

    @property
    def names_threads(self) -> bool:
        """Whether a thread that fails tells where it stands."""
        return self.debug or self.checks_indices

    @property
    def is_fast(self) -> bool:
        """Whether all of fastmath is on: on GPUs, small numbers then count as zero too."""
        return self.fastmath is True or (
            isinstance(self.fastmath, frozenset) and "fast" in self.fastmath
        )


def _unpickled(*given: Any) -> Options:
    whole: tuple[Any, ...] = tuple(
        frozenset(each) if isinstance(each, list) else each for each in given
    )
    return Options(*whole)
