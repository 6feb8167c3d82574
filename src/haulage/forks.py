"""What a forked child does before anything else runs in it."""

import os
from collections.abc import Callable


def in_child(action: Callable[[], object]) -> None:
    """Let each child that is forked from now on call `action()`; nothing where there is no fork.

    Locks may have been held by threads that the child does not have, and a driver's handles may be
    of no use there.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=action)
