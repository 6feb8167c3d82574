"""`print`: values and strings for the host's standard output."""

from typing import Any


def lower(tools: Any, context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """`print(*values)`: one line, the values separated by spaces, shown at the next synchronise.

    Takes any number of ints, members of an IntEnum, floats, complex numbers and bools, and strings
    that stand in the source.
    """
    items: list[Any] = []
    cells: list[Any] = []
    for place, (kind, value) in enumerate(zip(sig.args, args, strict=True), 1):
        if isinstance(kind, tools.types.StringLiteral):
            items.append(kind.literal_value)
            continue
        number = tools.types.unliteral(kind)
        if isinstance(number, tools.types.IntEnumMember):
            number = number.dtype
        if isinstance(number, tools.types.Complex):
            parts = context.make_complex(builder, number, value)
            part = number.underlying_float
            values = [(part, parts.real), (part, parts.imag)]
        elif isinstance(number, (tools.types.Integer, tools.types.Float, tools.types.Boolean)):
            values = [(number, value)]
        else:
            raise tools.TypingError(
                f"print, argument {place}: expected a number or a string that stands in the "
                f"source; got {kind}"
            )
        items.append(tools.dtype_of(number))
        cells += [_cell(tools, context, builder, *each) for each in values]
    place = context.haulage_prints.number(builder.module, tuple(items))
    context.haulage_target.message(builder, tools.ir.Constant(tools.I32, place), cells)
    return context.get_dummy_value()


def _cell(tools: Any, context: Any, builder: Any, kind: Any, value: Any) -> Any:
    if isinstance(kind, tools.types.Float):
        wide = context.cast(builder, value, kind, tools.types.float64)
        return builder.bitcast(wide, tools.I64)
    signed = isinstance(kind, tools.types.Integer) and kind.signed
    to = tools.types.int64 if signed else tools.types.uint64
    return context.cast(builder, value, kind, to)
