"""Kernels in the styles of programs for numba.cuda, with references: `--what corpus`, `passes`.

Each module is a group of programs, written for this corpus. Sizes are such that a run takes about
1 to 20 ms on two cores; small ones are for tests.
"""

import importlib

from benchmarks.corpus.program import PROGRAMS, Program

GROUPS = (
    "elementwise",
    "data_types",
    "dense_linear_algebra",
    "factorisations",
    "stencils",
    "reductions",
    "scans",
    "sorting",
    "histograms",
    "graphs",
    "sparse",
    "images",
    "signals",
    "monte_carlo",
    "finance",
    "physics",
    "divergent",
    "bits_and_text",
    "warps",
    "learning",
    "suite",
)


def programs() -> dict[str, Program]:
    """All programs by name, group by group."""
    for group in GROUPS:
        importlib.import_module(f"benchmarks.corpus.{group}")
    return PROGRAMS
