"""Signatures that users write, as keys of arguments; plain ones are read without Numba."""

import re
from typing import Any

import numpy as np

from haulage.runtime.launching.arguments import ARRAY, SCALAR, Key

# Numba's names of types that are NumPy's dtypes.
_DTYPES: dict[str, np.dtype[Any]] = {
    **{
        f"{kind}{bits}": np.dtype(f"{kind}{bits}")
        for kind in ("int", "uint")
        for bits in (8, 16, 32, 64)
    },
    **{name: np.dtype(name) for name in ("float32", "float64", "complex64", "complex128")},
    **{f"{kind}{size}": np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)},
    **{name: np.dtype(name) for name in ("f4", "f8", "c8", "c16", "intp", "uintp")},
    **{name: np.dtype(np.bool_) for name in ("boolean", "b1")},
}
_WHOLE = re.compile(r"\s*(?:void|none)\s*\((.*)\)\s*")
_ARGUMENT = re.compile(r"\s*(\w+)\s*(?:\[([\s:,1]*)\])?\s*(?:,|$)")


def keys_of(signature: Any, maker: str = "CUDA") -> tuple[Key, ...]:
    """The keys of the arguments of a signature.

    Takes what `compiler.frontend.parse_signature` does; `maker` is whose the kernel is, for errors.

    Raises:
        TypeError: something in it names no type, or a type that no kernel takes.
    """
    plain = _plain_keys(signature) if isinstance(signature, str) else None
    if plain is not None:
        return plain
    from haulage import numba_bridge
    from haulage.compiler.frontend import parse_signature

    return tuple(numba_bridge.key_of(kind) for kind in parse_signature(signature, maker))


def _plain_keys(text: str) -> tuple[Key, ...] | None:
    """The keys of a signature of dtypes and arrays of them; None for any other."""
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        return None
    keys: list[Key] = []
    listed = whole[1]
    at = 0
    while at < len(listed.rstrip()):
        argument = _ARGUMENT.match(listed, at)
        key = _key(argument[1], argument[2]) if argument is not None else None
        if argument is None or key is None:
            return None
        keys.append(key)
        at = argument.end()
    return tuple(keys)


def _key(name: str, axes: str | None) -> Key | None:
    dtype = _DTYPES.get(name)
    if dtype is None:
        return None
    if axes is None:
        return (SCALAR, dtype)
    steps = ["".join(axis.split()) for axis in axes.split(",")]
    dense = [number for number, step in enumerate(steps) if step == "::1"]
    if any(step not in (":", "::1") for step in steps) or len(dense) > 1:
        return None
    if dense and dense[0] not in (0, len(steps) - 1):
        return None
    layout = "A" if not dense else "C" if dense[0] == len(steps) - 1 else "F"
    return (ARRAY, dtype, len(steps), layout, False, True)
