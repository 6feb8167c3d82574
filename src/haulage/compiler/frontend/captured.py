"""Globals and closure variables that Numba has no type for: what they are to a kernel."""

from typing import Any

import numpy as np

_HEAP = (list, dict, set, bytearray)


def refusal(value: Any) -> str | None:
    """Why a kernel cannot use `value`, or None if it may."""
    if hasattr(type(value), "device_pointer") and not isinstance(value, np.ndarray):
        return (
            "an array or record of the device cannot be captured, as its memory can move and be "
            "given back; give it to the kernel as an argument"
        )
    if isinstance(value, _HEAP):
        return f"a kernel cannot use a {type(value).__name__}; capture a tuple or a NumPy array"
    if isinstance(value, type) and value in _HEAP:
        return (
            f"a kernel cannot make a {value.__name__}, as it has no heap; use a tuple, or an array "
            "made by cuda.local.array"
        )
    return None


def is_namespace(value: Any) -> bool:
    """Whether a kernel may read the attributes of `value`, as constants."""
    return isinstance(value, type)
