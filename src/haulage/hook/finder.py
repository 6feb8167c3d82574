"""The finder that stands first in `sys.meta_path`, and the loader of modules with two names.

Python processes import this when they start: what it needs later is imported later.
"""

from __future__ import annotations

import sys

from haulage.hook import numba_package
from haulage.hook.answers import ROOTS, answer, find_test, is_test, under_numbas_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

# The names that were answered, those of Numba's tests with them, as they hold names of Haulage's.
given: set[str] = set()


class Finder:
    """Answers `numba.cuda`, `numba.roc`, `numba.hip` and all below them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of the module that answers; None for a module that is not answered.

        Raises:
            ModuleNotFoundError: it is one of those, and nothing answers. Finders that come later
                are not asked: one that redirects `numba.cuda` could answer with a mixture.
        """
        if fullname.startswith("haulage."):
            own = under_numbas_name(fullname)
            spec = None if own is None else _find(own)
            return None if own is None or spec is None else _alias(fullname, own, spec)
        if not fullname.startswith("numba."):
            return None
        numba_package.give_words(sys.modules.get("numba"))
        own = answer(fullname)
        if own is not None:
            spec = _find(own)
        elif is_test(fullname):
            own, spec = fullname, find_test(fullname, path)
        else:
            return None
        if spec is None:
            from haulage.compat.modules import why_missing

            reason = why_missing(own)
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: Haulage answers for it since haulage.install(), "
                f"and has no {own}{reason and f' ({reason})'}; haulage.uninstall() gives Numba's "
                "own back",
                name=fullname,
            )
        if own == fullname:
            given.add(fullname)
            return spec
        return _alias(fullname, own, spec)


class _Loader:
    """Loads a module by importing the one that answers, which then has two names."""

    def __init__(self, own: str) -> None:
        self._own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        # Not in `exec_module`: other threads would get the empty module that stands in before it.
        from importlib import import_module

        module = import_module(self._own)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has put the spec of the second name in.
        module.__spec__ = self._spec
        if self._own in ROOTS.values():
            numba_package.set_ufunc_targets(installed=True)


def _alias(name: str, own: str, spec: ModuleSpec) -> ModuleSpec:
    """The spec by which the module `own` gets a second name."""
    from importlib.machinery import ModuleSpec

    loader: Any = _Loader(own)
    alias = ModuleSpec(name, loader, origin=spec.origin)
    if spec.submodule_search_locations is not None:
        alias.submodule_search_locations = list(spec.submodule_search_locations)
    given.add(name)
    return alias


def _find(name: str) -> ModuleSpec | None:
    from importlib.util import find_spec

    try:
        return find_spec(name)
    except ModuleNotFoundError as missing:
        # A parent that is not there; what a parent itself lacks is another error.
        if missing.name is not None and f"{name}.".startswith(missing.name + "."):
            return None
        raise
