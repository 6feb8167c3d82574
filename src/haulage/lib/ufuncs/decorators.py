"""The decorators `vectorize` and `guvectorize`, and their options."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from haulage.errors import warn
from haulage.kernel import CUDA, ROC, DeviceFunction, Vocabulary
from haulage.lib.ufuncs.gufunc import GUFunc
from haulage.lib.ufuncs.ufunc import UFunc
from haulage.tracebacks import brief_errors

_TARGETS = (CUDA.name, ROC.name)


class UnknownOption(TypeError, KeyError):
    """An option that `vectorize` does not have: a TypeError, and a KeyError as in Numba."""

    __str__ = TypeError.__str__


def vectorize(
    vocabulary: Vocabulary,
    ftylist_or_function: Any = (),
    target: str | None = None,
    identity: Any = None,
    cache: bool = False,
    **options: Any,
) -> Any:
    """Make a function of arrays of a function of numbers; `UFunc` tells how it is called.

    Use as `@vectorize`, `@vectorize()`, `@vectorize("float32(float32, float32)")` or with a list of
    signatures: strings, Numba's signatures, or tuples of argument types. Without any it is compiled
    for what it is called with.

    Args:
        target: the vocabulary whose words the function may use, 'cuda' or 'roc'.
        identity: what `reduce` gives for no elements: 0, 1, None or "reorderable" (which is None
            here).
        cache: whether compiled code is kept on disk, as of `@jit(cache=True)`.
        options: `nopython=True` changes nothing.

    Raises:
        TypeError: an option is unknown, or the function or a signature is none.
        ValueError: `target` or `identity` is none of those.
        CompileError: the function cannot be compiled for a signature.
    """
    chosen = _checked_target(vocabulary, target)
    start = _checked_identity(identity)
    nopython = options.pop("nopython", None)
    if options:
        raise UnknownOption(
            "Unrecognized options. vectorize does not support: " + ", ".join(map(repr, options))
        )
    if nopython is not None:
        _check_nopython(nopython)
        warn(f"nopython kwarg for {chosen.name} target is redundant")
    if _is_function(ftylist_or_function):
        return UFunc(ftylist_or_function, chosen, (), start, cache)
    signatures = _listed(ftylist_or_function)
    return brief_errors(
        lambda function: UFunc(_checked(function, "vectorize"), chosen, signatures, start, cache)
    )


def guvectorize(
    vocabulary: Vocabulary,
    *args: Any,
    target: str | None = None,
    identity: Any = None,
    cache: bool = False,
    writable_args: Sequence[Any] = (),
    **options: Any,
) -> Callable[[Any], GUFunc]:
    """Make a function of arrays of a function of small arrays; `GUFunc` tells how it is called.

    Use as `@guvectorize(["void(float32[:], float32[:])"], "(n)->()")`, with one signature or a list
    of them, or as `@guvectorize("(n)->()")`, which compiles for what it is called with.

    Args:
        args: the signatures, if any, and the layout.
        target, identity, cache, options: as for `vectorize`.
        writable_args: must be empty; see `GUFunc` for functions that write to their inputs.

    Raises:
        TypeError: an option is unknown, or the function, the layout or a signature is none.
        ValueError: the layout cannot be read or does not fit a signature, or `target` or
            `identity` is none of those that are there.
        NotImplementedError: `writable_args` are given.
        CompileError: the function cannot be compiled for a signature.
    """
    chosen = _checked_target(vocabulary, target)
    start = _checked_identity(identity)
    if writable_args:
        raise NotImplementedError(
            f"guvectorize(writable_args={writable_args!r}) is not there in this version; leave it "
            "out: the function may write to its inputs, and host arrays are copied for that"
        )
    _check_nopython(options.pop("nopython", True))
    if options:
        raise TypeError(
            "The following target options are not supported: " + ", ".join(map(repr, options))
        )
    if not 1 <= len(args) <= 2:
        raise TypeError(f"guvectorize takes a layout, or signatures and a layout; got {args}")
    signatures = _listed(args[0]) if len(args) == 2 else []
    layout = args[-1]
    return brief_errors(
        lambda function: GUFunc(
            _checked(function, "guvectorize"), chosen, layout, signatures, start, cache
        )
    )


def cuda_vectorize(ftylist_or_function: Any = (), **options: Any) -> Any:
    """`cuda.vectorize`: see `vectorize`."""
    return vectorize(CUDA, ftylist_or_function, **options)


def roc_vectorize(ftylist_or_function: Any = (), **options: Any) -> Any:
    """`roc.vectorize`: see `vectorize`."""
    return vectorize(ROC, ftylist_or_function, **options)


def cuda_guvectorize(*args: Any, **options: Any) -> Callable[[Any], GUFunc]:
    """`cuda.guvectorize`: see `guvectorize`."""
    return guvectorize(CUDA, *args, **options)


def roc_guvectorize(*args: Any, **options: Any) -> Callable[[Any], GUFunc]:
    """`roc.guvectorize`: see `guvectorize`."""
    return guvectorize(ROC, *args, **options)


def _checked_target(vocabulary: Vocabulary, target: str | None) -> Vocabulary:
    if target is None:
        return vocabulary
    if target not in _TARGETS:
        raise ValueError(
            f"Unsupported target: {target!r}; expected 'cuda' or 'roc'. For the host's own ufuncs "
            "use numba.vectorize"
        )
    return CUDA if target == CUDA.name else ROC


def _checked_identity(identity: Any) -> int | None:
    if identity not in (None, 0, 1, "reorderable"):
        raise ValueError(f"identity {identity!r}: expected 0, 1, None or 'reorderable'")
    return None if identity in (None, "reorderable") else int(identity)


def _check_nopython(nopython: Any) -> None:
    if not nopython:
        raise TypeError("nopython flag must be True")


def _listed(given: Any) -> list[Any]:
    """Signatures as a list of them; a tuple holds signatures too, except where it is one itself."""
    if isinstance(given, list):
        return given
    if isinstance(given, tuple):
        return [given] if given and not _are_signatures(given) else list(given)
    return [given]


def _are_signatures(given: tuple[Any, ...]) -> bool:
    return all(
        isinstance(each, (tuple, list))
        or (isinstance(each, str) and "(" in each)
        or hasattr(each, "return_type")
        for each in given
    )


def _is_function(value: Any) -> bool:
    return (
        inspect.isfunction(value) or isinstance(value, DeviceFunction) or hasattr(value, "py_func")
    )


def _checked(function: Any, what: str) -> Any:
    if not _is_function(function):
        raise TypeError(f"{what} takes a Python function or a device function, got {function!r}")
    return function
