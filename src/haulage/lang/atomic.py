"""Read, change and write in one step, whatever other threads do."""

from typing import Any

from haulage.lang.word import Namespace, Word, word

# Word: (LLVM operation for signed ints, unsigned ints, floats); None where there is none.
_OPERATIONS: dict[str, tuple[str | None, str | None, str | None]] = {
    "add": ("add", "add", "fadd"),
    "sub": ("sub", "sub", "fsub"),
    "max": ("max", "umax", "fmax"),
    "min": ("min", "umin", "fmin"),
    "and_": ("and", "and", None),
    "or_": ("or", "or", None),
    "xor": ("xor", "xor", None),
    "exch": ("xchg", "xchg", "xchg"),
}


def _operation(tools: Any, name: str, element: Any) -> str | None:
    signed, unsigned, floating = _OPERATIONS[name]
    if isinstance(element, tools.types.Float):
        return floating
    if isinstance(element, tools.types.Integer):
        return signed if element.signed else unsigned
    return None


def _element_pointer(tools: Any, context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """The address of `array[index]`; negative indices count from the end, as elsewhere."""
    array_type, index_type = sig.args[:2]
    array = context.make_array(array_type)(context, builder, args[0])
    if isinstance(index_type, tools.types.BaseTuple):
        indices = tools.cgutils.unpack_tuple(builder, args[1], len(index_type))
        index_types = list(index_type)
    else:
        indices, index_types = [args[1]], [index_type]
    wide = [
        context.cast(builder, index, kind, tools.types.intp)
        for index, kind in zip(indices, index_types, strict=True)
    ]
    # Unsigned and compile-time indices need no wraparound, but folding it is LLVM's work.
    return tools.cgutils.get_item_pointer(
        context, builder, array_type, array, wide, wraparound=True
    )


def _check_place(tools: Any, name: str, array: Any, index: Any) -> None:
    if not isinstance(array, tools.types.Array):
        raise tools.TypingError(f"atomic.{name}: expected an array; got {array}")
    if not array.mutable:
        raise tools.TypingError(f"atomic.{name}: the array is read-only: {array}")
    kinds = list(index) if isinstance(index, tools.types.BaseTuple) else [index]
    if not all(isinstance(kind, tools.types.Integer) for kind in kinds):
        raise tools.TypingError(f"atomic.{name}: expected int indices; got {index}")
    if len(kinds) != array.ndim:
        raise tools.TypingError(
            f"atomic.{name}: {len(kinds)} indices for an array of {array.ndim} dimensions"
        )


def _read_modify_write(name: str) -> Word:
    def build(tools: Any, array: Any, index: Any, value: Any) -> Any:
        _check_place(tools, name, array, index)
        element = array.dtype
        operation = _operation(tools, name, element)
        if operation is None:
            raise tools.TypingError(f"atomic.{name} does not take arrays of {element}")
        if not isinstance(value, (tools.types.Number, tools.types.Boolean)):
            raise tools.TypingError(f"atomic.{name}: expected a number; got {value}")

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            pointer = _element_pointer(tools, context, builder, sig, args)
            operand = context.cast(builder, args[2], sig.args[2], element)
            return builder.atomic_rmw(operation, pointer, operand, "monotonic")

        return tools.signature(element, array, index, value), generate

    build.__doc__ = (
        f"`atomic.{name}(array, index, value)`: `{name.rstrip('_')}` on `array[index]`, in one "
        "step.\n\n`index` is an int or a tuple with one int per dimension. Returns the old value."
    )
    return word(f"atomic.{name}")(build)


@word("atomic.cas")
def cas(tools: Any, array: Any, index: Any, old: Any, value: Any) -> Any:
    """`atomic.cas(array, index, old, value)`: if `array[index] == old`, write `value` there.

    Takes integer arrays. Returns what `array[index]` was.
    """
    _check_place(tools, "cas", array, index)
    element = array.dtype
    if not isinstance(element, tools.types.Integer):
        raise tools.TypingError(f"atomic.cas does not take arrays of {element}")

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pointer = _element_pointer(tools, context, builder, sig, args)
        expected = context.cast(builder, args[2], sig.args[2], element)
        wanted = context.cast(builder, args[3], sig.args[3], element)
        pair = builder.cmpxchg(pointer, expected, wanted, "monotonic", "monotonic")
        return builder.extract_value(pair, 0)

    return tools.signature(element, array, index, old, value), generate


atomic = Namespace(
    "atomic",
    cas=cas,
    **{name: _read_modify_write(name) for name in _OPERATIONS},
)
