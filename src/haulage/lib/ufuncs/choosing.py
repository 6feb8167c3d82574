"""Which signature of a ufunc operands go to."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from haulage.lib.ufuncs.operands import (
    NUMPY_SCALAR,
    ON_HOST,
    PYTHON_NUMBER,
    Given,
)

Dtype = np.dtype[Any]
_RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


class Signature(NamedTuple):
    """One signature: dtypes of the inputs and of the outputs, and what else its maker knows."""

    inputs: tuple[Dtype, ...]
    outputs: tuple[Dtype, ...]
    detail: Any

    def __str__(self) -> str:
        letters = "".join(dtype.char for dtype in self.inputs)
        return f"{letters}->{''.join(dtype.char for dtype in self.outputs)}"


def choose(
    signatures: Sequence[Signature], operands: Sequence[Given], *, narrow: bool
) -> Signature | None:
    """The signature for `operands`; None if there is none.

    Exact dtypes come first. Then, as NumPy's ufuncs do, the first signature that all operands can
    be cast to safely; a Python number is one of whatever dtype has its kind or a wider one. Then
    scalars give way to the arrays' dtypes, as in Numba, and with `narrow` also host arrays, within
    their kind.
    """
    only_python = all(each.kind == PYTHON_NUMBER for each in operands)
    rules: list[Callable[[Given, Dtype], bool]] = [_exact]
    rules += [_safe_as_default if only_python else _exact_arrays, _safe]
    rules.append(_scalars_give_way)
    if narrow:
        rules.append(_host_arrays_give_way)
    for rule in rules:
        for signature in signatures:
            if all(map(rule, operands, signature.inputs)):
                return signature
    return None


def _exact(given: Given, dtype: Dtype) -> bool:
    return given.dtype == dtype


def _exact_arrays(given: Given, dtype: Dtype) -> bool:
    return _safe(given, dtype) if given.kind == PYTHON_NUMBER else given.dtype == dtype


def _safe_as_default(given: Given, dtype: Dtype) -> bool:
    # NumPy casts between units of time; kernels do not.
    return given.dtype == dtype if dtype.kind in "mM" else np.can_cast(given.dtype, dtype, "safe")


def _safe(given: Given, dtype: Dtype) -> bool:
    return _of_kind(given, dtype) if given.kind == PYTHON_NUMBER else _safe_as_default(given, dtype)


def _scalars_give_way(given: Given, dtype: Dtype) -> bool:
    return _of_kind(given, dtype) if given.kind == NUMPY_SCALAR else _safe(given, dtype)


def _host_arrays_give_way(given: Given, dtype: Dtype) -> bool:
    if given.kind == ON_HOST:
        return np.can_cast(given.dtype, dtype, "same_kind")
    return _scalars_give_way(given, dtype)


def _of_kind(given: Given, dtype: Dtype) -> bool:
    if given.dtype.kind not in _RANK or dtype.kind not in _RANK:
        return given.dtype == dtype
    return _RANK[given.dtype.kind] <= _RANK[dtype.kind]
