"""The arithmetic of shapes and strides, under numba's long name for it."""

from haulage.compat.layouts import fill_stride_by_order as _fill_stride_by_order
from haulage.compat.layouts import prepare_shape_strides_dtype

__all__ = ["_fill_stride_by_order", "prepare_shape_strides_dtype"]
