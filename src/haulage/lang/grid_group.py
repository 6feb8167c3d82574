"""The group of all threads of a grid as Numba sees it; imported with the first kernel."""

from numba.core import types
from numba.core.datamodel import models, register_default


class GridGroupType(types.Dummy):
    """The type of `cg.this_grid()`; it has no value at run time."""

    def __init__(self) -> None:
        super().__init__("GridGroup")


register_default(GridGroupType)(models.OpaqueModel)
