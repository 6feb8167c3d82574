"""numba.cuda's functions that give NVIDIA's code without a device; refused until it can be made.

What they are given is checked first, so that a program's own mistakes are told as such.
"""

from typing import Any, NoReturn

from haulage.errors import Unsupported
from haulage.kernel.compilation import options_for
from haulage.kernel.device_function import DeviceFunction
from haulage.kernel.vocabulary import CUDA


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
) -> NoReturn:
    """`cuda.compile`: PTX or LTO-IR of a function.

    Raises:
        Unsupported: always; nothing in this version makes such code. The message says so too if
            `abi` is neither "c" nor "numba", `output` neither "ptx" nor "ltoir", or `abi` is "c"
            for a kernel.
        TypeError: a kernel returns a value, or the signature names no types.
        CompileError: the function cannot be compiled for the signature.
    """
    _refuse("compile", pyfunc, sig, device, debug, fastmath, abi, output)


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
) -> NoReturn:
    """`compile` for the current device.

    Raises:
        Unsupported: always, as `compile`; so are the other errors.
    """
    _refuse("compile_for_current_device", pyfunc, sig, device, debug, fastmath, abi, output)


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
) -> NoReturn:
    """`compile` to PTX, of a kernel if nothing else is said.

    Raises:
        Unsupported: always, as `compile`; so are the other errors.
    """
    _refuse("compile_ptx", pyfunc, sig, device, debug, fastmath, abi, "ptx")


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
) -> NoReturn:
    """`compile_ptx` for the current device.

    Raises:
        Unsupported: always, as `compile`; so are the other errors.
    """
    _refuse("compile_ptx_for_current_device", pyfunc, sig, device, debug, fastmath, abi, "ptx")


def compile_all(pyfunc: Any, sig: Any, **options: Any) -> NoReturn:
    """`compile` with a list of codes that are to be linked with the result.

    Raises:
        Unsupported: always, as `compile`.
    """
    _refuse("compile_all", pyfunc, sig)


def _refuse(
    name: str,
    pyfunc: Any,
    sig: Any,
    device: bool = True,
    debug: bool = False,
    fastmath: Any = False,
    abi: str = "c",
    output: str = "ptx",
) -> NoReturn:
    function = getattr(pyfunc, "__qualname__", repr(pyfunc))
    if abi not in ("numba", "c"):
        raise Unsupported(f"cuda.{name}({function}): Unsupported ABI: {abi}; there are numba and c")
    if abi == "c" and not device:
        raise Unsupported(
            f"cuda.{name}({function}): The C ABI is not supported for kernels; say abi='numba'"
        )
    if output not in ("ptx", "ltoir"):
        raise Unsupported(
            f"cuda.{name}({function}): Unsupported output type: {output}; there are ptx and ltoir"
        )
    from haulage.compiler.frontend import parse_function_signature

    args, returned = parse_function_signature(sig)
    checked = DeviceFunction(pyfunc, CUDA, options_for(fastmath, bool(debug)), {})
    result = checked.compile_device(args, returned).signature.return_type
    if not device and str(result) not in ("none", "void"):
        raise TypeError(
            f"cuda.{name}({function}): CUDA kernel must have void return type; it returns {result}"
        )
    raise Unsupported(
        f"cuda.{name}({function}): PTX and LTO-IR are code for NVIDIA's GPUs, which this version "
        "does not make; haulage.compile(function, signature) gives this computer's code"
    )
