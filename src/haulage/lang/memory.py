"""Memory that a kernel makes for itself: shared by a block, or a thread's own."""

from typing import Any

from haulage.lang.run_time_shapes import (
    LOCAL,
    LOCAL_FIGURES,
    SHARED,
    SHARED_FIGURES,
    product,
    run_time_shape,
    sizes_of,
    stop_if,
)
from haulage.lang.word import Namespace, word
from haulage.targets.base import DYNAMIC_SHARED_ALIGN

# The place of an array's address in Numba's structure.
_DATA = 4

# More than any device has; LLVM counts with 32 or 64 bits. Each target has its own limit.
_MOST_SHARED = 1 << 30

# Enough for each type of element.
_DEFAULT_ALIGN = 16

# Set on the `llvmlite.ir` module of code that names its launch's dynamic shared memory.
# A dictionary: which form it has -> (file, line).
DYNAMIC_SHARED = "haulage_dynamic_shared"
# Another such attribute: (file, line, bytes) of each local array.
LOCAL_ARRAYS = "haulage_local_arrays"
WHOLE, PARTS = "shared.array(0, ...)", "shared.array with sizes known at run time"


@word("shared.array")
def shared_array(tools: Any, shape: Any, dtype: Any, alignment: Any = None) -> Any:
    """`shared.array(shape, dtype, alignment=None)`: an array that the threads of a block share.

    `shape` is an int or a tuple of ints. Constant sizes make room of the kernel's own. Others take
    it from the launch's dynamic shared memory, where each array has room behind the ones before; a
    MemoryError stops the threads if there is none. The constant 0 means all of that memory, from
    its start, as many elements as fit it; a kernel has arrays of one of these two kinds only.

    The memory is not initialised. It starts at a multiple of `alignment` bytes, a power of two.
    """
    element = tools.element_type(dtype, "shared.array")
    align = tools.check_alignment(alignment, "shared.array")
    if run_time_shape(tools, shape, "shared.array"):
        return _run_time_shared(tools, shape, dtype, alignment, element, align)
    dims = tools.constant_dims(shape, "shared.array")
    array_type = tools.types.Array(element, len(dims), "C")
    if dims == (0,):
        _check_dynamic_alignment(tools, align)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        # Raised while typing, it would make Numba try the same sizes as if they were not constant.
        if dims != (0,) and min(dims, default=1) <= 0:
            raise tools.TypingError(
                f"shared.array: shape: expected positive sizes, or 0 alone; got {dims}"
            )
        target = context.haulage_target
        size = tools.item_size(context, element)
        nbytes = tools.math.prod(dims) * size
        if nbytes > _MOST_SHARED:
            raise tools.TypingError(
                f"shared.array: {dims} of {element} are {nbytes} bytes; no device has so much for "
                "a block"
            )
        if dims == (0,):
            _note_dynamic(tools, builder, WHOLE)
            data, nbytes = target.dynamic_shared(builder)
            sizes = [builder.udiv(nbytes, tools.ir.Constant(tools.I64, size))]
        else:
            data = target.shared_array(builder, nbytes, max(align or 0, _DEFAULT_ALIGN))
            sizes = [tools.ir.Constant(tools.I64, dim) for dim in dims]
        tools.note_array(context, builder, data, sizes, size)
        return tools.array_over(context, builder, array_type, data, sizes, size)

    return _array_signature(tools, array_type, shape, dtype, alignment), generate


def _check_dynamic_alignment(tools: Any, align: int | None) -> None:
    if (align or 0) > DYNAMIC_SHARED_ALIGN:
        raise tools.TypingError(
            f"shared.array: alignment: dynamic shared memory starts at a multiple of "
            f"{DYNAMIC_SHARED_ALIGN} bytes; got {align}"
        )


def _note_dynamic(tools: Any, builder: Any, form: str) -> None:
    noted = getattr(builder.module, DYNAMIC_SHARED, {})
    setattr(builder.module, DYNAMIC_SHARED, {form: tools.source_place(builder), **noted})


def _run_time_shared(
    tools: Any, shape: Any, dtype: Any, alignment: Any, element: Any, align: int | None
) -> Any:
    _check_dynamic_alignment(tools, align)
    ndim = len(shape) if isinstance(shape, tools.types.BaseTuple) else 1
    array_type = tools.types.Array(element, ndim, "C")

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        _note_dynamic(tools, builder, PARTS)
        target = context.haulage_target
        itemsize = tools.item_size(context, element)
        sizes = sizes_of(tools, context, builder, sig.args[0], args[0])
        nbytes, wrong = product(tools, builder, sizes, itemsize)
        base, given = target.dynamic_shared(builder)
        offset = target.dynamic_shared_room(builder, nbytes, max(align or 0, _DEFAULT_ALIGN))
        # One after the other, as the sum of both may be too large for 64 bits.
        beyond = builder.icmp_unsigned(">", offset, given)
        left = builder.sub(given, offset)
        too_much = builder.icmp_unsigned(">", nbytes, left)
        wrong = builder.or_(wrong, builder.or_(beyond, too_much))
        zero = tools.I64(0)
        figures = [nbytes, builder.select(beyond, zero, left), given]
        stop_if(tools, context, builder, wrong, SHARED, SHARED_FIGURES, figures)
        data = builder.gep(base, [offset])
        tools.note_array(context, builder, data, sizes, itemsize)
        return tools.array_over(context, builder, array_type, data, sizes, itemsize)

    return _array_signature(tools, array_type, shape, dtype, alignment), generate


@word("local.array")
def local_array(
    tools: Any, shape: Any, dtype: Any, alignment: Any = None, bound: Any = None
) -> Any:
    """`local.array(shape, dtype, alignment=None, bound=None)`: an array of the thread's own.

    `shape` is an int or a tuple of ints. If they are not constant, `bound` is, and says how many
    elements there are at most; a MemoryError stops a thread that wants more. The memory is not
    initialised. It starts at a multiple of `alignment` bytes, a power of two.
    """
    element = tools.element_type(dtype, "local.array")
    align = tools.check_alignment(alignment, "local.array")
    if not (bound is None or isinstance(bound, (tools.types.NoneType, tools.types.Omitted))):
        return _run_time_local(tools, shape, dtype, alignment, bound, element, align)
    if run_time_shape(tools, shape, "local.array"):
        raise tools.TypingError(
            f"local.array: the shape must be made of constants; got {shape}; or give bound=, the "
            "most elements that there can be"
        )
    dims = tools.constant_dims(shape, "local.array")
    array_type = tools.types.Array(element, len(dims), "C")
    if min(dims, default=1) <= 0:
        raise tools.TypingError(f"local.array: sizes must be positive; got {dims}")

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        size = tools.item_size(context, element)
        data = _local_room(tools, context, builder, tools.math.prod(dims) * size, align)
        sizes = [tools.ir.Constant(tools.I64, dim) for dim in dims]
        tools.note_array(context, builder, data, sizes, size)
        return tools.array_over(context, builder, array_type, data, sizes, size)

    return _array_signature(tools, array_type, shape, dtype, alignment), generate


def _local_room(tools: Any, context: Any, builder: Any, nbytes: int, align: int | None) -> Any:
    noted = getattr(builder.module, LOCAL_ARRAYS, ())
    setattr(builder.module, LOCAL_ARRAYS, (*noted, (*tools.source_place(builder), nbytes)))
    return context.haulage_target.local_array(builder, nbytes, max(align or 0, _DEFAULT_ALIGN))


def _run_time_local(
    tools: Any,
    shape: Any,
    dtype: Any,
    alignment: Any,
    bound: Any,
    element: Any,
    align: int | None,
) -> Any:
    types = tools.types
    most = int(bound.literal_value) if isinstance(bound, types.IntegerLiteral) else 0
    if most < 1:
        raise tools.TypingError(
            f"local.array: bound: expected a constant int, 1 or more; got {bound}"
        )
    sizes = tuple(shape.types) if isinstance(shape, types.BaseTuple) else (shape,)
    if not sizes or not all(isinstance(size, types.Integer) for size in sizes):
        raise tools.TypingError(f"local.array: shape: expected ints; got {shape}")
    array_type = types.Array(element, len(sizes), "C")

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        itemsize = tools.item_size(context, element)
        sizes = sizes_of(tools, context, builder, sig.args[0], args[0])
        count, wrong = product(tools, builder, sizes, 1)
        wrong = builder.or_(wrong, builder.icmp_signed(">", count, tools.I64(most)))
        message = f"{LOCAL} ({most})"
        stop_if(tools, context, builder, wrong, message, LOCAL_FIGURES, [count])
        data = _local_room(tools, context, builder, most * itemsize, align)
        tools.note_array(context, builder, data, sizes, itemsize)
        return tools.array_over(context, builder, array_type, data, sizes, itemsize)

    aligned = types.none if alignment is None else alignment
    return tools.signature(array_type, shape, dtype, aligned, bound), generate


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
        data = builder.extract_value(args[0], _DATA)
        place = context.haulage_target.constant_array(builder, data)
        if place is data:
            return args[0]
        return builder.insert_value(args[0], builder.bitcast(place, data.type), _DATA)

    return ndarray(ndarray), generate


shared = Namespace("shared", array=shared_array)
local = Namespace("local", array=local_array)
const = Namespace("const", array_like=const_array_like)
