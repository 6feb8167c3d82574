"""Functions that kernels call."""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from haulage.compiler.linked import Linked, is_name
from haulage.compiler.options import Options
from haulage.errors import LaunchError, Unsupported
from haulage.kernel.as_function import AsFunction
from haulage.kernel.linkable import pieces
from haulage.kernel.vocabulary import VOCABULARIES, Vocabulary
from haulage.platforms import platform_of
from haulage.tracebacks import brief_errors


class DeclaredFunction:
    """A function in PTX or machine code: its `name`, its Numba signature `sig`, and by which
    convention it is called, `abi`."""

    def __init__(self, name: str, sig: Any, abi: str, linked: tuple[Linked, ...]) -> None:
        self.name = name
        self.sig = sig
        self.abi = abi
        # What kernels that name it are linked with.
        self.haulage_linked = linked

    @property
    def refusal(self) -> str:
        """Why kernels on other devices than NVIDIA's cannot name it."""
        return (
            f"declare_device({self.name!r}, ...): the function is code for NVIDIA's GPUs, which "
            "kernels on this device cannot be linked with; write it in Python with "
            "@cuda.jit(device=True)"
        )

    def __repr__(self) -> str:
        return f"<declared function {self.name}{self.sig}>"


def declare_device(
    name: str, sig: Any, link: Any = None, use_cooperative: bool = False, abi: str = "numba"
) -> DeclaredFunction:
    """`cuda.declare_device`: name a function in PTX or machine code, for kernels on NVIDIA's GPUs.

    A kernel that calls the function is linked with its code by the driver. On another device it
    cannot be compiled.

    Args:
        name: the function's.
        sig: its signature, with the type that it returns; arguments are converted to its types.
        link: its code: a path (`.ptx`, `.cubin`, `.fatbin`, `.o`, `.a`), an object such as
            `PTXSource`, or a sequence of these.
        abi: "numba": it gives a status, 0 for success, and writes its result where its first
            parameter says; "c": it gives its result.

    Raises:
        TypeError: the signature does not say what it returns, or names no types.
        ValueError: no function can have the name.
        Unsupported: `abi` is something else, the code is of a kind that cannot be linked, or the
            function waits for its whole grid (`use_cooperative`).
        OSError: a file cannot be read.
    """
    from haulage.compiler.frontend import declared_signature

    if not is_name(name):
        raise ValueError(
            f"declare_device({name!r}, ...): expected the name of a function as its code has it: "
            "of letters, digits and underscores"
        )
    if abi not in ("numba", "c"):
        raise Unsupported(
            f"declare_device({name!r}, ...): Unsupported ABI: {abi}; there are numba and c"
        )
    if use_cooperative:
        raise Unsupported(
            f"declare_device({name!r}, ...): functions that wait for the whole grid cannot be "
            "linked; wait for it in the kernel, with cuda.cg.this_grid().sync()"
        )
    return DeclaredFunction(name, declared_signature(sig), abi, pieces(link))


class DeviceFunction(AsFunction):
    """A function that kernels call; made by `@jit(device=True)`.

    It is compiled with the kernels that call it: for the types of the arguments, or for
    `haulage_signatures` only, if there are any; arguments are then converted to theirs.
    """

    def __init__(
        self,
        py_func: Callable[..., Any],
        vocabulary: Vocabulary,
        options: Options,
        hints: dict[str, Any],
        signatures: Sequence[Any] = (),
    ) -> None:
        super().__init__(py_func, vocabulary, options, hints)
        self.haulage_signatures = tuple(signatures)
        for signature in signatures:
            self._compile(signature)

    def _compile(self, signature: Any) -> None:
        from haulage.compiler.frontend import parse_declaration

        self.compile_device(*parse_declaration(signature))

    @brief_errors
    def inspect_llvm(self, args: Any) -> str:
        """The LLVM IR that the front end made for arguments of types `args`, with its callees."""
        from haulage.compiler.frontend import function_text

        return function_text(self.compile_device(args))

    @brief_errors
    def inspect_asm(self, args: Any) -> str:
        """Assembly of the function for arguments of types `args`, as if no kernel inlined it.

        Raises:
            Unsupported: functions are parts of kernels only on the device, as on AMD's GPUs.
        """
        target = self._target()
        return platform_of(target.kind).assembly_of_function(self, args, target)

    def inspect_sass(self, args: Any) -> NoReturn:
        """Refused: functions have no SASS of their own, on any device."""
        raise RuntimeError(
            f"Cannot inspect SASS of a device function ({self.__qualname__}): it is a part of the "
            "kernels that call it"
        )

    @brief_errors
    def __getitem__(self, configuration: Any) -> NoReturn:
        raise RuntimeError(
            f"Cannot compile a device function as a kernel: {self.__qualname__} was made with "
            "device=True; call it from a kernel, or leave that out"
        )

    @brief_errors
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise LaunchError(
            f"{self.__qualname__} is a device function: only kernels can call it "
            f"(its Python function is {self.__name__}.py_func)"
        )

    def _state(self) -> tuple[Any, ...]:
        own = (self.haulage_options, self.hints, self.haulage_signatures)
        return self.py_func, self.vocabulary.name, *own

    @classmethod
    def _rebuild(cls, *state: Any) -> "DeviceFunction":
        py_func, vocabulary, *own = state
        return cls(py_func, VOCABULARIES[vocabulary], *own)

    def __repr__(self) -> str:
        return f"<device function {self.__qualname__}>"
