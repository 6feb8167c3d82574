"""Which module answers for a name that programs import of Numba."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec

# The packages that are answered, each with all below it.
ROOTS = {"numba.cuda": "haulage.cuda", "numba.roc": "haulage.roc", "numba.hip": "haulage.hip"}

# Parts of them that do not lie where their names say: a module, with all below it.
_ELSEWHERE = {
    # The package numba-hip has cuda's words, and its modules under cuda's names.
    "numba.hip.hipdrv": "haulage.cuda.cudadrv",
    # The package numba-cuda has copies of parts of Numba's, which Haulage compiles with.
    "numba.cuda.cgutils": "numba.core.cgutils",
    "numba.cuda.cloudpickle": "numba.cloudpickle",
    "numba.cuda.core": "numba.core",
    "numba.cuda.cpython": "numba.cpython",
    "numba.cuda.datamodel": "numba.core.datamodel",
    "numba.cuda.debuginfo": "numba.core.debuginfo",
    "numba.cuda.itanium_mangler": "numba.core.itanium_mangler",
    "numba.cuda.lowering": "numba.core.lowering",
    "numba.cuda.misc": "numba.misc",
    "numba.cuda.serialize": "numba.core.serialize",
    "numba.cuda.typeconv": "numba.core.typeconv",
    "numba.cuda.typing": "numba.core.typing",
    "numba.cuda.utils": "numba.core.utils",
}

# The same, for what is below them only.
_BELOW = {
    "numba.cuda.np": "numba.np",
    "numba.cuda.np.ufunc": "numba.np.ufunc",
    "numba.cuda.types": "numba.core.types",
}

# What would be Numba's by these tables and is not. Numba's own packages cannot be the parents of
# Haulage's modules: Python makes a module an attribute of its parent.
_OURS = {"numba.cuda.np.ufunc", "numba.cuda.np.ufunc.decorators"}

# Numba's own tests, which stay Numba's and then test Haulage.
TESTS = "numba.cuda.tests"


def answer(name: str) -> str | None:
    """The name of the module that answers for one of Numba's; None for what stays Numba's."""
    root = ".".join(name.split(".", 2)[:2])
    if root not in ROOTS or is_test(name):
        return None
    if name == root:
        return ROOTS[root]
    stem = root if name in _OURS else name
    while stem != root:
        if stem in _ELSEWHERE:
            return _ELSEWHERE[stem] + name.removeprefix(stem)
        if stem in _BELOW and stem != name:
            return _BELOW[stem] + name.removeprefix(stem)
        stem = stem.rpartition(".")[0]
    base = "haulage.cuda" if root == "numba.hip" else ROOTS[root]
    return base + name.removeprefix(root)


def under_numbas_name(name: str) -> str | None:
    """Numba's name of a module that has no place of its own below Haulage's package; else None.

    `from numba.cuda import core` imports a module of the name that `numba.cuda` has.
    """
    for root, own in ROOTS.items():
        if name.startswith(own + "."):
            theirs = root + name.removeprefix(own)
            return theirs if is_test(theirs) or answer(theirs) != name else None
    return None


def is_test(name: str) -> bool:
    """Whether a module is one of Numba's own tests of its `numba.cuda`."""
    return name == TESTS or name.startswith(TESTS + ".")


def find_test(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """The spec of such a module, past other finders that answer for `numba.cuda` as well."""
    from importlib.machinery import PathFinder

    if name == TESTS:
        path = [os.path.join(folder, "cuda") for folder in sys.modules["numba"].__path__]
    return PathFinder.find_spec(name, path)
