"""The words that warps exchange values with, under numba's long name for them."""

from haulage.lang.warp import (
    all_sync,
    any_sync,
    ballot_sync,
    eq_sync,
    shfl_down_sync,
    shfl_sync,
    shfl_up_sync,
    shfl_xor_sync,
)

__all__ = [
    "all_sync",
    "any_sync",
    "ballot_sync",
    "eq_sync",
    "shfl_down_sync",
    "shfl_sync",
    "shfl_up_sync",
    "shfl_xor_sync",
]
