"""What a user sees of an error: lines of their own program, and none of this library."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from haulage import config
from haulage.errors import HaulageError

_P = ParamSpec("_P")
_R = TypeVar("_R")


def shorten(error: HaulageError) -> None:
    """Take from an error the frames that it came through, and the error that it came from.

    To be called where a user entered the library, before a plain `raise`, which adds no frame of
    its own. What is taken is in `error.full_traceback`. With `HAULAGE_FULL_TRACEBACKS=1` nothing
    is taken.
    """
    if config.full_tracebacks():
        return
    error.keep_full_traceback()
    # The context stays for debuggers, and is not printed.
    error.__cause__, error.__suppress_context__ = None, True
    error.__traceback__ = None


def brief_errors(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Make a function that users call show errors of ours without our frames."""

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except HaulageError as error:
            shorten(error)
            raise

    return call
