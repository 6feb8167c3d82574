"""`cuda_target`: what kernels of the current device are typed and lowered with."""

from haulage.compat.target import current_descriptor

__getattr__ = current_descriptor
