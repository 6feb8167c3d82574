"""PTX of a function that foreign kernels call: visible by a name, in one of two conventions.

By `numba`'s, the function gives back a status, 0 for success, and writes its result where its first
parameter says; arguments are passed flat, as Numba's data models have them. By `c`'s it gives back
its result, and what went wrong in it is not told.
"""

import re
from collections.abc import Callable
from typing import Any

from haulage.compiler import dynamic_rooms, llvm
from haulage.compiler.frontend import (
    LoweredFunction,
    lower_function,
    parse_function_signature,
)
from haulage.compiler.gpu.channel import with_channel
from haulage.compiler.gpu.grid import with_grid_barrier
from haulage.compiler.gpu.metadata import of_lines_only
from haulage.compiler.gpu.nvidia.build import Built, build
from haulage.compiler.gpu.nvidia.grid import WORDS
from haulage.compiler.helpers import with_helpers
from haulage.compiler.linked import DECLARED
from haulage.compiler.options import Options
from haulage.compiler.unrolling import keep_loops
from haulage.errors import CompileError
from haulage.targets.base import Target

# Until it is compiled: `sin` would be taken for the one of mathematics.
_OWN_NAME = "haulage_c_function"


def function_assembly(function: Any, signature: Any, target: Target) -> str:
    """PTX of a device function (a `kernel.DeviceFunction`) for arguments of types `signature`, by
    Numba's convention."""
    kinds, _ = parse_function_signature(signature)
    return function_code(function, kinds, None, target, function.haulage_options)[0].asm


def function_code(
    function: Callable[..., Any],
    argument_types: tuple[Any, ...],
    return_type: Any,
    target: Target,
    options: Options,
    c_name: str | None = None,
) -> tuple[Built, LoweredFunction]:
    """A Python function's code, and what the front end made of it.

    Args:
        return_type: the Numba type that the result is converted to; None is what it is.
        c_name: the name of the function in C's convention; None for one in Numba's, whose name is
            Numba's too.

    Raises:
        CompileError: it cannot be compiled for these types, or calls what has its name.
    """
    lowered = lower_function(function, argument_types, return_type, target, options)
    text = keep_loops(dynamic_rooms.settle(of_lines_only(lowered.llvm), lowered.entry, target))
    visible = lowered.entry
    if c_name and re.search(rf"\b{DECLARED}{re.escape(c_name)}(?![\w$])", text):
        raise CompileError(
            f"function {function.__qualname__}: it calls the declared function {c_name}, and "
            "cannot have the same name; give it another as abi_info={'abi_name': ...}"
        )
    if c_name is not None:
        visible, text = _OWN_NAME, _with_c_function(text, lowered, _OWN_NAME)
    text = with_channel(with_grid_barrier(with_helpers(text), WORDS))
    with llvm.LOCK:
        built = build(text, visible, target, options)
    if c_name is None:
        return built, lowered
    named = built._replace(
        linked=_named(built.linked, c_name),
        llvm=_named(built.llvm, c_name),
        asm=_named(built.asm, c_name),
    )
    return named, lowered


def _named(text: str, name: str) -> str:
    return re.sub(rf"\b{_OWN_NAME}(?=\b|_param_)", name, text)


def _with_c_function(text: str, lowered: LoweredFunction, name: str) -> str:
    given = ", ".join(f"{kind} %a{number}" for number, kind in enumerate(lowered.arguments))
    kind = lowered.returned
    lines = [
        f'define {_extension(lowered)}{kind or "void"} @"{name}"({given}) {{',
        f"  %result = alloca {kind or 'ptr'}",
        f'  %code = call i32 @"{lowered.entry}"(ptr %result{", " if given else ""}{given})',
    ]
    if kind is None:
        lines.append("  ret void")
    else:
        lines += [f"  %value = load {kind}, ptr %result", f"  ret {kind} %value"]
    return "\n".join([text, *lines, "}", ""])


def _extension(lowered: LoweredFunction) -> str:
    """How a result is made 32 bits wide, which callers compiled from C count on."""
    if lowered.returned not in ("i8", "i16"):
        return ""
    kind = getattr(lowered.result, "dtype", lowered.result)
    return "signext " if getattr(kind, "signed", False) else "zeroext "
