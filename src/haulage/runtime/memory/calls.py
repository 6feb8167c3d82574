"""What an allocator is, and how it is called."""

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from haulage.runtime.device import current_device

__all__ = ["Allocator", "Calls", "end_of", "name_of"]


class Allocator(Protocol):
    """What gives memory of a device: any object with these two methods.

    The device is the current one when they are called, and they are called by one thread at a time.
    Where a method has a parameter `stream` without a default, the default stream of the device is
    given for it: memory is used by any stream from then on, and it comes back when all are done.
    """

    def allocate(self, nbytes: int, /) -> int:
        """Give memory.

        Args:
            nbytes: how much; never 0.

        Returns:
            Its address, a multiple of 16, that the device reaches. (An int, or a ctypes integer.)

        Raises:
            MemoryError: there is no room. It is asked once more after Haulage has given back all
                that it can.
        """
        ...

    def deallocate(self, address: int, nbytes: int, /) -> object:
        """Take memory back: what `allocate(nbytes)` gave, once for each, when nothing uses it.

        It is not called for what is in use when the interpreter ends.
        """
        ...


class Calls:
    """The two methods of an allocator, to be called as the protocol has them.

    Raises:
        TypeError: it has no such methods.
    """

    __slots__ = ("allocate", "deallocate")

    def __init__(self, allocator: Any) -> None:
        methods: list[Any] = [getattr(allocator, name, None) for name in ("allocate", "deallocate")]
        if isinstance(allocator, type) or not all(callable(method) for method in methods):
            raise TypeError(
                f"{allocator!r} is no allocator: expected an object with the methods "
                "allocate(nbytes) and deallocate(address, nbytes)"
            )
        self.allocate, self.deallocate = map(_with_stream, methods)


def name_of(allocator: Any) -> str:
    """The name of an allocator in messages: of its class, with those that it hands calls on to."""
    upstream = getattr(allocator, "upstream", None)
    name = type(allocator).__name__
    return name if upstream is None else f"{name}({name_of(upstream)})"


def end_of(allocator: Any) -> Any:
    """The last one of those that hand calls on."""
    upstream = getattr(allocator, "upstream", None)
    return allocator if upstream is None else end_of(upstream)


def _with_stream(method: Callable[..., Any]) -> Callable[..., Any]:
    try:
        stream = inspect.signature(method).parameters.get("stream")
    except (TypeError, ValueError):  # one in C that does not tell
        return method
    if stream is None or stream.default is not stream.empty:
        return method
    return partial(_on_default_stream, method)


def _on_default_stream(method: Callable[..., Any], *args: int) -> Any:
    return method(*args, stream=current_device().default_stream)
