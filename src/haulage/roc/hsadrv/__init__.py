"""Where programs for numba.roc look for its classes by their long names."""

from haulage.roc.hsadrv import devicearray, devices, driver, error

__all__ = ["devicearray", "devices", "driver", "error"]
