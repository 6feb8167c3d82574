"""Cooperative groups, which numba.roc did not have; the words are those of `haulage.cuda.cg`."""

from haulage.lang.cg import GridGroup, this_grid

__all__ = ["GridGroup", "this_grid"]
