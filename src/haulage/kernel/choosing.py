"""Which of a kernel's signatures arguments go to, by how they have to be converted for it."""

from collections.abc import Sequence

import numpy as np

from haulage.runtime.launching.arguments import SCALAR, TUPLE, Key, accepts

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
