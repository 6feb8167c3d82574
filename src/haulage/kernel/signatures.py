"""Signatures that users write, as keys of arguments, and which of them arguments go to.

Plain ones are read without Numba.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from haulage.runtime.arrays.keys import (
    ARRAY,
    DTYPE,
    ENUM,
    NONE,
    POINTER,
    RECORD,
    SCALAR,
    TUPLE,
    Key,
)

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


# ---- which signature arguments go to -----------------------------------------------------------

Keys = tuple[Key, ...]

# How a value becomes one of a declared type: not at all, to a wider number of its kind, without
# loss, with a loss.
_EXACT, _WIDER, _SAFE, _UNSAFE = range(4)


def best(declared: Sequence[Keys], given: Keys, *, unsafe: bool) -> list[Keys]:
    """The signatures in `declared` with the fewest bad conversions of arguments with keys `given`.

    Unsafe ones count first, then safe ones, then those to wider numbers. None is chosen if no
    signature fits, and several if the choice is ambiguous. `unsafe` tells whether a conversion may
    lose something, as from int64 to int32.
    """
    costs = [(cost, keys) for keys in declared if (cost := _cost(keys, given)) is not None]
    if not unsafe:
        costs = [(cost, keys) for cost, keys in costs if not cost[0]]
    least = min((cost for cost, _ in costs), default=None)
    return [keys for cost, keys in costs if cost == least]


def _cost(declared: Keys, given: Keys) -> tuple[int, int, int] | None:
    if len(declared) != len(given) or not all(map(accepts, declared, given)):
        return None
    ranks = list(map(_conversion, declared, given))
    return ranks.count(_UNSAFE), ranks.count(_SAFE), ranks.count(_WIDER)


def _conversion(declared: Key, given: Key) -> int:
    if declared == given:
        return _EXACT
    if declared[0] == TUPLE:
        return max(map(_conversion, declared[1], given[1]))
    if declared[0] != SCALAR or given[0] != SCALAR:
        return _SAFE
    to, of = declared[1], given[1]
    if not np.can_cast(of, to, "safe"):
        return _UNSAFE
    return _WIDER if to.kind == of.kind else _SAFE


def accepts(declared: Key, given: Key) -> bool:
    """Whether a kernel compiled for `declared` can take an argument whose key is `given`.

    Numbers are converted as in an assignment of the declared type; a pointer is an int; arrays and
    records must match in dtype, arrays also in dimensions and layout ('A' takes any).
    """
    if declared[0] == SCALAR and given[0] == ENUM and issubclass(given[1], int):
        given = given[2]
    if declared[0] == POINTER:
        # An address is an int; nothing tells what is there.
        return given == (SCALAR, np.dtype(np.int64)) or given == (SCALAR, np.dtype(np.uint64))
    if declared[0] != given[0]:
        return False
    if declared[0] in (ENUM, NONE, DTYPE):
        return declared == given
    if declared[0] == SCALAR:
        order = "biufc"
        kinds = (declared[1].kind, given[1].kind)
        if kinds[0] not in order or kinds[1] not in order:
            return bool(declared[1] == given[1])
        # A fractional number for an integer, or a complex one for a real, would lose its part.
        return _rank(kinds[0]) >= _rank(kinds[1])
    if declared[0] == TUPLE:
        same_length = len(declared[1]) == len(given[1])
        return same_length and all(map(accepts, declared[1], given[1]))
    if declared[0] == RECORD:
        _, dtype, readonly, aligned = declared
        return bool(dtype == given[1] and (readonly or not given[2]) and (given[3] or not aligned))
    _, dtype, ndim, layout, readonly, aligned = declared
    return bool(
        dtype == given[1]
        and ndim == given[2]
        and (layout in ("A", given[3]) or ndim == 0)
        and (readonly or not given[4])
        and (given[5] or not aligned)
    )


def _rank(kind: str) -> int:
    return {"b": 0, "i": 0, "u": 0, "f": 1, "c": 2}[kind]
