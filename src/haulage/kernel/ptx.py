"""numba.cuda's functions that give NVIDIA's code; they need no GPU and no driver.

They differ in their defaults and in what they give back, and each gives all that it was given on by
its name: `locals()`, at a function's begin, is just that.
"""

import inspect
import re
from collections.abc import Mapping
from typing import Any

from haulage.checks import flag
from haulage.compiler.linked import Linked, is_name
from haulage.compiler.options import Options
from haulage.errors import Unsupported
from haulage.kernel import advice
from haulage.kernel.compilation import options_for
from haulage.kernel.configuration import check_hints
from haulage.kernel.vocabulary import CUDA
from haulage.platforms import target_named
from haulage.runtime.devices import registry
from haulage.tracebacks import brief_errors

# The oldest generation that CUDA 13 has code for.
DEFAULT_CAPABILITY = (7, 5)


@brief_errors
def compile(
    pyfunc: Any,
    sig: Any,
    debug: bool = False,
    lineinfo: bool = False,
    device: bool = True,
    fastmath: Any = False,
    cc: Any = None,
    opt: Any = True,
    abi: str = "c",
    abi_info: Any = None,
    output: str = "ptx",
    forceinline: bool = False,
    launch_bounds: Any = None,
) -> tuple[str, Any]:
    """`cuda.compile`: PTX of a function.

    Args:
        pyfunc: a Python function, a kernel or a device function; of the latter two the Python
            function is taken.
        sig: the arguments' types, or a signature; a result is converted to its type.
        debug, lineinfo, fastmath, opt: as for `cuda.jit`.
        device: make a function that kernels call, rather than a kernel.
        cc: compute capability of the GPUs, (9, 0) for example; None is Numba's setting
            CUDA_DEFAULT_PTX_CC, and at least (7, 5). (9, 0, "a") is for that generation alone and
            (10, 0, "f") for its family, with what only these have.
        abi: how a function is called: "c", by its result; or "numba", which gives back a status
            and writes the result where the first parameter says. Kernels have Numba's.
        abi_info: `{"abi_name": ...}` is the name of a function with C's; without it, it has that of
            the Python function, and `_3c` stands for a `<`, as in `_3clambda_3e`.
        output: "ptx".
        forceinline: not for PTX, as in numba.cuda, in which other programs inline nothing.
        launch_bounds: of a kernel, as for `cuda.jit`.

    Returns:
        (text of PTX, Numba type of the result)

    Raises:
        Unsupported: `abi` is neither "c" nor "numba", or "c" for a kernel; `output` is not "ptx".
            LTO-IR is made by NVIDIA's compiler NVVM alone.
        ValueError: `cc` is no compute capability that code can be made for, the name is none, or
            `forceinline`, or a kernel's or function's option where it is the other, is given.
        TypeError: it is no function, the signature names no types, or a kernel returns a value.
        CompileError: the function cannot be compiled for the signature.
    """
    code, _, result = _compiled(**locals())
    return code, result


@brief_errors
def compile_for_current_device(
    pyfunc: Any,
    sig: Any,
    debug: bool = False,
    lineinfo: bool = False,
    device: bool = True,
    fastmath: Any = False,
    opt: Any = True,
    abi: str = "c",
    abi_info: Any = None,
    output: str = "ptx",
    forceinline: bool = False,
    launch_bounds: Any = None,
) -> tuple[str, Any]:
    """`compile` for the compute capability of the current device; that of the CPU device is the
    level of its kernel words.

    Raises:
        As `compile`.
    """
    return compile(**locals(), cc=registry.current_device().properties.compute_capability)


@brief_errors
def compile_ptx(
    pyfunc: Any,
    sig: Any,
    debug: bool = False,
    lineinfo: bool = False,
    device: bool = False,
    fastmath: Any = False,
    cc: Any = None,
    opt: Any = True,
    abi: str = "numba",
    abi_info: Any = None,
    forceinline: bool = False,
    launch_bounds: Any = None,
) -> tuple[str, Any]:
    """`compile` with other defaults: of a kernel, in Numba's convention.

    Raises:
        As `compile`.
    """
    return compile(**locals())


@brief_errors
def compile_ptx_for_current_device(
    pyfunc: Any,
    sig: Any,
    debug: bool = False,
    lineinfo: bool = False,
    device: bool = False,
    fastmath: Any = False,
    opt: Any = True,
    abi: str = "numba",
    abi_info: Any = None,
    forceinline: bool = False,
    launch_bounds: Any = None,
) -> tuple[str, Any]:
    """`compile_ptx` for the current device, as `compile_for_current_device`.

    Raises:
        As `compile`.
    """
    return compile(**locals(), cc=registry.current_device().properties.compute_capability)


@brief_errors
def compile_all(
    pyfunc: Any,
    sig: Any,
    debug: bool = False,
    lineinfo: bool = False,
    device: bool = True,
    fastmath: Any = False,
    cc: Any = None,
    opt: Any = True,
    abi: str = "c",
    abi_info: Any = None,
    output: str = "ptx",
    forceinline: bool = False,
    launch_bounds: Any = None,
) -> tuple[list[str | Linked], Any]:
    """`compile` with a list of codes: the function's, and what it is to be linked with; of these
    `kind` says what each is, and `data` has the bytes.

    Raises:
        As `compile`.
    """
    code, linked, result = _compiled(**locals())
    return [code, *linked], result


# (PTX, what it is to be linked with, type of the result)
_Compiled = tuple[str, tuple[Linked, ...], Any]


def _compiled(
    pyfunc: Any,
    sig: Any,
    debug: bool,
    lineinfo: bool,
    device: bool,
    fastmath: Any,
    cc: Any,
    opt: Any,
    abi: str,
    abi_info: Any,
    output: str,
    forceinline: bool,
    launch_bounds: Any,
) -> _Compiled:
    function = getattr(pyfunc, "py_func", pyfunc)
    if not inspect.isfunction(function):
        raise TypeError(f"cuda.compile takes a Python function, got {pyfunc!r}")
    called = f"cuda.compile({function.__qualname__})"
    device, forceinline = flag(device, "device"), flag(forceinline, "forceinline")
    _check(called, device, abi, output)
    _check_options(called, device, forceinline, launch_bounds)
    debug, lineinfo, opt = flag(debug, "debug"), flag(lineinfo, "lineinfo"), flag(opt, "opt")
    advice.of_options({"opt": opt, "lineinfo": lineinfo}, debug)
    hints = {"lineinfo": lineinfo, "opt": opt, "launch_bounds": launch_bounds}
    options = options_for(fastmath, debug, hints)
    target = target_named(_architecture(cc), CUDA.warp_size)
    c_name = _c_name(called, function, abi, abi_info)
    if device:
        return _function(function, sig, target, options, c_name)
    return _kernel(function, sig, target, options)


def _kernel(function: Any, sig: Any, target: Any, options: Options) -> _Compiled:
    from haulage import numba_bridge
    from haulage.compiler.frontend import parse_signature
    from haulage.compiler.gpu.nvidia.emit import PTXBody

    kinds = parse_signature(sig)
    body = PTXBody(function, kinds, target, options)
    code = body.for_any_block()
    body.check_code(code)
    return code.asm, code.linked, numba_bridge.kernel_signature(kinds).return_type


def _function(
    function: Any, sig: Any, target: Any, options: Options, c_name: str | None
) -> _Compiled:
    from haulage.compiler.frontend import parse_declaration
    from haulage.compiler.gpu.nvidia.function import function_code

    arguments, returned = parse_declaration(sig)
    built, lowered = function_code(function, arguments, returned, target, options, c_name)
    return built.asm, lowered.linked, lowered.result


def _check(called: str, device: bool, abi: str, output: str) -> None:
    if not isinstance(abi, str) or abi not in ("numba", "c"):
        raise Unsupported(f"{called}: Unsupported ABI: {abi}; there are numba and c")
    if abi == "c" and not device:
        raise Unsupported(f"{called}: The C ABI is not supported for kernels; say abi='numba'")
    if isinstance(output, str) and output == "ltoir":
        raise Unsupported(
            f"{called}: LTO-IR is made by NVIDIA's compiler NVVM, and Haulage makes PTX with LLVM; "
            "say output='ptx', which every linker of NVIDIA's takes"
        )
    if not isinstance(output, str) or output != "ptx":
        raise Unsupported(f"{called}: Unsupported output type: {output}; there is ptx")


def _check_options(called: str, device: bool, forceinline: bool, launch_bounds: Any) -> None:
    if forceinline:
        raise ValueError(
            f"{called}: Can only designate forced inlining in LTO-IR, which is not made here; "
            "functions that this one calls are inlined as it is"
        )
    check_hints({"launch_bounds": launch_bounds})
    if device and launch_bounds is not None:
        raise ValueError(f"{called}: launch_bounds are those of a kernel; say device=False")


def _architecture(cc: Any) -> str:
    from haulage import numba_bridge  # noqa: F401 (Numba, whose setting is looked at)
    from haulage.targets.nvidia_architectures import for_capability

    return for_capability(
        max(DEFAULT_CAPABILITY, advice.setting("CUDA_DEFAULT_PTX_CC")) if cc is None else cc
    )


def _c_name(called: str, function: Any, abi: str, abi_info: Any) -> str | None:
    info = {} if abi_info is None else abi_info
    known = {"abi_name"} if abi == "c" else set()
    if not isinstance(info, Mapping) or info.keys() - known:
        expected = "{'abi_name': ...} or None" if known else "None"
        raise ValueError(f"{called}: abi_info={info!r} with abi={abi!r}: expected {expected}")
    if abi != "c":
        return None
    name: str = info.get("abi_name", _escaped(function.__name__))
    if not is_name(name):
        raise ValueError(
            f"{called}: {name!r} is no name for a function in C's convention; give one of letters, "
            "digits and underscores as abi_info={'abi_name': ...}"
        )
    return name


def _escaped(name: str) -> str:
    """The name of a Python function as Numba writes it: `<lambda>` is `_3clambda_3e`."""
    return re.sub(
        r"(?a)\W", lambda found: "".join(f"_{byte:02x}" for byte in found[0].encode()), name
    )
