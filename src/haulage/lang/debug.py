"""Where a debugger is to stop: `breakpoint()` and `cuda.set_trace()`."""

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import CodeType, FunctionType
from typing import Any

from haulage.lang.word import word


@word("set_trace")
def set_trace(tools: Any) -> Any:
    """`set_trace()`: stop here in pdb, as `breakpoint()` does; see the page on debugging.

    A launch on the CPU device runs the kernel as Python for that.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        if not context.haulage_target.has_breakpoints:
            raise tools.TypingError(
                "breakpoint() and set_trace() stop on the CPU device only; run the program on it, "
                "as in haulage debug program.py or HAULAGE_DEVICE=cpu, or take them out"
            )
        # Blocks that no debugger runs pass by.
        return context.get_dummy_value()

    return tools.signature(tools.types.none), generate


def is_stop(value: Any) -> bool:
    """Whether a kernel that calls `value` asks for a debugger."""
    return value is breakpoint or value is set_trace or value is _of_pdb()


def _of_pdb() -> Callable[..., Any] | object:
    """Python's own `pdb.set_trace`, as programs for Numba's simulator have it."""
    pdb = sys.modules.get("pdb")
    return object() if pdb is None else pdb.set_trace


def asks(function: Any) -> bool:
    """Whether a kernel's function, or one that it calls, asks for a debugger."""
    return _asks(function, set())


def _asks(function: Any, known: set[int]) -> bool:
    function = getattr(function, "py_func", function)
    if not isinstance(function, FunctionType) or id(function) in known:
        return False
    known.add(id(function))
    if (function.__module__ or "").partition(".")[0] in ("haulage", "numba", "numpy"):
        return False
    names = set(names_of(function.__code__))
    if "set_trace" in names or ("breakpoint" in names and "breakpoint" not in function.__globals__):
        return True
    values = [function.__globals__[name] for name in names if name in function.__globals__]
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # it has nothing yet
            values.append(cell.cell_contents)
    return any(is_stop(value) or _asks(value, known) for value in values)


def names_of(code: CodeType) -> Iterator[str]:
    """The names of globals and attributes that code has, that of inner functions too."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from names_of(each)
