"""numba.cuda's functions that give NVIDIA's code without a device; refused until it can be made."""

from typing import Any, NoReturn

from haulage.errors import Unsupported


def _refuse(name: str, pyfunc: Any) -> NoReturn:
    function = getattr(pyfunc, "__qualname__", repr(pyfunc))
    raise Unsupported(
        f"cuda.{name}({function}): PTX and LTO-IR are code for NVIDIA's GPUs, which this version "
        "does not make; haulage.compile(function, signature) gives this computer's code"
    )


def compile(pyfunc: Any, sig: Any, **options: Any) -> NoReturn:
    """`cuda.compile`: PTX or LTO-IR of a function.

    Raises:
        Unsupported: always; nothing in this version makes such code.
    """
    _refuse("compile", pyfunc)


def compile_for_current_device(pyfunc: Any, sig: Any, **options: Any) -> NoReturn:
    """`compile` for the current device.

    Raises:
        Unsupported: always, as `compile`.
    """
    _refuse("compile_for_current_device", pyfunc)


def compile_ptx(pyfunc: Any, sig: Any, **options: Any) -> NoReturn:
    """`compile` to PTX.

    Raises:
        Unsupported: always, as `compile`.
    """
    _refuse("compile_ptx", pyfunc)


def compile_ptx_for_current_device(pyfunc: Any, sig: Any, **options: Any) -> NoReturn:
    """`compile_ptx` for the current device.

    Raises:
        Unsupported: always, as `compile`.
    """
    _refuse("compile_ptx_for_current_device", pyfunc)


def compile_all(pyfunc: Any, sig: Any, **options: Any) -> NoReturn:
    """`compile` with a list of codes that are to be linked with the result.

    Raises:
        Unsupported: always, as `compile`.
    """
    _refuse("compile_all", pyfunc)
