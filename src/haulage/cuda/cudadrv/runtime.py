"""The version of CUDA's runtime, under numba's long name for its module."""

from haulage.api import runtime

__all__ = ["get_version", "runtime"]

get_version = runtime.get_version
