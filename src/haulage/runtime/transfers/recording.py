"""`haulage.transfers`, `assert_no_transfers` and `max_transfers`: what a block copies."""

import functools
import inspect
import operator
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any, Protocol, Self

from haulage import forks
from haulage.errors import TransferError
from haulage.runtime.process import runtime
from haulage.runtime.transfers.entries import Transfer, Transfers, lines, total

_changing = forks.lock()


class _Copy(Protocol):
    """A copy that is told."""

    @property
    def transfer(self) -> Transfer: ...


class transfers(Transfers):
    """`with haulage.transfers() as t:` records each transfer made inside, by whatever thread.

    Those are copies between the host and a device, and between two devices: of SmartArrays, by
    `to_device`, `copy_to_host` and `copy_to_device`, by assignments of host arrays to `a[...]`, by
    reading elements, and of host arrays that kernels are given where they cannot use them in place.
    Not those are fills with one value, copies within a device, arguments that are numbers, and what
    graphs copy when they run. A copy counts when it is handed to its stream.

    `t` is a sequence of `Transfer`, inside and afterwards. Blocks may be nested; each has what
    was copied within it.

    Raises:
        RuntimeError: the same object is entered again inside its block.
    """

    def __init__(self) -> None:
        super().__init__()
        self._inside = False

    def __enter__(self) -> Self:
        with _changing:
            if self._inside:
                raise RuntimeError("this object records already; make one for each block")
            self._inside = True
            runtime.current.watch(self)
        return self

    def __exit__(self, *exception: object) -> None:
        with _changing:
            self._inside = False
            runtime.current.unwatch(self)

    def moved(self, one: Transfer) -> None:
        """A transfer was made; Haulage tells."""
        self._entries.append(one)

    def around(self, copy: _Copy, call: Callable[[], object]) -> None:
        """A copy of no SmartArray is made by `call`; Haulage tells."""
        call()
        self._entries.append(copy.transfer)

    def closing(self, block: Any) -> None:
        """That copies nothing."""

    def let_go(self) -> None:
        """It holds no memory of devices."""


class max_transfers(ContextDecorator):
    """`with haulage.max_transfers(2):` fails if more is copied inside, by whatever thread; the
    message lists each transfer and its cause. `@haulage.max_transfers(2)` does so for each call of
    a function, or of a coroutine function until it ends. What counts is told at
    `haulage.transfers`.

    Args:
        n: so many transfers are allowed; None: any number.
        bytes: so many bytes in all; None: any number.

    Raises:
        TransferError: at the end, an AssertionError: there were more. Not where the body has failed
            itself.
        TypeError: neither is given, or one is no whole number; what is decorated is a class, or a
            generator function, whose body a call does not run.
        ValueError: one is negative.
        RuntimeError: the same object is entered again inside its block.
    """

    def __init__(self, n: int | None = None, bytes: int | None = None) -> None:
        if n is None and bytes is None:
            raise TypeError("max_transfers(): give n, bytes or both")
        self._n = _limit("n", n)
        self._bytes = _limit("bytes", bytes)
        self._seen = transfers()

    def __call__(self, func: Any) -> Any:
        what = f"{type(self).__name__} around {getattr(func, '__qualname__', func)}"
        if inspect.isclass(func):
            raise TypeError(f"{what}: is a class; decorate its functions")
        if inspect.isgeneratorfunction(func) or inspect.isasyncgenfunction(func):
            raise TypeError(
                f"{what}: a call of it does not run its body; put a `with` into the body"
            )
        if not inspect.iscoroutinefunction(func):
            return super().__call__(func)

        @functools.wraps(func)
        async def watched(*args: Any, **kwargs: Any) -> Any:
            with self._recreate_cm():
                return await func(*args, **kwargs)

        return watched

    def _recreate_cm(self) -> Self:
        # One for each call, which may be made inside of another.
        made = object.__new__(type(self))
        made._n, made._bytes, made._seen = self._n, self._bytes, transfers()
        return made

    def __enter__(self) -> transfers:
        return self._seen.__enter__()

    def __exit__(self, failed: type[BaseException] | None, *exception: object) -> None:
        seen, self._seen = self._seen, transfers()
        seen.__exit__()
        if failed is not None:
            return
        too_many = self._n is not None and len(seen) > self._n
        too_large = self._bytes is not None and seen.nbytes > self._bytes
        if too_many or too_large:
            error = TransferError("\n".join([self._verdict(seen), *lines(seen)]))
            error.transfers = Transfers(seen)
            raise error

    def _verdict(self, seen: transfers) -> str:
        allowed = []
        if self._n is not None:
            allowed.append(f"{self._n:,}")
        if self._bytes is not None:
            allowed.append(f"{self._bytes:,} bytes")
        most = "none is allowed" if self._n == 0 else f"at most {' and '.join(allowed)} allowed"
        return f"{total(len(seen), seen.nbytes)}; {most}:"


class assert_no_transfers(max_transfers):
    """`with haulage.assert_no_transfers():` fails if anything is copied inside between the host and
    a device or between devices: `max_transfers(0)`.

    Raises:
        TransferError, TypeError: as `max_transfers`.
    """

    def __init__(self, *given: Any) -> None:
        if given:
            raise TypeError(
                f"assert_no_transfers({given[0]!r}): takes nothing; write `with "
                "haulage.assert_no_transfers():`, or as a decorator @haulage.assert_no_transfers()"
            )
        super().__init__(0)


def _limit(name: str, value: Any) -> int | None:
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(
            f"max_transfers({name}={value!r}): expected a whole number, as in "
            "@haulage.max_transfers(2)"
        ) from None
    if number < 0:
        raise ValueError(f"max_transfers({name}={value!r}): expected 0 or more")
    return number
