"""The search for NVIDIA's libraries, of which Haulage needs none."""

from haulage.compat.absent import absent
from haulage.compat.nvidia import test_libraries as test

__all__ = ["test"]

__getattr__ = absent(
    __name__,
    "it looks for NVIDIA's libraries; `haulage info --verbose` shows what devices were looked for",
)
