"""Haulage."""

from typing import Any

import haulage
from benchmarks.gpu import like_numba
from haulage import cuda


def about() -> str:
    """Its version, and the device."""
    device = cuda.get_current_device()
    return f"Haulage {haulage.__version__} on {device} ({device.name})"


def offers() -> dict[str, Any]:
    """See `measures`."""
    return like_numba.offers(cuda, "haulage")
