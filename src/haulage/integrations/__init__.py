"""What Haulage registers with a library of others as soon as a program imports that.

Importing this imports nothing of them, nor anything of Haulage: `TABLE` says for each module which
function of ours is called with it, at once if the module is there already, else right after its
import. A module of `TABLE` that is never imported costs a look into a dictionary for each import.
"""

import sys

# What is annotated here would take longer to import than all of this does.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

# Module that is imported -> (module of ours, its function that registers, given that module).
TABLE: "dict[str, tuple[str, str]]" = {
    "dask.array.dispatch": ("haulage.integrations.of_dask", "arrays"),
    "dask.sizeof": ("haulage.integrations.of_dask", "sizes"),
    "dask.tokenize": ("haulage.integrations.of_dask", "tokens"),
    "distributed.protocol.cuda": ("haulage.integrations.of_dask", "cuda_frames"),
    "distributed.protocol.serialize": ("haulage.integrations.of_dask", "frames"),
}

_ahead = dict(TABLE)
# Those that were half imported when we came: nothing tells when they are whole, so it is looked at.
_under_way: "list[str]" = []


class _Finder:
    """Lets each module of `_ahead` be found by the finders after this one, and be told of."""

    _inside = False

    def find_spec(
        self,
        name: str,
        path: "Sequence[str] | None" = None,
        target: "ModuleType | None" = None,
    ) -> "ModuleSpec | None":
        if _under_way:
            install()
        if name not in _ahead:
            return None
        for finder in tuple(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = (
                None if finder is self or find is None else find(name, path, target)
            )
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)  # type: ignore[assignment]
                return spec
        return None


class _Loader:
    """A loader that tells, and is not seen any more once the module is there."""

    def __init__(self, loader: "Loader") -> None:
        self._loader = loader

    def create_module(self, spec: "ModuleSpec") -> "ModuleType | None":
        spec.loader = self._loader
        try:
            return self._loader.create_module(spec)
        finally:
            spec.loader = self  # type: ignore[assignment]

    def exec_module(self, module: "ModuleType") -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _register(module.__name__)

    def __getattr__(self, name: str) -> "Any":
        return getattr(self._loader, name)


def _register(name: str) -> None:
    ours, function = _ahead.pop(name)
    if not _ahead and _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    # `importlib` would double what importing this takes.
    __import__(ours)
    getattr(sys.modules[ours], function)(sys.modules[name])


def install() -> None:
    """Register with what is imported already, and see to it for what will be."""
    _under_way.clear()
    for name in [each for each in _ahead if each in sys.modules]:
        if getattr(sys.modules[name].__spec__, "_initializing", False):
            _under_way.append(name)
        else:
            _register(name)
    if _ahead and _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


_finder = _Finder()
