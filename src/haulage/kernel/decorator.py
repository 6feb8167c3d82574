"""The decorator that makes kernels and device functions."""

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from haulage.checks import flag
from haulage.kernel import advice
from haulage.kernel.compilation import options_for
from haulage.kernel.configuration import check_hints
from haulage.kernel.device_function import DeviceFunction
from haulage.kernel.kernel import Kernel
from haulage.kernel.linkable import pieces
from haulage.kernel.roc_kernel import RocKernel
from haulage.kernel.vocabulary import CUDA, ROC, Vocabulary
from haulage.spelling import did_you_mean
from haulage.tracebacks import brief_errors

# Options that make nothing different on the CPU; they are kept on the kernel for devices that
# use them.
_HINTS = (
    *("inline", "forceinline", "lineinfo", "lto", "opt"),
    *("max_registers", "launch_bounds", "shared_memory_carveout"),
)
_NAMED = ("device", "fastmath", "debug", "cache", "extensions", "link")
# Option: why what it asks for is not done.
_REFUSED = {
    **dict.fromkeys(
        ("argtypes", "restype", "bind"),
        'signatures are the first argument, as in jit("void(float32[:])")',
    ),
}


def jit(
    vocabulary: Vocabulary,
    func_or_sig: Any = None,
    *,
    device: bool = False,
    fastmath: Any = False,
    debug: Any = None,
    boundscheck: Any = False,
    cache: bool = False,
    extensions: Any = None,
    link: Any = None,
    **options: Any,
) -> Any:
    """Make a kernel, or with `device=True` a function for kernels, of a Python function.

    Use as `@jit`, `@jit(...)`, `@jit("void(float32[:], int32)")` or with a list of signatures.

    Args:
        func_or_sig: the function, a signature or a list of them. Of a kernel, a device function or
            a function of `numba.jit` the Python function is taken, and made anew with the options
            given here.
        device: make a function that kernels call.
        fastmath: True, or a set of LLVM's fast-math flags: floats may be reordered and rounded
            differently. Sums and products are contracted even without it, as on GPUs.
        debug: the launch waits for the kernel and raises what a thread of it failed of, with its
            thread and block, and division by zero and an index out of bounds are such failures.
            Where it is not said, Numba's setting `CUDA_DEBUGINFO_DEFAULT` is asked, if Numba is
            loaded.
        boundscheck: an index out of bounds is an error, raised by the next call that waits, as
            with `debug`; also in the functions that a kernel calls.
        cache: keep the compiled code on disk, for other processes. A function for kernels is kept
            as a part of the kernels that call it.
        extensions: objects that prepare the arguments of launches, see
            `haulage.kernel.parameters.prepared`.
        link: code of others that a kernel on an NVIDIA GPU is linked with, see `declare_device`; on
            other devices such a kernel cannot be compiled.
        options: hints (`inline`, `forceinline`, `lineinfo`, `lto`, `opt`, `max_registers`,
            `launch_bounds`, `shared_memory_carveout`) are kept in `hints` for the devices that
            use them. No launch has more threads a block than `launch_bounds`.

    Raises:
        ValueError: `launch_bounds` or `shared_memory_carveout` has a value that no device takes.
        TypeError: an option is unknown, or it is no function that is to be compiled.
        ValueError: `link` is given with `device=True`; name it in `declare_device`.
        NotImplementedError: `nopython=False`, which changes what a kernel does, or `argtypes`,
            `restype` or `bind` of old programs are given.

    Warns:
        NumbaInvalidConfigWarning: options that numba.cuda warns of, in programs that import it.
    """
    hints = {name: options.pop(name) for name in _HINTS if name in options}
    check_hints(hints)
    for name, why in _REFUSED.items():
        # Off is False, None or an empty sequence.
        wanted = options.pop(name, None)
        if flag(wanted, name):
            raise NotImplementedError(f"jit({name}={wanted!r}) is not there in this version: {why}")
    if not flag(options.pop("nopython", True), "nopython"):
        raise NotImplementedError("jit(nopython=False): kernels run without Python's interpreter")
    if options:
        names = sorted(options)
        hint = did_you_mean(names[0], (*_NAMED, *_HINTS)) if len(names) == 1 else ""
        raise TypeError(f"jit got unknown options: {', '.join(names)}{hint}")
    if debug is None:
        debug = advice.setting("CUDA_DEBUGINFO_DEFAULT")
    debug, device, cache = flag(debug, "debug"), flag(device, "device"), flag(cache, "cache")
    advice.of_options(hints, debug)
    if link and device:
        raise ValueError("jit(device=True, link=...): the kernels that call it are to be linked")
    boundscheck = flag(boundscheck, "boundscheck")
    chosen = replace(options_for(fastmath, debug, hints, boundscheck), linked=pieces(link))

    def decorate(function: Any, signatures: Sequence[Any]) -> Any:
        function = _python_function(function)
        if not inspect.isfunction(function):
            raise TypeError(f"jit takes a Python function, got {function!r}")
        if device:
            return DeviceFunction(function, vocabulary, chosen, hints, signatures)
        kind = RocKernel if vocabulary is ROC else Kernel
        kernel = kind(function, vocabulary, chosen, hints, signatures, cache)
        kernel.extensions.extend(extensions or ())
        return kernel

    if inspect.isfunction(_python_function(func_or_sig)):
        return decorate(func_or_sig, ())
    if not _is_signature(func_or_sig):
        raise TypeError(f"jit takes a Python function, a signature or a list, got {func_or_sig!r}")
    given = func_or_sig if isinstance(func_or_sig, list) else [func_or_sig]
    signatures = [item for item in given if item is not None]
    return brief_errors(lambda function: decorate(function, signatures))


def _python_function(value: Any) -> Any:
    """What a kernel, a device function or one of numba.jit's was made of; else `value` itself."""
    if isinstance(value, (Kernel, DeviceFunction)):
        return value.py_func
    # Numba's way for an object to name its attribute that holds the function.
    attribute = getattr(type(value), "__numba__", None)
    return value if attribute is None else getattr(value, attribute)


def _is_signature(value: Any) -> bool:
    if value is None or isinstance(value, (str, tuple)):
        return True
    if isinstance(value, list):
        return all(map(_is_signature, value))
    # Numba's own objects; this must not import it.
    return type(value).__module__.partition(".")[0] == "numba"


def cuda_jit(func_or_sig: Any = None, device: bool = False, **options: Any) -> Any:
    """`cuda.jit`: make a kernel with 32 lanes a warp; see `haulage.kernel.jit` for the options."""
    return jit(CUDA, func_or_sig, device=device, **options)


def roc_jit(signature: Any = None, device: bool = False, **options: Any) -> Any:
    """`roc.jit`: make a kernel with 64 lanes a wave; see `haulage.kernel.jit` for the options."""
    return jit(ROC, signature, device=device, **options)
