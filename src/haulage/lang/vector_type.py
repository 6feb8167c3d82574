"""Short vectors as Numba sees them; imported with the first kernel."""

from typing import Any

from numba.core import types
from numba.core.datamodel import models, register_default

from haulage.lang import vectors


class VectorType(types.Type):
    """A vector of up to four numbers, in memory one after another.

    Attributes:
        base_type: the Numba type of its elements.
        attr_names: their names, from 'x' to at most 'w'.
    """

    def __init__(self, base_type: Any, count: int) -> None:
        self.base_type = base_type
        self.attr_names = tuple("xyzw"[:count])
        super().__init__(f"{base_type}x{count}")

    @property
    def num_elements(self) -> int:
        """How many elements it has."""
        return len(self.attr_names)

    @property
    def user_facing_object(self) -> vectors.Vector:
        """The word that makes such vectors."""
        made: vectors.Vector = getattr(vectors, self.name)
        return made


@register_default(VectorType)
class _VectorModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [(name, kind.base_type) for name in kind.attr_names])
