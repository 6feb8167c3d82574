"""Words about the bits of whole numbers, and the choice between two values."""

from typing import Any

from haulage.lang.word import Word, word


def _check_int(tools: Any, name: str, x: Any) -> Any:
    """The type of an int argument, without the value that a constant has."""
    if not isinstance(x, tools.types.Integer):
        raise tools.TypingError(f"{name}(x): x: expected an int; got {x}")
    return tools.types.unliteral(x)


@word("popc")
def popc(tools: Any, x: Any) -> Any:
    """`popc(x)`: how many bits of an int are set, in the int's own type."""
    kind = _check_int(tools, "popc", x)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.ctpop(context.cast(builder, args[0], sig.args[0], kind))

    return kind(x), generate


@word("clz")
def clz(tools: Any, x: Any) -> Any:
    """`clz(x)`: how many bits above the highest set one are zero, in the int's own type."""
    kind = _check_int(tools, "clz", x)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value = context.cast(builder, args[0], sig.args[0], kind)
        return builder.ctlz(value, tools.cgutils.false_bit)

    return kind(x), generate


@word("ffs")
def ffs(tools: Any, x: Any) -> Any:
    """`ffs(x)`: the place of the lowest set bit, counted from 1; 0 if there is none. uint32."""
    kind = _check_int(tools, "ffs", x)
    uint32 = tools.types.uint32

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value = context.cast(builder, args[0], sig.args[0], kind)
        below = context.cast(builder, builder.cttz(value, tools.cgutils.false_bit), kind, uint32)
        zero, one = (tools.ir.Constant(tools.I32, n) for n in (0, 1))
        is_zero = builder.icmp_unsigned("==", value, tools.ir.Constant(value.type, 0))
        return builder.select(is_zero, zero, builder.add(below, one))

    return uint32(x), generate


@word("brev")
def brev(tools: Any, x: Any) -> Any:
    """`brev(x)`: the bits in reverse order: uint64 of 64-bit ints, uint32 of all others."""
    given = _check_int(tools, "brev", x)
    kind = tools.types.uint64 if given.bitwidth == 64 else tools.types.uint32

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitreverse(context.cast(builder, args[0], sig.args[0], kind))

    return kind(x), generate


@word("int.bit_count")
def bit_count(tools: Any, x: Any) -> Any:
    """`x.bit_count()`: how many bits of the number's magnitude are set, int64."""
    kind = _check_int(tools, "bit_count", x)
    int64 = tools.types.int64

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        value = context.cast(builder, args[0], sig.args[0], kind)
        if kind.signed:
            is_negative = builder.icmp_signed("<", value, tools.ir.Constant(value.type, 0))
            value = builder.select(is_negative, builder.neg(value), value)
        counted = builder.ctpop(value)
        return counted if value.type == tools.I64 else builder.zext(counted, tools.I64)

    return int64(x), generate


@word("selp")
def selp(tools: Any, test: Any, a: Any, b: Any) -> Any:
    """`selp(test, a, b)`: `a` if `test` is true, else `b`; both are worked out first.

    `test` is a bool or an int, `a` and `b` are numbers or bools of one type.
    """
    types = tools.types
    if not isinstance(test, (types.Boolean, types.Integer)):
        raise tools.TypingError(f"selp(test, a, b): test: expected a bool; got {test}")
    kind = types.unliteral(a)
    if not isinstance(kind, (types.Number, types.Boolean)) or kind != types.unliteral(b):
        raise tools.TypingError(
            f"selp(test, a, b): a and b: expected numbers of one type; got {a} and {b}"
        )

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        chosen = context.cast(builder, args[0], sig.args[0], types.boolean)
        values = [context.cast(builder, args[n], sig.args[n], kind) for n in (1, 2)]
        return builder.select(chosen, *values)

    return kind(test, a, b), generate


# Methods of numbers that Numba does not know: (Numba's class, name) -> the word behind it.
METHODS: dict[tuple[str, str], Word] = {("Integer", "bit_count"): bit_count}
