"""The prototypes of libdevice's functions as Numba's types; importing this imports Numba."""

from typing import Any, NamedTuple

from numba.core import types
from numba.core.typing import signature

from haulage.lang.libdevice import words
from haulage.lang.libdevice.function import KINDS, Defined


class arg(NamedTuple):
    """A parameter in C: its name, its type, and whether it is a pointer to a result."""

    name: str
    ty: Any
    is_ptr: bool


def _prototype(word: Defined) -> tuple[Any, list[arg]]:
    given, results = (
        [getattr(types, KINDS[letter]) for letter in letters]
        for letters in (word.parameters, word.results)
    )
    behind = len(results) - len(word.pointers)
    arguments = [arg(*each, False) for each in zip(word.names, given, strict=True)]
    pointers = zip(word.pointers, results[behind:], strict=True)
    returned = results[0] if behind else types.void
    return returned, arguments + [arg(*each, True) for each in pointers]


# `{"__nv_sin": (type that C returns, parameters), ...}`.
functions = {
    f"__nv_{name}": _prototype(word)
    for name, word in vars(words).items()
    if isinstance(word, Defined)
}


def create_signature(retty: Any, args: list[arg]) -> Any:
    """The signature of the function in kernels: what pointers lead to is returned.

    Args:
        retty: the type that C returns, `types.void` for none.
        args: the parameters.
    """
    results = ([] if retty == types.void else [retty]) + [each.ty for each in args if each.is_ptr]
    result = results[0] if len(results) == 1 else types.Tuple(results)
    return signature(result, *(each.ty for each in args if not each.is_ptr))
