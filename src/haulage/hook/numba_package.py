"""What the package `numba` itself has to know: the words and SmartArray, which it has no more, as
its attributes; targets of ufuncs."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from haulage.hook.answers import ROOTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_WORDS = {root.rpartition(".")[2] for root in ROOTS}


class _Numba(ModuleType):
    """The class of the package `numba` while Haulage is installed.

    `numba.cuda` is imported when it is first asked for, also where no program imports it, and so
    is `numba.SmartArray`, which Numba had until 0.45.
    """

    def __getattr__(self, name: str) -> Any:
        if name in _WORDS:
            return import_module(f"{self.__name__}.{name}")
        if name == "SmartArray":
            return import_module("haulage.smart").SmartArray
        text = f"module {self.__name__!r} has no attribute {name!r}"
        raise AttributeError(text, name=name, obj=self)


def give_words(numba: ModuleType | None) -> None:
    """Let `numba.cuda`, `numba.roc`, `numba.hip` and `numba.SmartArray` be there as attributes,
    once Numba is."""
    if type(numba) is ModuleType:
        numba.__class__ = _Numba


def take_words(numba: ModuleType | None) -> None:
    """Undo `give_words`."""
    if numba is not None and type(numba) is _Numba:
        numba.__class__ = ModuleType  # type: ignore[assignment]


def set_ufunc_targets(installed: bool) -> None:
    """Let `numba.vectorize(target="cuda")` and its kin make Haulage's ufuncs, or Numba's again.

    Numba looks for what makes them in its modules, and keeps what it found.
    """
    from haulage import numba_bridge

    numba_bridge.set_ufunc_target(
        "cuda", "numba.cuda.vectorizers", "CUDAVectorize", "CUDAGUFuncVectorize"
    )
    if installed:
        numba_bridge.set_ufunc_target(
            "roc", "numba.roc.vectorizers", "HsaVectorize", "HsaGUFuncVectorize"
        )
    else:
        numba_bridge.unset_ufunc_target("roc")
