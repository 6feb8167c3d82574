"""Sentences of Numba's, and what they mean in a program."""

import builtins
import re
from collections.abc import Callable
from typing import Any

from haulage.spelling import did_you_mean

# How Numba writes the type of a constant, and of a tuple whose items are of one type.
_LITERAL = re.compile(r"Literal\[(\w+)\]\([^()]*\)")
_TUPLE = re.compile(r"UniTuple\(([^()]+) x (\d+)\)")


def _plain(types: str) -> str:
    """Numba's names of types without those."""
    return _TUPLE.sub(r"tuple of \2 \1", _LITERAL.sub(r"\1", types))


def _undefined(found: re.Match[str], function: Any) -> str:
    name = found["name"]
    known = [*vars(builtins)]
    if function is not None:
        known += [*function.__code__.co_varnames, *function.__globals__]
    return f"NameError: name {name!r} is not defined{did_you_mean(name, known)}"


def _no_value_yet(found: re.Match[str], function: Any) -> str:
    name = found["name"].partition(".")[0]
    return (
        f"{name} has no value here: the function assigns {name}, which makes it a variable of its "
        "own. A kernel cannot change a global; give it an array to write to"
    )


def _two_types(found: re.Match[str], function: Any) -> str:
    name = found["name"].partition(".")[0]
    name = "the value of the expression" if name.startswith("$") else name
    one, other = (_plain(found[each]) for each in ("one", "other"))
    return (
        f"Cannot unify {one} and {other}: {name} has one of these types on one way through the "
        "function and the other on another; use two names, or convert one"
    )


def _two_results(found: re.Match[str], function: Any) -> str:
    listed = _plain(found["listed"])
    return f"a function returns values of one type, and this one of several: {listed}"


def _no_such_function(found: re.Match[str], function: Any) -> str:
    call = _plain(found["call"])
    return f"kernels have no {call}, a function of arguments of these types"


def _unusable(found: re.Match[str], function: Any) -> str:
    name, kind = found["name"], found["kind"].rpartition(".")[2]
    if kind in ("builtin_function_or_method", "function", "method", "type"):
        what = "class" if kind == "type" else "function"
        return f"{name!r} is a {what} of the host, which kernels do not have"
    return (
        f"{name!r} is an object of class {kind}, which kernels do not know: they take numbers, "
        "NumPy arrays, tuples of these, and functions"
    )


def _wrong_count(found: re.Match[str], function: Any) -> str:
    return f"a call of a function with the parameters {found['parameters']}: {found['why']}"


def _keywords_of_print(found: re.Match[str], function: Any) -> str:
    return "print in a kernel takes values only, and no keywords such as sep, end or file"


Tell = Callable[[re.Match[str], Any], str]

SENTENCES: tuple[tuple[re.Pattern[str], Tell], ...] = (
    (re.compile(r"NameError: name '(?P<name>[^']+)' is not defined"), _undefined),
    (re.compile(r"Variable '(?P<name>[^']+)' is not defined"), _no_value_yet),
    (
        re.compile(r"Cannot unify (?P<one>.+) and (?P<other>.+) for '(?P<name>[^']+)'"),
        _two_types,
    ),
    (re.compile(r"Can't unify return type from the following types: (?P<listed>.+)"), _two_results),
    (
        re.compile(r"No implementation of function [\s\S]*?>>> (?P<call>[^\n]+)"),
        _no_such_function,
    ),
    (
        re.compile(
            r"Untyped global name '(?P<name>[^']+)':\s*Cannot determine Numba type of "
            r"<class '(?P<kind>[^']+)'>"
        ),
        _unusable,
    ),
    (
        re.compile(
            r"Cannot bind '.*' to signature '(?P<parameters>.*)' due to \"TypeError: "
            r"(?P<why>[^\"]+)\""
        ),
        _wrong_count,
    ),
    (re.compile(r"print\(\) function implementation does not support keyword"), _keywords_of_print),
)
