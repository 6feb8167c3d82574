"""Memory that a kernel makes for itself: shared by a block, or a thread's own."""

from typing import Any

from haulage.lang.word import Namespace, word
from haulage.targets.base import DYNAMIC_SHARED_ALIGN

# Enough for each type of element.
_DEFAULT_ALIGN = 16

# Set on the `llvmlite.ir` module of code that names its launch's dynamic shared memory.
DYNAMIC_SHARED = "haulage_dynamic_shared"


@word("shared.array")
def shared_array(tools: Any, shape: Any, dtype: Any, alignment: Any = None) -> Any:
    """`shared.array(shape, dtype, alignment=None)`: an array that the threads of a block share.

    `shape` is a constant int or tuple of ints; 0 means the launch's dynamic shared memory, from
    its start, as many elements as fit it. The memory is not initialised. It starts at a multiple of
    `alignment` bytes, a power of two.
    """
    dims = tools.constant_dims(shape, "shared.array")
    element = tools.element_type(dtype, "shared.array")
    align = tools.check_alignment(alignment, "shared.array")
    array_type = tools.types.Array(element, len(dims), "C")
    if 0 in dims and len(dims) > 1:
        raise tools.TypingError("shared.array: dynamic shared memory (size 0) has one dimension")
    if dims == (0,) and (align or 0) > DYNAMIC_SHARED_ALIGN:
        raise tools.TypingError(
            f"shared.array: alignment: dynamic shared memory (size 0) starts at a multiple of "
            f"{DYNAMIC_SHARED_ALIGN} bytes; got {align}"
        )

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        target = context.haulage_target
        size = tools.item_size(context, element)
        if dims == (0,):
            setattr(builder.module, DYNAMIC_SHARED, True)
            data, nbytes = target.dynamic_shared(builder)
            sizes = [builder.udiv(nbytes, tools.ir.Constant(tools.I64, size))]
        else:
            data = target.shared_array(
                builder, tools.math.prod(dims) * size, max(align or 0, _DEFAULT_ALIGN)
            )
            sizes = [tools.ir.Constant(tools.I64, dim) for dim in dims]
        return tools.array_over(context, builder, array_type, data, sizes, size)

    return _array_signature(tools, array_type, shape, dtype, alignment), generate


@word("local.array")
def local_array(tools: Any, shape: Any, dtype: Any, alignment: Any = None) -> Any:
    """`local.array(shape, dtype, alignment=None)`: an array of the thread's own, not initialised.

    `shape` is a constant int or tuple of ints. The memory starts at a multiple of `alignment`
    bytes, a power of two.
    """
    dims = tools.constant_dims(shape, "local.array")
    element = tools.element_type(dtype, "local.array")
    align = tools.check_alignment(alignment, "local.array")
    array_type = tools.types.Array(element, len(dims), "C")
    if 0 in dims:
        raise tools.TypingError(f"local.array: sizes must be positive; got {dims}")

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        size = tools.item_size(context, element)
        data = context.haulage_target.local_array(
            builder, tools.math.prod(dims) * size, max(align or 0, _DEFAULT_ALIGN)
        )
        sizes = [tools.ir.Constant(tools.I64, dim) for dim in dims]
        return tools.array_over(context, builder, array_type, data, sizes, size)

    return _array_signature(tools, array_type, shape, dtype, alignment), generate


def _array_signature(tools: Any, array_type: Any, shape: Any, dtype: Any, alignment: Any) -> Any:
    if alignment is None:
        return tools.signature(array_type, shape, dtype)
    return tools.signature(array_type, shape, dtype, alignment)


@word("const.array_like")
def const_array_like(tools: Any, ndarray: Any) -> Any:
    """`const.array_like(ndarray)`: a NumPy array of the program as read-only memory of the kernel.

    It has the shape, dtype and elements that the array had when the kernel was compiled.
    """
    if not isinstance(ndarray, tools.types.Array):
        raise tools.TypingError(f"const.array_like(ndarray): expected an array; got {ndarray}")

    # Numba has made a constant of the array already, as of each that a kernel names.
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return args[0]

    return ndarray(ndarray), generate


shared = Namespace("shared", array=shared_array)
local = Namespace("local", array=local_array)
const = Namespace("const", array_like=const_array_like)
