"""The Numba types of all short vectors; importing this imports Numba."""

from numba.core import types

from haulage.lang import vectors
from haulage.lang.vector_type import VectorType

# 'int8x1' and so on to 'float64x4'.
vector_types = {
    name: VectorType(getattr(types, word.element), word.count)
    for name, word in vars(vectors).items()
    if isinstance(word, vectors.Vector) and word.__name__ == name
}
