"""Where programs for numba.roc look for its classes by their long names."""

from haulage.roc.hsadrv import devicearray, driver, error

__all__ = ["devicearray", "driver", "error"]
