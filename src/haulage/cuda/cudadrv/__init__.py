"""Where programs for numba.cuda look for its private side; each module is imported when named."""

from haulage.compat.submodules import submodules_of as _submodules_of

__all__ = ["devicearray", "devices", "driver", "error", "runtime"]

__getattr__, __dir__ = _submodules_of(
    __name__, why="it is a part of NVIDIA's driver that Haulage has no use of"
)
