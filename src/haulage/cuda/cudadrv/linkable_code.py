"""Code of others that kernels are linked with, under numba-cuda's long name for its module."""

from haulage.compat.absent import absent
from haulage.kernel.linkable import (
    LTOIR,
    Archive,
    Cubin,
    CUSource,
    Fatbin,
    LinkableCode,
    Object,
    PTXSource,
)

__all__ = [
    "Archive",
    "CUSource",
    "Cubin",
    "Fatbin",
    "LTOIR",
    "LinkableCode",
    "Object",
    "PTXSource",
]

__getattr__ = absent(__name__, "it is an inner part of numba-cuda's way to link code")
