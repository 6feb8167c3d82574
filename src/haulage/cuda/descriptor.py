"""`cuda_target`: what kernels of the current device are typed and lowered with."""

from haulage.compat.target import current_target

__getattr__ = current_target
