"""Arrays of a kernel's own whose sizes are known at run time only, and what to do without room."""

from typing import Any

# What the faults say, and their figures.
SHARED = "shared.array: the launch's dynamic shared memory has no room for it"
SHARED_FIGURES = ": it asks for {} bytes, and {} of {} are left"
LOCAL = "local.array: a size is negative, or there are more elements than its bound"
LOCAL_FIGURES = ": it asks for {} elements"


def run_time_shape(tools: Any, shape: Any, word: str) -> tuple[Any, ...] | None:
    """The types of a shape's sizes if one of them is an int that is not constant, else None."""
    types = tools.types
    sizes = tuple(shape.types) if isinstance(shape, types.BaseTuple) else (shape,)
    whole = all(isinstance(size, types.Integer) for size in sizes)
    if not whole or not sizes or all(isinstance(size, types.IntegerLiteral) for size in sizes):
        return None
    return sizes


def sizes_of(tools: Any, context: Any, builder: Any, shape: Any, value: Any) -> list[Any]:
    """The sizes of a shape's value, each 64 bits wide."""
    types = tools.types
    if not isinstance(shape, types.BaseTuple):
        return [context.cast(builder, value, shape, types.int64)]
    values = tools.cgutils.unpack_tuple(builder, value, len(shape))
    return [
        context.cast(builder, each, kind, types.int64)
        for each, kind in zip(values, shape.types, strict=True)
    ]


def product(tools: Any, builder: Any, sizes: list[Any], last: int) -> tuple[Any, Any]:
    """(the product of the sizes and `last`, 64 bits wide; whether it is none, as a size is negative
    or there are too many of them for 64 bits, a bit)."""
    i64, wrong = tools.I64, tools.ir.Constant(tools.ir.IntType(1), 0)
    whole = i64(last)
    for size in sizes:
        wrong = builder.or_(wrong, builder.icmp_signed("<", size, i64(0)))
        both = builder.smul_with_overflow(whole, size)
        whole = builder.extract_value(both, 0)
        wrong = builder.or_(wrong, builder.extract_value(both, 1))
    return whole, wrong


def stop_if(
    tools: Any,
    context: Any,
    builder: Any,
    wrong: Any,
    message: str,
    figures: str,
    values: list[Any],
) -> None:
    """Let the thread raise a MemoryError with `message` if the bit `wrong` is set; it also tells
    `values`, 64 bits wide, for which `figures` has a `{}` each."""
    faults = context.haulage_faults
    with tools.cgutils.if_unlikely(builder, wrong):
        place = tools.source_place(builder)
        number = faults.error(builder.module, MemoryError, message, place, figures)
        context.call_conv.stop_thread(builder, number, values)
