"""The types of short vectors as Numba sees them, under numba's long name for them."""

from haulage.lang.vector_type import VectorType
from haulage.lang.vector_types import vector_types

__all__ = ["VectorType", "vector_types"]
