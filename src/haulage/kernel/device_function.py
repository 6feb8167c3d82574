"""Functions that kernels call."""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from haulage.compiler.options import Options
from haulage.errors import LaunchError
from haulage.kernel.as_function import AsFunction
from haulage.kernel.vocabulary import VOCABULARIES, Vocabulary


class DeclaredFunction:
    """A function in PTX or CUDA C: its `name`, and its Numba signature `sig`."""

    def __init__(self, name: str, sig: Any) -> None:
        self.name = name
        self.sig = sig
        # Why the compiler takes no kernel that names it.
        self.haulage_refusal = (
            f"declare_device({name!r}, ...): the function is code for NVIDIA's GPUs, which kernels "
            "cannot be linked with in this version; write it in Python with @cuda.jit(device=True)"
        )

    def __repr__(self) -> str:
        return f"<declared function {self.name}{self.sig}>"


def declare_device(name: str, sig: Any, link: Any = None) -> DeclaredFunction:
    """`cuda.declare_device`: name a function in PTX or CUDA C, which kernels are linked with.

    No device of this version takes such code: a kernel that calls the function cannot be compiled.

    Args:
        name: the function's.
        sig: its signature, with the type that it returns.
        link: files with its code.

    Raises:
        TypeError: the signature does not say what it returns, or names no types.
    """
    from haulage.compiler.frontend import declared_signature

    return DeclaredFunction(name, declared_signature(sig))


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
        from haulage.compiler.frontend import parse_function_signature

        self.compile_device(*parse_function_signature(signature))

    def inspect_llvm(self, args: Any) -> str:
        """The LLVM IR that the front end made for arguments of types `args`, with its callees."""
        from haulage.compiler.frontend import function_text

        return function_text(self.compile_device(args))

    def inspect_asm(self, args: Any) -> str:
        """Assembly of the function for arguments of types `args`, as if no kernel inlined it."""
        from haulage.compiler import llvm

        target = self._target()
        with llvm.LOCK:
            module = llvm.parse(self.inspect_llvm(args))
            llvm.optimise(module, target, 3, widen=True)
            return llvm.assembly(str(module), target)

    def inspect_sass(self, args: Any) -> NoReturn:
        """Refused: functions have no SASS of their own, on any device."""
        raise RuntimeError(
            f"Cannot inspect SASS of a device function ({self.__qualname__}): it is a part of the "
            "kernels that call it"
        )

    def __getitem__(self, configuration: Any) -> NoReturn:
        raise RuntimeError(
            f"Cannot compile a device function as a kernel: {self.__qualname__} was made with "
            "device=True; call it from a kernel, or leave that out"
        )

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
