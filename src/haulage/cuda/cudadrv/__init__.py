"""Where programs for numba.cuda look for its classes by their long names."""

from haulage.cuda.cudadrv import devicearray, devices, driver, error, runtime

__all__ = ["devicearray", "devices", "driver", "error", "runtime"]
