"""What a kernel's arguments are to Numba. Importing this imports Numba.

The launch path knows arguments by keys that it makes without Numba (`haulage.runtime.arguments`);
here a key becomes a Numba type, once per signature.
"""

from typing import Any

# The package itself comes first: where another thread is still importing Numba, Python waits for it
# here, but would let this one go on into half-made submodules.
import numba  # noqa: F401
import numpy as np
from numba.core import types
from numba.core.errors import NumbaError
from numba.np import numpy_support

ARRAY, SCALAR, TUPLE = "array", "scalar", "tuple"


def numba_type(key: tuple[Any, ...]) -> Any:
    """The Numba type for an argument's key.

    Keys are ("array", dtype, ndim, layout, read-only, aligned), ("scalar", dtype) and
    ("tuple", keys, named-tuple class or None).

    Raises:
        TypeError: Numba has no type for it.
    """
    if key[0] == ARRAY:
        _, dtype, ndim, layout, readonly, aligned = key
        return types.Array(_element(dtype), ndim, layout, readonly=readonly, aligned=aligned)
    if key[0] == SCALAR:
        return _element(key[1])
    _, parts, named = key
    kinds = [numba_type(part) for part in parts]
    same = bool(kinds) and all(kind == kinds[0] for kind in kinds)
    if named is not None:
        if same:
            return types.NamedUniTuple(kinds[0], len(kinds), named)
        return types.NamedTuple(kinds, named)
    return types.UniTuple(kinds[0], len(kinds)) if same else types.Tuple(kinds)


def key_of(kind: Any) -> tuple[Any, ...]:
    """The key for a Numba type: what `numba_type` undoes.

    Raises:
        TypeError: arguments of that type cannot be passed to a kernel.
    """
    if isinstance(kind, types.Array):
        dtype = numpy_support.as_dtype(kind.dtype)
        return (ARRAY, dtype, kind.ndim, kind.layout, not kind.mutable, kind.aligned)
    if isinstance(kind, types.BaseTuple):
        named = getattr(kind, "instance_class", None)
        return (TUPLE, tuple(key_of(part) for part in kind), named)
    if isinstance(kind, (types.Number, types.Boolean)):
        return (SCALAR, numpy_support.as_dtype(kind))
    raise TypeError(f"a kernel cannot take an argument of type {kind}")


def _element(dtype: np.dtype[Any]) -> Any:
    try:
        return numpy_support.from_dtype(dtype)
    except (NotImplementedError, NumbaError) as error:
        raise TypeError(f"kernels have no type for NumPy's dtype {dtype}") from error
