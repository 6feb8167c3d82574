"""Numba's types in words of the program."""

from collections import Counter
from typing import Any

from numba.core import types

from haulage.compiler.frontend.words import NamespaceType, Register3Type
from haulage.lang.word import Word

# Longer names of types are cut.
_MOST = 80


def described(kind: Any) -> str:
    """A type with its article: "a float64", "an array of float64 with 2 axes", "a tuple of ..."."""
    if isinstance(kind, types.Array):
        readonly = "" if kind.mutable else "readonly "
        article = "a" if readonly else "an"
        return f"{article} {readonly}array of {short(kind.dtype)} with {axes(kind.ndim)}"
    if isinstance(kind, types.BaseTuple):
        return _tuple(kind)
    for known, words in _IN_WORDS:
        if isinstance(kind, known):
            return words(kind)
    name = short(kind)
    return f"{'an' if name[0] in 'aeiou' and not name.startswith('uint') else 'a'} {name}"


def axes(count: int) -> str:
    """A number of axes: "1 axis", "2 axes"."""
    return f"{count} axis" if count == 1 else f"{count} axes"


def short(kind: Any) -> str:
    """The name of a type, without a literal's value, and cut where it is long."""
    if isinstance(kind, types.Record):
        return f"records ({', '.join(kind.fields)})"
    name = str(types.unliteral(kind)) if kind is not None else "unknown"
    return name if len(name) <= _MOST else f"{name[: _MOST - 3]}..."


def is_text(kind: Any) -> bool:
    """Whether a type is that of a text."""
    return isinstance(types.unliteral(kind), (types.UnicodeType, types.Bytes, types.UnicodeCharSeq))


def is_number(kind: Any) -> bool:
    """Whether a type is that of one number."""
    return isinstance(types.unliteral(kind), (types.Number, types.Boolean))


def function_name(kind: Any) -> str:
    """What a function's type calls it."""
    key = getattr(kind, "typing_key", None)
    if isinstance(key, Word):
        return key.__qualname__
    if isinstance(kind, types.Dispatcher):
        return str(kind.dispatcher.py_func.__name__)
    return str(getattr(key, "__name__", None) or getattr(kind, "name", "") or kind)


def _tuple(kind: Any) -> str:
    names = [short(each) for each in kind]
    if not names:
        return "an empty tuple"
    counts = Counter(names)
    if len(counts) == 1:
        return f"a tuple of {len(names)} {names[0]}"
    return f"a tuple ({', '.join(names)})"


_IN_WORDS: tuple[tuple[Any, Any], ...] = (
    ((types.UnicodeType, types.StringLiteral, types.Bytes, types.UnicodeCharSeq), lambda k: "text"),
    (types.NoneType, lambda kind: "None"),
    (types.Record, lambda kind: f"a record with the fields {', '.join(kind.fields)}"),
    (Register3Type, lambda kind: f"all three of {kind.register}"),
    (NamespaceType, lambda kind: f"the namespace {kind.namespace.__name__}"),
    (types.BoundFunction, lambda kind: f"the method {function_name(kind)}"),
    ((types.Function, types.Dispatcher), lambda kind: f"the function {function_name(kind)}"),
    (types.Module, lambda kind: f"the module {kind.pymod.__name__}"),
    (types.SliceType, lambda kind: "a slice"),
    (types.RangeType, lambda kind: "a range"),
    (types.Optional, lambda kind: f"{described(kind.type)} or None"),
    ((types.DType, types.NumberClass), lambda kind: "a dtype"),
)
