"""From what a back end reports about a stopped kernel to the exception that its user sees."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from haulage.backends.base import KernelStopped
from haulage.errors import KernelError

P = ParamSpec("P")
R = TypeVar("R")

# Filled by whoever loads a kernel: function handle -> the exception for a fault code.
describe: dict[int, Callable[[int], Exception]] = {}


def translate(stopped: KernelStopped) -> Exception:
    """The exception for the user: the kernel's own description of the fault if it has one."""
    made = describe.get(stopped.function)
    if made is None:
        return KernelError(f"a kernel stopped: {stopped}")
    return made(stopped.code)


def waited(wait: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Make a synchronising call of a back end; every one of them goes through here.

    Raises:
        KernelError: threads of a kernel that was waited for had failed.
    """
    try:
        return wait(*args, **kwargs)
    except KernelStopped as stopped:
        error = translate(stopped)
    raise error
