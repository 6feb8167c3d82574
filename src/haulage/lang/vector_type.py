"""Short vectors as Numba sees them; imported with the first kernel."""

from typing import Any

from numba.core import types
from numba.core.datamodel import models, register_default


class VectorType(types.Type):
    """A vector of up to four numbers, in memory one after another."""

    def __init__(self, element: Any, count: int) -> None:
        self.element = element
        self.fields = tuple("xyzw"[:count])
        super().__init__(f"{element}x{count}")


@register_default(VectorType)
class _VectorModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [(field, kind.element) for field in kind.fields])
