"""Words with declared types, whose definition is a function written in the kernel language."""

from collections.abc import Callable, Sequence
from typing import Any

from haulage.lang.word import Word

# The letters of a signature.
KINDS = {"h": "int16", "i": "int32", "l": "int64", "f": "float32", "d": "float64"}


class Defined(Word):
    """A word whose arguments are converted to the types that it declares.

    `signature` has a letter of `KINDS` for each argument and, after `>`, for each result; several
    results are a tuple. `definition()` gives what computes it: a function written in the kernel
    language, or the name of a function of the C library, with numbers that it gets behind the
    arguments and the letters of the types that it computes in. The definition is never compiled
    with fastmath, and divides as NumPy does. Targets with libdevice call `library_name` instead, if
    there is one: a C function with pointers to the last results, `names` that begin with `*`.
    """

    def __init__(
        self,
        name: str,
        signature: str,
        definition: Callable[[], Any],
        doc: str,
        names: Sequence[str] = (),
        library_name: str = "",
    ) -> None:
        parameters, results = signature.split(">")

        def build(tools: Any, *arguments: Any) -> Any:
            return _build(tools, self, arguments)

        build.__doc__ = doc
        super().__init__(name, build)
        self.parameters = parameters
        self.results = results
        self.names = tuple(each for each in names if not each.startswith("*"))
        self.pointers = tuple(each[1:] for each in names if each.startswith("*"))
        self.definition = definition
        self.library_name = library_name


def defined(signature: str) -> Callable[[Callable[..., Any]], Defined]:
    """Make a `Defined` word of the decorated function, for use in other definitions."""

    def make(function: Callable[..., Any]) -> Defined:
        name = function.__name__
        known = (function, (), signature.split(">")[0])
        return Defined(name, signature, lambda: known, function.__doc__ or "")

    return make


def _build(tools: Any, word: Defined, given: tuple[Any, ...]) -> Any:
    types = tools.types
    parameters = [getattr(types, KINDS[letter]) for letter in word.parameters]
    results = [getattr(types, KINDS[letter]) for letter in word.results]
    result = results[0] if len(results) == 1 else types.Tuple(results)
    real = (types.Integer, types.Float, types.Boolean)
    if len(given) != len(parameters) or not all(isinstance(kind, real) for kind in given):
        raise tools.TypingError(
            f"{word.__qualname__}({', '.join(str(kind) for kind in parameters)}): expected "
            f"{len(parameters)} real numbers; got ({', '.join(str(kind) for kind in given)})"
        )

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if word.library_name and context.haulage_target.has_libdevice:
            packed = tools.cgutils.unpack_tuple(builder, args[0], len(given))
            values = [
                context.cast(builder, value, kind, declared)
                for value, kind, declared in zip(packed, given, parameters, strict=True)
            ]
            return _called(tools, context, builder, word, values, results)
        definition, constants, letters = word.definition()
        inner = [getattr(types, KINDS[letter]) for letter in letters]
        packed = tools.cgutils.unpack_tuple(builder, args[0], len(given))
        values = []
        for value, kind, declared, wide in zip(packed, given, parameters, inner, strict=True):
            value = context.cast(builder, value, kind, declared)
            values.append(context.cast(builder, value, declared, wide))
        if isinstance(definition, str):
            kind = context.get_value_type(inner[-1])
            value = tools.library_call(builder, definition, kind, values)
            return context.cast(builder, value, inner[-1], result)
        values += [context.get_constant(types.int32, number) for number in constants]
        kinds = (*inner, *(types.int32 for _ in constants))
        return tools.define(context, builder, definition, tools.signature(result, *kinds), values)

    return result(types.StarArgTuple(given)), generate


def _called(
    tools: Any, context: Any, builder: Any, word: Defined, values: list[Any], results: list[Any]
) -> Any:
    """The results of a call of the library's own function."""
    kinds = [context.get_value_type(result) for result in results]
    returned = len(results) - len(word.pointers)
    rooms = [
        context.haulage_target.local_array(builder, context.get_abi_sizeof(kind), 8)
        for kind in kinds[returned:]
    ]
    pointers = [builder.bitcast(room, tools.ir.PointerType()) for room in rooms]
    kind = kinds[0] if returned else tools.ir.VoidType()
    value = tools.library_call(builder, word.library_name, kind, [*values, *pointers])
    found = [value] if returned else []
    for pointer, each in zip(pointers, kinds[returned:], strict=True):
        room = builder.bitcast(pointer, each.as_pointer())
        found.append(builder.load(room, typ=each))
    if len(results) == 1:
        return found[0]
    return context.make_tuple(builder, tools.types.Tuple(results), found)
