"""Read, change and write in one step, whatever other threads do.

Every word takes arrays in any memory: shared, local, global, mapped, fields of records, parts of
complex numbers. Each gives the old value back.
"""

from typing import Any

from haulage.lang.word import Namespace, Word, word
from haulage.targets.atomics import bits_of

# Word: (LLVM operation for signed ints, unsigned ints, floats); None where there is none.
_OPERATIONS: dict[str, tuple[str | None, str | None, str | None]] = {
    "add": ("add", "add", "fadd"),
    "sub": ("sub", "sub", "fsub"),
    # LLVM's own for floats takes a NaN for a missing value, as the words with `nan` do.
    "max": ("max", "umax", "less"),
    "min": ("min", "umin", "greater"),
    "nanmax": ("max", "umax", "fmax"),
    "nanmin": ("min", "umin", "fmin"),
    "and_": ("and", "and", None),
    "or_": ("or", "or", None),
    "xor": ("xor", "xor", None),
    "inc": (None, "uinc_wrap", None),
    "dec": (None, "udec_wrap", None),
    "exch": ("xchg", "xchg", "xchg"),
}

_MEANINGS = {
    "add": "`+=`",
    "sub": "`-=`",
    "max": "the larger of the two; a value that is NaN changes nothing, a NaN in the array stays",
    "min": "the smaller of the two; a value that is NaN changes nothing, a NaN in the array stays",
    "nanmax": "the larger of the two; NaN counts as missing",
    "nanmin": "the smaller of the two; NaN counts as missing",
    "and_": "`&=`",
    "or_": "`|=`",
    "xor": "`^=`",
    "inc": "one more, or 0 where it was `value` or more",
    "dec": "one less, or `value` where it was 0 or more than `value`",
    "exch": "`=`",
}


def _operation(tools: Any, name: str, element: Any) -> str:
    signed, unsigned, floating = _OPERATIONS[name]
    operation = None
    if isinstance(element, tools.types.Float):
        operation = floating
    elif isinstance(element, tools.types.Integer):
        operation = signed if element.signed else unsigned
    if operation is None:
        kinds = ("signed ints", signed), ("unsigned ints", unsigned), ("floats", floating)
        taken = ", ".join(kind for kind, there in kinds if there)
        raise tools.TypingError(
            f"atomic.{name}(array, index, value): array: expected elements that are {taken}; "
            f"got {element}"
        )
    return operation


def _element_pointer(tools: Any, context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """The address of `array[index]`; negative indices count from the end, as elsewhere."""
    array_type, index_type = sig.args[:2]
    array = context.make_array(array_type)(context, builder, args[0])
    return tools.element_pointer(context, builder, array_type, array, index_type, args[1])


def _check_place(tools: Any, name: str, array: Any, index: Any) -> None:
    tools.check_place(f"atomic.{name}", array, index)
    if not array.mutable:
        raise tools.TypingError(f"atomic.{name}: the array is read-only: {array}")


def _check_value(tools: Any, name: str, argument: str, value: Any) -> None:
    taken = (tools.types.Integer, tools.types.Float, tools.types.Boolean)
    if not isinstance(value, taken):
        raise tools.TypingError(f"atomic.{name}: {argument}: expected a real number; got {value}")


def _read_modify_write(name: str) -> Word:
    def build(tools: Any, array: Any, index: Any, value: Any) -> Any:
        _check_place(tools, name, array, index)
        element = array.dtype
        operation = _operation(tools, name, element)
        _check_value(tools, name, "value", value)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            pointer = _element_pointer(tools, context, builder, sig, args)
            operand = context.cast(builder, args[2], sig.args[2], element)
            return context.haulage_target.atomic(builder, operation, pointer, operand)

        return tools.signature(element, array, index, value), generate

    build.__doc__ = (
        f"`atomic.{name}(array, index, value)`: make `array[index]` {_MEANINGS[name]}.\n\n"
        "`index` is an int or a tuple with one int per dimension. Returns the old value."
    )
    return word(f"atomic.{name}")(build)


def _swapped(tools: Any, context: Any, builder: Any, place: Any, values: list[Any]) -> Any:
    """Write the second of two values where the first is found; gives what was found."""
    kind = values[0].type
    if not isinstance(kind, tools.ir.IntType):
        bits = bits_of(kind)
        place = builder.bitcast(place, bits.as_pointer())
        values = [builder.bitcast(value, bits) for value in values]
    found, _ = context.haulage_target.compare_and_swap(builder, place, *values)
    return builder.bitcast(found, kind)


def _check_swapped(tools: Any, name: str, array: Any, old: Any, value: Any) -> Any:
    element = array.dtype
    if not isinstance(element, (tools.types.Integer, tools.types.Float)):
        raise tools.TypingError(
            f"atomic.{name}: array: expected elements that are ints or floats; got {element}"
        )
    _check_value(tools, name, "old", old)
    _check_value(tools, name, "value", value)
    return element


@word("atomic.cas")
def cas(tools: Any, array: Any, index: Any, old: Any, value: Any) -> Any:
    """`atomic.cas(array, index, old, value)`: if `array[index] == old`, write `value` there.

    Takes arrays of ints and of floats, of which bits are compared: a NaN can be found, and 0.0 is
    not -0.0. Returns what `array[index]` was.
    """
    _check_place(tools, "cas", array, index)
    element = _check_swapped(tools, "cas", array, old, value)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = _element_pointer(tools, context, builder, sig, args)
        values = [context.cast(builder, args[n], sig.args[n], element) for n in (2, 3)]
        return _swapped(tools, context, builder, pointer, values)

    return tools.signature(element, array, index, old, value), generate


@word("atomic.compare_and_swap")
def compare_and_swap(tools: Any, array: Any, old: Any, value: Any) -> Any:
    """`atomic.compare_and_swap(array, old, value)`: `cas` on the first element.

    Takes arrays with one dimension. Returns what `array[0]` was.
    """
    if isinstance(array, tools.types.Array) and array.ndim != 1:
        raise tools.TypingError(
            f"atomic.compare_and_swap: array: expected one dimension; got {array}"
        )
    _check_place(tools, "compare_and_swap", array, tools.types.int64)
    element = _check_swapped(tools, "compare_and_swap", array, old, value)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        array_value = context.make_array(array)(context, builder, args[0])
        values = [context.cast(builder, args[n], sig.args[n], element) for n in (1, 2)]
        return _swapped(tools, context, builder, array_value.data, values)

    return tools.signature(element, array, old, value), generate


atomic = Namespace(
    "atomic",
    cas=cas,
    compare_and_swap=compare_and_swap,
    **{name: _read_modify_write(name) for name in _OPERATIONS},
)
