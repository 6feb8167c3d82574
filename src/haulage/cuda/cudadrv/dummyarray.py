"""Shapes and strides without memory, under numba's long name for their module."""

from haulage.compat.dummy_array import Array, Dim, Element, Extent

__all__ = ["Array", "Dim", "Element", "Extent"]
