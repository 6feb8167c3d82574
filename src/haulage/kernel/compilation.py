"""Compiling kernels, with a device or without."""

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from haulage import config
from haulage.compiler.options import Options
from haulage.kernel.signatures import keys_of
from haulage.kernel.vocabulary import CUDA, Vocabulary
from haulage.platforms import PLATFORMS, current_target
from haulage.runtime.launching.arguments import Key
from haulage.runtime.launching.launch import normalise_dims

if TYPE_CHECKING:
    from haulage.compiler.code import Code
    from haulage.compiler.emit import Body


def options_for(fastmath: Any, debug: bool = False) -> Options:
    """Compiler options from what users write: True, False or fast-math flags; whether to debug."""
    if fastmath is None:
        return Options(debug=debug)
    return Options(fastmath if isinstance(fastmath, bool) else frozenset(fastmath), debug)


def body_for(
    function: Callable[..., Any],
    keys: tuple[Key, ...],
    target: Any,
    options: Any,
    *,
    anew: bool = False,
) -> "Body":
    """The function typed and lowered for arguments with `keys`.

    With `anew`, functions that it calls are compiled again, with what their globals are now.

    Raises:
        LaunchTypeError: Numba has no type for an argument; a TypingError of Numba's too.
        CompileError: it cannot be compiled for them.
    """
    from haulage import numba_bridge
    from haulage.compiler.emit import Body

    try:
        kinds = tuple(numba_bridge.numba_type(key) for key in keys)
    except TypeError as error:
        raise numba_bridge.UntypedArgument(f"kernel {function.__qualname__}: {error}") from error
    return Body(function, kinds, target, options, anew=anew)


def result_type(
    function: Any, argument_types: tuple[Any, ...], vocabulary: Vocabulary, name: str
) -> Any:
    """The Numba type that a function returns to a kernel which calls it on the current device.

    Args:
        function: a Python function, a device function, or one that Numba compiled.
        argument_types: Numba types.
        vocabulary: that of the kernel.
        name: for messages.

    Raises:
        CompileError: it cannot be compiled for them.
    """
    from haulage.compiler import frontend

    target = current_target(vocabulary.warp_size)
    return frontend.result_type(function, argument_types, target, name)


def compile(
    function: Any,
    signature: Any,
    target: str = "host",
    *,
    block: Any = CUDA.usual_block,
    fastmath: Any = None,
) -> "Code":
    """Compile a kernel for a target, without any device.

    Args:
        function: a Python function, or a kernel made by `@jit`; a function is taken as one of
            `cuda`, with 32 lanes a warp.
        signature: argument types: `"void(float32[:], int64)"`, a tuple of NumPy dtypes or Numba
            types, or a Numba signature.
        target: `host`, this computer's processor.
        block: threads of a block, an int or up to three; code for the CPU is made for one size.
        fastmath: as for `jit`; None is what the kernel was made with, and False for a function.

    Returns:
        An object with `.llvm` and `.asm` (texts), `.code` (bytes), `.metadata` (a dictionary) and
        `.stages` (every stage's text by name).

    Raises:
        ValueError: the target is unknown, or the block's size is.
        TypeError: it is no function, or the signature names no types.
        CompileError: the function cannot be compiled for it.
    """
    if target != "host":
        raise ValueError(f"target {target!r}: this version compiles for 'host' only")
    py_func = getattr(function, "py_func", function)
    if not inspect.isfunction(py_func):
        raise TypeError(f"compile takes a Python function or a kernel, got {function!r}")
    made_with: Options | None = getattr(function, "haulage_options", None)
    options = made_with if made_with is not None and fastmath is None else options_for(fastmath)
    keys = keys_of(signature)
    vocabulary = getattr(function, "vocabulary", CUDA)
    made = PLATFORMS["cpu"].new_target(vocabulary.warp_size)
    body = body_for(py_func, keys, made, options)
    return body.code(normalise_dims(block, "blockdim"), config.thread_way())
