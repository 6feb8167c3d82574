"""The prototypes of libdevice's functions as Numba's types, under numba's long name for them."""

from haulage.lang.libdevice.prototypes import arg, create_signature, functions

__all__ = ["arg", "create_signature", "functions"]
