"""One thread at a time in a storage, and whether it is in the midst of something."""

import threading


class Guard:
    """A lock for `with`, which its thread can enter again.

    Attributes:
        depth: how often the thread that is inside has entered it.
    """

    __slots__ = ("_lock", "depth")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.depth = 0

    def __enter__(self) -> None:
        self._lock.acquire()
        self.depth += 1

    def __exit__(self, *exception: object) -> None:
        self.depth -= 1
        self._lock.release()

    def entered_within(self, seconds: float) -> bool:
        """Enter it, if no thread is inside, this one neither, or others leave it in that time;
        whether it is entered now."""
        if not self._lock.acquire(timeout=seconds):
            return False
        if self.depth:
            self._lock.release()
            return False
        self.depth = 1
        return True
