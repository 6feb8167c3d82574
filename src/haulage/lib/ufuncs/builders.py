"""What `numba.vectorize(target="cuda")` and its kin ask of a target, for `haulage.install()`."""

from collections.abc import Callable, Mapping
from typing import Any

from haulage.kernel import CUDA, ROC, Vocabulary
from haulage.lib.ufuncs.decorators import guvectorize, vectorize
from haulage.lib.ufuncs.gufunc import GUFunc
from haulage.lib.ufuncs.ufunc import UFunc


class _Builder:
    """Numba adds the signatures one by one, and then asks for the ufunc."""

    vocabulary: Vocabulary
    ufunc: UFunc | GUFunc

    def add(self, sig: Any) -> None:
        """Compile for one more signature."""
        self.ufunc.add(sig)

    def disable_compile(self) -> None:
        """Nothing to do: a ufunc with signatures is not compiled for others."""

    def build_ufunc(self) -> UFunc | GUFunc:
        """The ufunc."""
        return self.ufunc


class CUDAVectorize(_Builder):
    """`numba.vectorize(target="cuda")`."""

    vocabulary = CUDA

    def __init__(
        self,
        func: Callable[..., Any],
        identity: Any = None,
        cache: bool = False,
        targetoptions: Mapping[str, Any] | None = None,
    ) -> None:
        options = dict(targetoptions or {}, identity=identity, cache=cache)
        self.ufunc = vectorize(self.vocabulary, **options)(func)


class CUDAGUFuncVectorize(_Builder):
    """`numba.guvectorize(target="cuda")`."""

    vocabulary = CUDA

    def __init__(
        self,
        func: Callable[..., Any],
        sig: str,
        identity: Any = None,
        cache: bool = False,
        targetoptions: Mapping[str, Any] | None = None,
        writable_args: Any = (),
    ) -> None:
        options = dict(targetoptions or {}, identity=identity, cache=cache)
        # Numba says so of each that was declared without signatures.
        options.pop("is_dynamic", None)
        self.ufunc = guvectorize(self.vocabulary, sig, writable_args=writable_args, **options)(func)


class ROCVectorize(CUDAVectorize):
    """`numba.vectorize(target="roc")`."""

    vocabulary = ROC


class ROCGUFuncVectorize(CUDAGUFuncVectorize):
    """`numba.guvectorize(target="roc")`."""

    vocabulary = ROC
