"""Ctrl-C at each place where Python lets it in, one after the other.

Python looks for signals when a function begins, when one written in C has come back, and when a
loop goes round; the first two are the places where a profiler is called.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any


def at_each_place(work: Callable[[], object], modules: set[str]) -> Iterator[int]:
    """Call `work()`, with Ctrl-C at the first place within functions of `modules`, at the second
    and so on, until it comes through without; gives the number of the place after each call.

    What is raised in a finaliser ends there.
    """
    place, came = 0, True
    while came:
        left, came = place, False

        def profile(frame: Any, event: str, _: Any) -> None:
            nonlocal left, came
            if event in ("call", "c_return") and frame.f_globals.get("__name__") in modules:
                if left == 0:
                    sys.setprofile(None)
                    came = True
                    raise KeyboardInterrupt
                left -= 1

        hook, sys.unraisablehook = sys.unraisablehook, _nothing
        sys.setprofile(profile)
        try:
            work()
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
            sys.unraisablehook = hook
        yield place
        place += 1


def _nothing(_: Any) -> None:
    """It was told where it came."""
