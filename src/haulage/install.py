"""`haulage.install()`: programs that import `numba.cuda` or `numba.roc` get Haulage's instead."""

import importlib
import importlib.util
import sys
import threading
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import FunctionType, ModuleType

# What programs import -> the vocabulary that answers.
_ANSWERS = {"numba.cuda": "haulage.cuda", "numba.roc": "haulage.roc"}

# Numba's own tests, which stay Numba's and then test Haulage.
_TESTS = "numba.cuda.tests"


def install() -> None:
    """Let every later import of `numba.cuda`, `numba.roc` and their submodules give Haulage's.

    A module is one module under both names: `numba.cuda` is `haulage.cuda`. A submodule that
    Haulage has no counterpart of is a ModuleNotFoundError that names it. This goes first, also
    where the package numba-cuda is installed, which redirects `numba.cuda` too. Numba is not
    imported by this; where it is imported already, its attributes `cuda` and `roc` are set.

    What was imported of `numba.cuda` before is replaced for later imports; names of it that
    modules hold already stay Numba's. Installing twice changes nothing.

    Warns:
        RuntimeWarning: modules outside Numba hold such names; lists these modules.
    """
    numba = sys.modules.get("numba")
    modules = {name: importlib.import_module(own) for name, own in _ANSWERS.items() if numba}
    with _lock:
        # First also where another finder came before it since.
        if _finder in sys.meta_path:
            sys.meta_path.remove(_finder)
        sys.meta_path.insert(0, _finder)
        replaced = _take_out(ours=False)
        _replaced.update(replaced)
        sys.modules.update(modules)
        for name, module in modules.items():
            setattr(numba, name.rpartition(".")[2], module)
        if numba:
            _answer_ufuncs()
    holders = _holders() if replaced else []
    if holders:
        warnings.warn(
            f"haulage.install() came after an import of {' or '.join(_ANSWERS)}: imports from now "
            f"on give Haulage's, but {', '.join(holders)} holds names of Numba's own; call "
            "haulage.install() before such imports",
            RuntimeWarning,
            stacklevel=2,
        )


def uninstall() -> None:
    """Undo `install`: later imports give Numba's own, what was imported before stays Haulage's.

    Modules of Numba's that `install` replaced are put back. Without `install` nothing happens.
    """
    with _lock:
        if _finder not in sys.meta_path:
            return
        sys.meta_path.remove(_finder)
        ours = _take_out(ours=True)
        sys.modules.update(_replaced)
        numba = sys.modules.get("numba")
        for name in _ANSWERS:
            child = name.rpartition(".")[2]
            if name in ours and getattr(numba, child, None) is ours[name]:
                if name in _replaced:
                    setattr(numba, child, _replaced[name])
                else:
                    delattr(numba, child)
        _replaced.clear()
        _tests.clear()
        if numba:
            _answer_ufuncs()


class _Finder(MetaPathFinder):
    """Answers the names of `_ANSWERS` and all below them."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if _is_test(fullname):
            # Past other finders, which may answer for `numba.cuda` as well.
            folders = [f"{folder}/cuda" for folder in sys.modules["numba"].__path__]
            _tests.add(fullname)
            return PathFinder.find_spec(fullname, folders if fullname == _TESTS else path, target)
        own = _own_name(fullname)
        if own is None:
            return None
        spec = importlib.util.find_spec(own)
        if spec is None:
            raise ModuleNotFoundError(
                f"No module named {fullname!r}: Haulage answers for it since haulage.install(), "
                f"and has no {own}; haulage.uninstall() gives Numba's own back",
                name=fullname,
            )
        is_package = spec.submodule_search_locations is not None
        return ModuleSpec(fullname, _Loader(own), origin=spec.origin, is_package=is_package)


class _Loader(Loader):
    """Loads a module by importing Haulage's, which then has two names."""

    def __init__(self, own: str) -> None:
        self.own = own

    def exec_module(self, module: ModuleType) -> None:
        # The import system gives out what stands in `sys.modules` when this returns. Handing it
        # the module earlier, from `create_module`, would overwrite that module's `__spec__`.
        assert module.__spec__ is not None
        sys.modules[module.__spec__.name] = importlib.import_module(self.own)
        if self.own in _ANSWERS.values():
            _answer_ufuncs()


_finder = _Finder()
_lock = threading.RLock()

# Modules that stood under our names when `install` came.
_replaced: dict[str, ModuleType] = {}

# Modules of Numba's tests that were looked for since, and so hold names of Haulage's.
_tests: set[str] = set()


def _answer_ufuncs() -> None:
    """Let `numba.vectorize(target="cuda")` and its kin make Haulage's ufuncs, or Numba's again.

    Numba looks for what makes them in its modules, and keeps what it found.
    """
    from haulage import numba_bridge

    numba_bridge.set_ufunc_target(
        "cuda", "numba.cuda.vectorizers", "CUDAVectorize", "CUDAGUFuncVectorize"
    )
    numba_bridge.unset_ufunc_target("roc")
    if _finder in sys.meta_path:
        numba_bridge.set_ufunc_target(
            "roc", "numba.roc.vectorizers", "HsaVectorize", "HsaGUFuncVectorize"
        )


def _is_test(name: str) -> bool:
    return name == _TESTS or name.startswith(_TESTS + ".")


def _own_name(name: str) -> str | None:
    """The name of Haulage's module for one of Numba's; None for a module that is not answered."""
    for answered, own in _ANSWERS.items():
        if name == answered or name.startswith(answered + "."):
            return own + name.removeprefix(answered)
    return None


def _take_out(ours: bool) -> dict[str, ModuleType]:
    """Remove from `sys.modules` what stands under the names answered: Haulage's or all other."""
    taken = {}
    for name, module in tuple(sys.modules.items()):
        own = _own_name(name)
        if own is None:
            continue
        is_ours = name in _tests or (own in sys.modules and sys.modules[own] is module)
        if is_ours is ours:
            taken[name] = sys.modules.pop(name)
    return taken


def _holders() -> list[str]:
    """The modules that have modules, functions or classes of the replaced ones as globals."""
    found = set()
    for module in tuple(sys.modules.values()):
        if not isinstance(module, ModuleType):
            continue
        name = _home(module)
        if name.split(".")[0] not in ("numba", "haulage"):
            homes = {_home(value) for value in tuple(_globals(module).values())}
            if any(_own_name(home) for home in homes):
                found.add(name)
    return sorted(found)


def _home(value: object) -> str:
    """The name of a module, or of the module that a function or class is of; else ''."""
    if isinstance(value, ModuleType):
        return str(_globals(value).get("__name__", ""))
    return str(value.__module__) if isinstance(value, (FunctionType, type)) else ""


def _globals(module: ModuleType) -> dict[str, object]:
    # A module that loads when first used would do so if it were asked in the ordinary way.
    fields: dict[str, object] = object.__getattribute__(module, "__dict__")
    return fields


class _CallableModule(ModuleType):
    """The class of this module, which is itself the attribute `install` of the package.

    Importing any submodule binds it in its package; so `haulage.install()` has to call it.
    """

    __call__ = staticmethod(install)


sys.modules[__name__].__class__ = _CallableModule
