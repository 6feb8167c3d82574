"""What has begun is brought to an end also where Ctrl-C comes in between.

Ctrl-C raises KeyboardInterrupt in the main thread wherever Python looks for signals: when a
function begins, when one written in C has come back, and when a loop goes round. Where no such
place lies between two steps they cannot come apart, and some code is written so; all other code
that must not be left half-done stands in an `on_error`.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any


class on_error:
    """`with on_error(action, *args):` calls `action(*args)` if an exception leaves the block.

    That is any exception, KeyboardInterrupt too, and it goes on afterwards. Where the block comes
    to its end nothing is called. So two things can be written:

    - to undo what was begun: `action` undoes it;
    - to be sure that something is finished: the last statement of the block is `action(*args)`
      itself. It is then called again if Ctrl-C came before it or in its midst, and has to be
      something that can be begun again wherever it was cut short.

    Enter it before the first step that has to be undone or finished: Ctrl-C while it is entered
    comes before any of them. Ctrl-C just behind the block finds all steps done: it goes on without
    a call of `action`. Where the caller could not tell then that something was begun, `try` and
    `except BaseException` take the place of this, as Python looks for no signal behind them.
    A second Ctrl-C within `action` is not provided for.
    """

    __slots__ = ("_action", "_args")

    def __init__(self, action: Callable[..., object], *args: Any) -> None:
        self._action = action
        self._args = args

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._action(*self._args)
