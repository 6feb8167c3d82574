"""`print`: values and strings for the host's standard output."""

from typing import Any


def lower(tools: Any, context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """`print(*values)`: one line, the values separated by spaces, shown at the next synchronise.

    Takes any number of ints, members of an IntEnum, floats, complex numbers, bools and None, tuples
    of these, and strings that stand in the source.
    """
    items: list[Any] = []
    cells: list[Any] = []

    def add(kind: Any, value: Any, place: int) -> None:
        """Append what stands for one value, of argument number `place`."""
        if isinstance(kind, tools.types.StringLiteral):
            items.append(kind.literal_value)
            return
        if isinstance(kind, tools.types.NoneType):
            items.append("None")
            return
        if isinstance(kind, tools.types.BaseTuple):
            names = getattr(kind, "fields", ())
            items.append(f"{kind.instance_class.__name__}(" if names else "(")
            for at, part in enumerate(kind):
                items.append((", " if at else "") + (f"{names[at]}=" if names else ""))
                add(part, builder.extract_value(value, at), place)
            items.append(",)" if len(kind) == 1 and not names else ")")
            return
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
                f"print, argument {place}: expected a number, a tuple of numbers, or a string that "
                f"stands in the source; got {kind}"
            )
        items.append(tools.dtype_of(number))
        cells.extend(_cell(tools, context, builder, *each) for each in values)

    for place, (kind, value) in enumerate(zip(sig.args, args, strict=True), 1):
        if place > 1:
            items.append(" ")
        add(kind, value, place)
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
