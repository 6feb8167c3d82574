"""Allocators that hand calls on to another one, and limit, log, count or fail them."""

import logging
import random
import sys
import threading
import time
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, Protocol

from haulage import forks
from haulage.checks import whole_number
from haulage.errors import OutOfMemory
from haulage.interruption import on_error
from haulage.runtime.memory.base_allocators import Allocator, Calls, Pool, name_of

__all__ = ["Counts", "Failing", "Limit", "Log", "Statistics"]


class _Adaptor:
    """Hands calls on to `upstream`."""

    def __init__(self, upstream: Allocator | None) -> None:
        self.upstream: Allocator = Pool() if upstream is None else upstream
        self._calls = Calls(self.upstream)
        self._lock = forks.lock()

    def allocate(self, nbytes: int) -> int:
        """The address of memory from the next allocator."""
        address: int = self._calls.allocate(nbytes)
        return address

    def deallocate(self, address: int, nbytes: int) -> None:
        """Give memory back to the next allocator."""
        self._calls.deallocate(address, nbytes)

    def __repr__(self) -> str:
        return f"<{name_of(self)}>"


class Limit(_Adaptor):
    """An `Allocator` that gives no more than some number of bytes at a time.

    Args:
        upstream: the allocator that gives the memory; None: Haulage's own, a `Pool()`.
        nbytes: how many bytes may be in use.

    Attributes:
        nbytes: as given.
        in_use: bytes that are in use now.

    Raises:
        TypeError: `upstream` is no allocator, or `nbytes` no number of bytes.
        ValueError: `nbytes` is negative.
        OutOfMemory: by `allocate`: it would be more.
    """

    def __init__(self, upstream: Allocator | None, nbytes: int) -> None:
        super().__init__(upstream)
        self.nbytes = whole_number(nbytes, "Limit: nbytes", 0)
        self.in_use = 0

    def allocate(self, nbytes: int) -> int:
        """The address of memory, if the limit allows it."""
        with self._lock:
            if self.in_use + nbytes > self.nbytes:
                raise OutOfMemory(
                    f"{nbytes} bytes asked of {self!r}: {self.in_use} of the {self.nbytes} bytes "
                    "that it may give are in use"
                )
            self.in_use += nbytes
        with on_error(self._less, nbytes):
            return super().allocate(nbytes)

    def deallocate(self, address: int, nbytes: int) -> None:
        """Give memory back."""
        try:
            super().deallocate(address, nbytes)
        finally:
            self._less(nbytes)

    def _less(self, nbytes: int) -> None:
        with self._lock:
            self.in_use -= nbytes


class Counts(NamedTuple):
    """What went through a `Statistics`: bytes and number of allocations, now, at most and ever."""

    current_bytes: int
    current_count: int
    peak_bytes: int
    peak_count: int
    total_bytes: int
    total_count: int


class Statistics(_Adaptor):
    """An `Allocator` that counts.

    Args:
        upstream: the allocator that gives the memory; None: Haulage's own, a `Pool()`.

    Raises:
        TypeError: `upstream` is no allocator.
    """

    def __init__(self, upstream: Allocator | None = None) -> None:
        super().__init__(upstream)
        self._counts = Counts(0, 0, 0, 0, 0, 0)

    @property
    def counts(self) -> Counts:
        """The numbers of this moment."""
        return self._counts

    def reset_peak(self) -> None:
        """Let the peaks begin anew, at what is in use now."""
        with self._lock:
            now = self._counts
            self._counts = now._replace(peak_bytes=now.current_bytes, peak_count=now.current_count)

    def allocate(self, nbytes: int) -> int:
        """The address of memory; what is refused does not count."""
        address = super().allocate(nbytes)
        with self._lock:
            was = self._counts
            in_use, count = was.current_bytes + nbytes, was.current_count + 1
            self._counts = Counts(
                in_use,
                count,
                max(was.peak_bytes, in_use),
                max(was.peak_count, count),
                was.total_bytes + nbytes,
                was.total_count + 1,
            )
        return address

    def deallocate(self, address: int, nbytes: int) -> None:
        """Give memory back."""
        try:
            super().deallocate(address, nbytes)
        finally:
            with self._lock:
                was = self._counts
                self._counts = was._replace(
                    current_bytes=was.current_bytes - nbytes, current_count=was.current_count - 1
                )


class Writable(Protocol):
    """A text file."""

    def write(self, text: str, /) -> object:
        """Write `text`."""
        ...


class Log(_Adaptor):
    """An `Allocator` that writes down each call, once it is done.

    A file gets one line of comma-separated values for each: seconds (`time.monotonic`), thread,
    `allocate`, `deallocate` or `failed` (to allocate), address in hexadecimal, bytes. A
    `logging.Logger` gets the same as messages of level INFO, failures as WARNING.

    Args:
        upstream: the allocator that gives the memory; None: Haulage's own, a `Pool()`.
        to: a text file that is open for writing, or a `logging.Logger`; None: `sys.stderr`.

    Raises:
        TypeError: `upstream` is no allocator, or `to` is nothing that can be written to.
    """

    def __init__(
        self, upstream: Allocator | None = None, to: Writable | logging.Logger | None = None
    ) -> None:
        super().__init__(upstream)
        if to is None:
            to = sys.stderr
        if not isinstance(to, logging.Logger) and not hasattr(to, "write"):
            raise TypeError(f"Log(to={to!r}): expected a text file or a logging.Logger")
        self._to: Any = to

    def allocate(self, nbytes: int) -> int:
        """The address of memory."""
        try:
            address = super().allocate(nbytes)
        except Exception:
            self._write("failed", 0, nbytes)
            raise
        with on_error(super().deallocate, address, nbytes):
            self._write("allocate", address, nbytes)
        return address

    def deallocate(self, address: int, nbytes: int) -> None:
        """Give memory back."""
        super().deallocate(address, nbytes)
        self._write("deallocate", address, nbytes)

    def _write(self, call: str, address: int, nbytes: int) -> None:
        if isinstance(self._to, logging.Logger):
            level = logging.WARNING if call == "failed" else logging.INFO
            self._to.log(level, "%s %d bytes at %#x", call, nbytes, address)
        else:
            thread = threading.get_ident()
            line = f"{time.monotonic():.6f},{thread},{call},{address:#x},{nbytes}\n"
            with self._lock:
                self._to.write(line)


class Failing(_Adaptor):
    """An `Allocator` some of whose allocations fail, to test what a program does then.

    A call fails if any of the conditions that are given says so. Haulage does not ask again then,
    as it does once after other MemoryErrors: who makes the array gets what is raised here.

    Args:
        upstream: the allocator that gives the memory; None: Haulage's own, a `Pool()`.
        nth: the number of the call of `allocate` that fails, counted from 1; or several of them.
        every: each call whose number is a multiple of it fails.
        probability: how likely each call fails, from 0 to 1.
        seed: chooses which calls these are; the same ones each time.
        error: what is raised, an exception class or a function that is given the message.

    Attributes:
        calls: how often `allocate` was called.
        failures: how often it was made to fail.

    Raises:
        TypeError: `upstream` is no allocator, or a number is none.
        ValueError: a number is out of its range.
    """

    def __init__(
        self,
        upstream: Allocator | None = None,
        *,
        nth: int | Collection[int] = (),
        every: int | None = None,
        probability: float = 0.0,
        seed: int = 0,
        error: Callable[[str], BaseException] = OutOfMemory,
    ) -> None:
        super().__init__(upstream)
        several: Any = (nth,)
        if isinstance(nth, Collection) and getattr(nth, "shape", None) != ():
            several = nth
        self._nth = frozenset(whole_number(one, "Failing: nth", 1) for one in several)
        self._every = None if every is None else whole_number(every, "Failing: every", 1)
        if not (isinstance(probability, (int, float)) and 0 <= probability <= 1):
            raise ValueError(f"Failing(probability={probability!r}): expected 0 to 1")
        if not callable(error):
            raise TypeError(f"Failing(error={error!r}): expected an exception class")
        self._probability = probability
        self._chance = random.Random(whole_number(seed, "Failing: seed"))
        self._error = error
        self.calls = 0
        self.failures = 0

    def allocate(self, nbytes: int) -> int:
        """The address of memory, unless this call is one that fails."""
        with self._lock:
            self.calls += 1
            number = self.calls
            drawn = self._chance.random()
            fails = (
                number in self._nth
                or (self._every is not None and number % self._every == 0)
                or drawn < self._probability
            )
            self.failures += fails
        if fails:
            error = self._error(f"call {number} of {self!r}, for {nbytes} bytes, was made to fail")
            error.is_final = True  # type: ignore[attr-defined]
            try:
                raise error
            finally:
                del error  # which holds this frame
        return super().allocate(nbytes)
