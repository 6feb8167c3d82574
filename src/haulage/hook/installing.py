"""`haulage.install()` and `haulage.uninstall()`."""

import sys
from types import ModuleType

from haulage import forks
from haulage.errors import warn
from haulage.hook import children as _children
from haulage.hook import numba_package
from haulage.hook.answers import ROOTS, answer
from haulage.hook.finder import Finder, given
from haulage.hook.holders import holders

_finder = Finder()
_lock = forks.lock()

# Modules that stood under our names when `install` came, and the attributes of Numba that did.
_replaced: dict[str, ModuleType] = {}


def install(*, children: bool = False) -> None:
    """Let every later import of `numba.cuda`, `numba.roc`, `numba.hip` and below give Haulage's.

    A module is one module under both names: `numba.cuda` is `haulage.cuda`. A submodule that
    Haulage has no counterpart of is a ModuleNotFoundError that names it; `numba.cuda.tests`,
    Numba's own tests, stay Numba's. This goes first, also where the package numba-cuda is
    installed, which redirects `numba.cuda` too. Neither Numba nor `haulage.cuda` is imported by
    this; `numba.cuda` is there as an attribute of Numba, whoever imported it.

    What was imported of `numba.cuda` before is replaced for later imports; names of it that
    modules hold already stay Numba's. Installing twice changes nothing.

    Args:
        children: Whether Python processes that this one starts from now on, by `subprocess`,
            `multiprocessing` or anything else that gives on its environment, get Haulage's too.
            They are reached by the variable PYTHONPATH. Forked processes always get Haulage's.

    Warns:
        RuntimeWarning: modules outside Numba hold such names; lists these modules.
    """
    numba = sys.modules.get("numba")
    with _lock:
        # First also where another finder came before it since.
        if _finder in sys.meta_path:
            sys.meta_path.remove(_finder)
        sys.meta_path.insert(0, _finder)
        replaced = _take_out(ours=False)
        _replaced.update(replaced)
        if numba:
            for root in ROOTS:
                vars(numba).pop(root.rpartition(".")[2], None)
            numba_package.give_words(numba)
            numba_package.set_ufunc_targets(installed=True)
        if children:
            _children.reach()
    held = holders() if replaced else []
    if held:
        warn(
            f"haulage.install() came after an import of {' or '.join(ROOTS)}: imports from now "
            f"on give Haulage's, but {', '.join(held)} holds names of Numba's own; call "
            "haulage.install() before such imports"
        )


def uninstall() -> None:
    """Undo `install`: later imports give Numba's own, what was imported before stays Haulage's.

    Modules of Numba's that `install` replaced are put back, and children get Numba's again.
    Without `install` nothing happens.
    """
    with _lock:
        if not installed():
            return
        sys.meta_path.remove(_finder)
        _children.leave()
        numba = sys.modules.get("numba")
        numba_package.take_words(numba)
        _take_out(ours=True)
        for name in given:
            sys.modules.pop(name, None)
        sys.modules.update(_replaced)
        for root in ROOTS:
            word = root.rpartition(".")[2]
            if numba:
                vars(numba).pop(word, None)
                if root in _replaced:
                    setattr(numba, word, _replaced[root])
        _replaced.clear()
        given.clear()
        if numba:
            numba_package.set_ufunc_targets(installed=False)


def installed() -> bool:
    """Whether `install` is in force."""
    return _finder in sys.meta_path


def _take_out(ours: bool) -> dict[str, ModuleType]:
    """Remove from `sys.modules` what stands under the names answered: Haulage's or all other."""
    taken = {}
    for name, module in tuple(sys.modules.items()):
        if any(name == root or name.startswith(root + ".") for root in ROOTS):
            own = answer(name)
            is_ours = name in given and (own is None or sys.modules.get(own) is module)
            if is_ours is ours:
                taken[name] = sys.modules.pop(name)
    return taken
