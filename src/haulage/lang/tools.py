"""What the descriptions of words need of Numba and llvmlite; imported with the first kernel."""

import math
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.compiler import Flags
from numba.core.errors import TypingError
from numba.core.typing import signature
from numba.np.arrayobj import make_array, populate_array

from haulage.lang.grid_group import GridGroupType
from haulage.lang.vector_type import VectorType
from haulage.lang.vectors import Vector
from haulage.targets.cpu_ir import ARRAY_NOTE

__all__ = [
    "GridGroupType",
    "TypingError",
    "VectorType",
    "cgutils",
    "ir",
    "math",
    "signature",
    "types",
]

I32, I64 = ir.IntType(32), ir.IntType(64)


def constant_dims(shape: Any, word: str) -> tuple[int, ...]:
    """The sizes of a shape that is a literal int or a tuple of them.

    Raises:
        TypingError: the shape is not constant.
    """
    sizes = shape.types if isinstance(shape, types.BaseTuple) else (shape,)
    if not all(isinstance(size, types.IntegerLiteral) for size in sizes):
        raise TypingError(
            f"{word}: the shape must be made of constants; got {shape}; work sizes out outside the "
            "kernel and use them by name"
        )
    return tuple(int(size.literal_value) for size in sizes)


def element_type(dtype: Any, word: str) -> Any:
    """The Numba type that a dtype argument of a word names: a type, a NumPy dtype or a string."""
    if isinstance(dtype, (types.DTypeSpec, types.NumberClass)):
        return dtype.dtype
    if isinstance(dtype, types.TypeRef):
        return dtype.instance_type
    if isinstance(dtype, types.StringLiteral):
        return named_type(dtype.literal_value, word)
    if isinstance(dtype, types.Function) and isinstance(dtype.typing_key, Vector):
        vector = dtype.typing_key
        return VectorType(getattr(types, vector.element), vector.count)
    raise TypingError(f"{word}: expected a dtype such as np.float32; got {dtype}")


def named_type(name: str, word: str) -> Any:
    """The Numba type of a dtype's name, NumPy's (`f4`) or Numba's (`float32`)."""
    import numpy as np
    from numba.np import numpy_support

    try:
        return numpy_support.from_dtype(np.dtype(name))
    except (TypeError, NotImplementedError) as error:
        raise TypingError(
            f"{word}: Invalid NumPy dtype specified: {name!r} names no dtype"
        ) from error


def dtype_of(kind: Any) -> Any:
    """The NumPy dtype of a Numba type."""
    from numba.np import numpy_support

    return numpy_support.as_dtype(kind)


def check_alignment(alignment: Any, word: str) -> int | None:
    """The value of an `alignment=` argument: None or a positive power of two."""
    if alignment is None or isinstance(alignment, (types.NoneType, types.Omitted)):
        return None
    if not isinstance(alignment, types.IntegerLiteral):
        raise TypingError(f"{word}: alignment must be a constant int; got {alignment}")
    value = int(alignment.literal_value)
    if value <= 0 or value & (value - 1):
        raise TypingError(f"{word}: alignment must be a positive power of two; got {value}")
    return value


def array_over(
    context: Any, builder: Any, array_type: Any, data: Any, shape: list[Any], itemsize: int
) -> Any:
    """A C-contiguous array value over memory at `data`; `shape` holds 64-bit values."""
    strides: list[Any] = []
    step = ir.Constant(I64, itemsize)
    for size in reversed(shape):
        strides.insert(0, step)
        step = builder.mul(step, size, flags=["nsw"])
    array = make_array(array_type)(context, builder)
    pointer = builder.bitcast(data, array.data.type)
    populate_array(
        array,
        data=pointer,
        shape=shape,
        strides=strides,
        itemsize=ir.Constant(I64, itemsize),
        meminfo=None,
    )
    return array._getvalue()


def note_array(context: Any, builder: Any, data: Any, shape: list[Any], itemsize: int) -> None:
    """Where code is made that is checked: say that an array of the kernel's own begins here."""
    name = getattr(builder, "array_made", 0)
    if not name:
        return
    pointer = ir.PointerType()
    kind = ir.FunctionType(ir.VoidType(), [pointer, I64, I64, *(I64 for _ in shape)])
    note = cgutils.get_or_insert_function(builder.module, kind, f"{ARRAY_NOTE}{len(shape)}")
    note.attributes.add("nounwind")
    builder.call(note, [builder.bitcast(data, pointer), I64(name), I64(itemsize), *shape])


def item_size(context: Any, element: Any) -> int:
    """Bytes that one element of an array takes."""
    return int(context.get_abi_sizeof(context.get_data_type(element)))


def source_place(builder: Any) -> tuple[str, int]:
    """(file, line) of the statement that is being lowered; the front end notes it."""
    return getattr(builder, "source_place", ("<unknown>", 0))


def check_place(word: str, array: Any, index: Any) -> None:
    """Refuse an (array, index) pair that does not name one element of an array.

    Floats count as indices: to Numba an int64 and a uint64 make a float64.

    Raises:
        TypingError: no array, or not one real number for each of its dimensions.
    """
    if not isinstance(array, types.Array):
        raise TypingError(f"{word}: expected an array; got {array}")
    kinds = list(index) if isinstance(index, types.BaseTuple) else [index]
    if not all(isinstance(kind, (types.Integer, types.Float)) for kind in kinds):
        raise TypingError(f"{word}: expected int indices; got {index}")
    if len(kinds) != array.ndim:
        raise TypingError(f"{word}: {len(kinds)} indices for an array of {array.ndim} dimensions")


def check_index(
    context: Any,
    builder: Any,
    index: Any,
    size: Any,
    axis: int,
    array: str,
    *,
    wraps: bool = True,
) -> None:
    """Let the thread raise an IndexError if `index` is none of an axis with `size` places; both are
    64 bits wide. Negative ones count from the end if it `wraps`, else they are far too large.
    `array` says which array it is, in Python's words."""
    place = index
    if wraps:
        is_negative = builder.icmp_signed("<", index, I64(0))
        place = builder.select(is_negative, builder.add(index, size), index)
    with cgutils.if_unlikely(builder, builder.icmp_unsigned(">=", place, size)):
        named = f"array {array!r}" if array else "an array"
        number = context.haulage_faults.error(
            builder.module,
            IndexError,
            "",
            source_place(builder),
            f": index {{}} is out of bounds for axis {axis} of {named} with size {{}}",
            getattr(builder, "source_function", ""),
            array,
        )
        context.call_conv.stop_thread(builder, number, [index, size])


def element_pointer(
    context: Any, builder: Any, array_type: Any, array: Any, index_type: Any, index: Any
) -> Any:
    """The address of `array[index]`, an int or a tuple; negative ones count from the end.

    Floats lose their fraction.
    """
    if isinstance(index_type, types.BaseTuple):
        indices = cgutils.unpack_tuple(builder, index, len(index_type))
        index_types = list(index_type)
    else:
        indices, index_types = [index], [index_type]
    wide = [
        context.cast(builder, each, kind, types.intp)
        for each, kind in zip(indices, index_types, strict=True)
    ]
    if context.checks_indices:
        sizes = cgutils.unpack_tuple(builder, array.shape, array_type.ndim)
        name = getattr(builder, "source_array", "")
        for axis, (each, kind, size) in enumerate(zip(wide, index_types, sizes, strict=True)):
            wraps = getattr(kind, "signed", True)
            check_index(context, builder, each, size, axis, name, wraps=wraps)
    # Unsigned and compile-time indices need no wraparound, but folding it is LLVM's work.
    return cgutils.get_item_pointer(context, builder, array_type, array, wide, wraparound=True)


def define(context: Any, builder: Any, function: Any, sig: Any, args: list[Any]) -> Any:
    """The value of a call of a function written in the kernel language, compiled for `sig`.

    Whatever the kernel's options, it is compiled without fastmath and with NumPy's float errors.
    """
    flags = Flags()
    flags.error_model = "numpy"
    # Flags that are not set are those of the context.
    plain = context.subtarget(fastmath=False)
    compiled = plain.compile_subroutine(builder, function, sig, flags=flags)
    return context.call_internal(builder, compiled.fndesc, sig, args)


def library_call(builder: Any, name: str, kind: Any, values: list[Any]) -> Any:
    """The value, of an LLVM type, of a call of a C function without side effects."""
    function_type = ir.FunctionType(kind, [value.type for value in values])
    function = cgutils.get_or_insert_function(builder.module, function_type, name)
    function.attributes.add("nounwind")
    return builder.call(function, values)
