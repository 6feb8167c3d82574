"""Which way arguments of kernels are copied, under numba's long name for it."""

from haulage.api import ArgHint, In, InOut, Out, wrap_arg

__all__ = ["ArgHint", "In", "InOut", "Out", "wrap_arg"]
