"""Loads and stores with a hint for the caches; the names are those of PTX's cache operators."""

from typing import Any

from haulage.lang.word import Word, word

# Word: what it says about the caches.
_LOADS = {
    "ldca": "keep it in all caches, it is likely to be read again",
    "ldcg": "keep it in the cache that all blocks share, not in the block's own",
    "ldcs": "it is likely to be read once only",
    "ldlu": "this is the last use of it",
    "ldcv": "what a cache has is out of date, fetch it again",
}
_STORES = {
    "stcg": "keep it in the cache that all blocks share, not in the block's own",
    "stcs": "it is likely to be used once only",
    "stwb": "write it back from all caches when there is need",
    "stwt": "write it through to memory",
}


def _check(tools: Any, name: str, array: Any, index: Any) -> Any:
    if not isinstance(array, tools.types.CPointer):
        tools.check_place(name, array, index)
    elif not isinstance(index, tools.types.Integer):
        raise tools.TypingError(f"{name}: expected an int as the index of a pointer; got {index}")
    if not isinstance(array.dtype, (tools.types.Integer, tools.types.Float)):
        raise tools.TypingError(
            f"{name}: array: expected elements that are ints or floats; got {array.dtype}"
        )
    return array.dtype


def _place(tools: Any, context: Any, builder: Any, sig: Any, args: Any) -> tuple[Any, int, int]:
    """The address of `array[index]`, the bytes of an element, what the address is a multiple of."""
    array_type, index_type = sig.args[:2]
    if isinstance(array_type, tools.types.CPointer):
        index = context.cast(builder, args[1], index_type, tools.types.intp)
        nbytes = tools.item_size(context, array_type.dtype)
        return builder.gep(args[0], [index]), nbytes, nbytes
    array = context.make_array(array_type)(context, builder, args[0])
    pointer = tools.element_pointer(context, builder, array_type, array, index_type, args[1])
    nbytes = tools.item_size(context, array_type.dtype)
    return pointer, nbytes, nbytes if array_type.aligned else 1


def _load(name: str) -> Word:
    def build(tools: Any, array: Any, index: Any) -> Any:
        element = _check(tools, name, array, index)

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            pointer, nbytes, align = _place(tools, context, builder, sig, args)
            kind = context.get_value_type(element)
            target = context.haulage_target
            return target.cached_load(builder, name, pointer, kind, nbytes, align)

        return tools.signature(element, array, index), generate

    build.__doc__ = f"`{name}(array, index)`: `array[index]`; {_LOADS[name]}."
    return word(name)(build)


def _store(name: str) -> Word:
    def build(tools: Any, array: Any, index: Any, value: Any) -> Any:
        element = _check(tools, name, array, index)
        if isinstance(array, tools.types.Array) and not array.mutable:
            raise tools.TypingError(f"{name}: the array is read-only: {array}")
        if not isinstance(value, (tools.types.Integer, tools.types.Float, tools.types.Boolean)):
            raise tools.TypingError(f"{name}: value: expected a real number; got {value}")

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            pointer, nbytes, align = _place(tools, context, builder, sig, args)
            stored = context.cast(builder, args[2], sig.args[2], element)
            context.haulage_target.cached_store(builder, name, stored, pointer, nbytes, align)
            return context.get_dummy_value()

        return tools.signature(tools.types.none, array, index, value), generate

    build.__doc__ = f"`{name}(array, index, value)`: `array[index] = value`; {_STORES[name]}."
    return word(name)(build)


ldca, ldcg, ldcs, ldlu, ldcv = map(_load, _LOADS)
stcg, stcs, stwb, stwt = map(_store, _STORES)
