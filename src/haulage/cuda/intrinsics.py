"""The words for a thread's place and its block's barriers, under numba's long name for them."""

from haulage.lang.index import grid, gridsize
from haulage.lang.sync import syncthreads, syncthreads_and, syncthreads_count, syncthreads_or

__all__ = [
    "grid",
    "gridsize",
    "syncthreads",
    "syncthreads_and",
    "syncthreads_count",
    "syncthreads_or",
]
