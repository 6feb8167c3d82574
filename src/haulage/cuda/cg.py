"""`numba.cuda.cg`: cooperative groups."""

from haulage.lang.cg import GridGroup, this_grid

__all__ = ["GridGroup", "this_grid"]
