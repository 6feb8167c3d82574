"""Compiling kernels, with a device or without."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from haulage import config
from haulage.checks import flag
from haulage.compiler import versions
from haulage.compiler.options import Options
from haulage.errors import Unsupported
from haulage.kernel.configuration import check_hints
from haulage.kernel.signatures import keys_of
from haulage.kernel.vocabulary import CUDA, Vocabulary
from haulage.platforms import current_target, platform_of, target_named
from haulage.runtime.arrays.keys import Key
from haulage.runtime.launch.loaded import ANY_BLOCK, normalise_dims
from haulage.tracebacks import brief_errors

if TYPE_CHECKING:
    from haulage.compiler.body import Body
    from haulage.compiler.code import Code


def options_for(
    fastmath: Any,
    debug: bool = False,
    hints: Mapping[str, Any] | None = None,
    boundscheck: bool = False,
) -> Options:
    """Compiler options from what users write: True, False or fast-math flags; whether to debug; and
    those of `jit`'s other options that make different code; whether to check indices, unless
    `HAULAGE_BOUNDSCHECK` says it."""
    told = config.bounds_checks()
    given = {name: value for name, value in (hints or {}).items() if value is not None}
    bounds = given.get("launch_bounds", ())
    return Options(
        fastmath=fastmath if isinstance(fastmath, bool) else _flags(fastmath),
        debug=debug,
        boundscheck=(boundscheck or None) if told is None else told,
        optimised=flag(given.get("opt", True), "opt"),
        lineinfo=flag(given.get("lineinfo", False), "lineinfo"),
        launch_bounds=tuple(bounds) if isinstance(bounds, (tuple, list)) else (bounds,),
        max_registers=given.get("max_registers", 0),
    )


def _flags(given: Any) -> frozenset[str]:
    try:
        return frozenset(given or ())
    except (TypeError, ValueError):
        raise TypeError(
            f"fastmath={given!r}: expected True, False or a set of names of flags"
        ) from None


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

    if options.linked and not target.links:
        raise Unsupported(
            f"kernel {function.__qualname__}: jit(link=...) names code for NVIDIA's GPUs, which "
            f"kernels for {target.architecture} cannot be linked with; write it in Python with "
            "@cuda.jit(device=True)"
        )
    try:
        kinds = tuple(numba_bridge.numba_type(key) for key in keys)
    except TypeError as error:
        raise numba_bridge.UntypedArgument(f"kernel {function.__qualname__}: {error}") from error
    platform = platform_of(target.kind)
    body: Body = platform.body_class()(
        function, kinds, target, platform.options_of_code(options), anew=anew
    )
    return body


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


@brief_errors
def compile(
    function: Any,
    signature: Any,
    target: str = "host",
    *,
    block: Any = CUDA.usual_block,
    fastmath: Any = None,
    unit_strides: str | Mapping[str, str] | None = None,
    nonnegative: bool | Iterable[str] = False,
    **options: Any,
) -> "Code":
    """Compile a kernel for a target, without any device.

    Args:
        function: a Python function, or a kernel made by `@jit`; a function is taken as one of
            `cuda`, with 32 lanes a warp.
        signature: argument types: `"void(float32[:], int64)"`, a tuple of NumPy dtypes or Numba
            types, or a Numba signature.
        target: `host`, this computer's processor; NVIDIA's name for a generation of its GPUs, as
            `sm_90`, for which the code is PTX; or AMD's, as `gfx942`, for which it is a code
            object.
        block: threads of a block, an int or up to three; code for the CPU is made for one size,
            that for GPUs is the same for all.
        fastmath: as for `jit`; None is what the kernel was made with, and False for a function.
        unit_strides: the version of code for the CPU that launches take whose arrays have unit
            stride along the axis "last" or "first": of all arrays whose types leave their strides
            open, or of those that are named; None is the code for all strides.
        nonnegative: likewise, the version that launches take whose integers are within 0 ..
            2**31 - 1: True for all signed ones of 32 bits or more, or the names of some.
        options: `debug`, `opt`, `lineinfo`, `launch_bounds` and `max_registers`, as for `jit`; what
            is not given is what the kernel was made with. All but `debug` are for GPUs.

    Returns:
        An object with `.llvm` and `.asm` (texts), `.code` (bytes), `.metadata` (a dictionary) and
        `.stages` (every stage's text by name).

    Raises:
        ValueError: the target is unknown, or the block's size is, or an option's value; there is no
            such version.
        TypeError: it is no function, the signature names no types, or an option is unknown.
        CompileError: the function cannot be compiled for it, or takes more than it has.
    """
    py_func = getattr(function, "py_func", function)
    if not inspect.isfunction(py_func):
        raise TypeError(f"compile takes a Python function or a kernel, got {function!r}")
    asked = _with_given(getattr(function, "haulage_options", Options()), fastmath, options)
    keys = keys_of(signature)
    vocabulary = getattr(function, "vocabulary", CUDA)
    made = target_named(target, vocabulary.warp_size)
    body = body_for(py_func, keys, made, asked)
    size = normalise_dims(block, "blockdim")
    version = versions.GENERAL
    if unit_strides is not None or nonnegative:
        if not body.has_versions:
            raise ValueError("unit_strides, nonnegative: only code for the CPU has versions")
        version = versions.asked(body.lowered, unit_strides, nonnegative)
    code = body.code(size if body.is_per_block else ANY_BLOCK, config.thread_way(), version)
    body.check_code(code)
    return code


# Option of `jit` that makes different code: its name among the compiler's options.
_OPTIONS = {
    "fastmath": "fastmath",
    "debug": "debug",
    "boundscheck": "boundscheck",
    "opt": "optimised",
    **{name: name for name in ("lineinfo", "launch_bounds", "max_registers")},
}


def _with_given(made_with: Options, fastmath: Any, given: Mapping[str, Any]) -> Options:
    """A kernel's options, changed to what is given."""
    unknown = sorted(given.keys() - _OPTIONS)
    if unknown:
        raise TypeError(f"compile got unknown options: {', '.join(unknown)}")
    if fastmath is not None:
        given = {"fastmath": fastmath, **given}
    check_hints(dict(given))
    checks = ("fastmath", "debug", "boundscheck")
    hints = {name: value for name, value in given.items() if name not in checks}
    debug, boundscheck = bool(given.get("debug")), bool(given.get("boundscheck"))
    wanted = options_for(fastmath, debug, hints, boundscheck)
    changed = {_OPTIONS[name]: getattr(wanted, _OPTIONS[name]) for name in given}
    return replace(made_with, **changed)
