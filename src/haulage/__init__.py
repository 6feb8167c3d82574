"""Arrays and kernels with a home on any device: NVIDIA, AMD, or all cores of a CPU.

`from haulage import cuda` gives the words of numba.cuda, `from haulage import roc` those of
numba.roc, `from haulage import hip` those of numba.hip; `haulage.use("cpu")` or the variable
HAULAGE_DEVICE says on which device they act.

PYTEST_DONT_REWRITE: that word is for pytest, which else warns that this was imported before it.
"""

__version__ = "0.1.0"

# First: another thread may fork while this one imports what follows.
from haulage import forks as _forks  # noqa: F401, I001

# Says what is wrong where it has not been built.
from haulage import _core  # noqa: F401
from haulage import integrations as _integrations

__all__ = [
    "__version__",
    "cuda",
    "roc",
    "hip",
    "memory",
    "use",
    "devices",
    "adversary",
    "check",
    "compile",
    "SmartArray",
    "explain",
    "transfers",
    "assert_no_transfers",
    "max_transfers",
    "install",
    "uninstall",
]

# Name -> (module, attribute or None for the module itself), imported when first asked for.
_LAZY: dict[str, tuple[str, str | None]] = {
    "cuda": ("haulage.cuda", None),
    "roc": ("haulage.roc", None),
    "hip": ("haulage.hip", None),
    "dask": ("haulage.dask", None),
    "memory": ("haulage.memory", None),
    "use": ("haulage.runtime.devices.registry", "use"),
    "devices": ("haulage.runtime.devices.registry", "devices"),
    "adversary": ("haulage.runtime.devices.adversary", "adversary"),
    "check": ("haulage.checking.check", "check"),
    "compile": ("haulage.kernel", "compile"),
    "SmartArray": ("haulage.smart", "SmartArray"),
    "explain": ("haulage.runtime.transfers.explanation", "explain"),
    "transfers": ("haulage.runtime.transfers.recording", "transfers"),
    "assert_no_transfers": ("haulage.runtime.transfers.recording", "assert_no_transfers"),
    "max_transfers": ("haulage.runtime.transfers.recording", "max_transfers"),
    "install": ("haulage.hook.installing", "install"),
    "uninstall": ("haulage.hook.installing", "uninstall"),
    "load_ipython_extension": ("haulage.hook.notebook", "load_ipython_extension"),
    "unload_ipython_extension": ("haulage.hook.notebook", "unload_ipython_extension"),
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        from haulage.spelling import did_you_mean

        meant = "" if name.startswith("_") else did_you_mean(name, __dir__())
        raise AttributeError(f"module 'haulage' has no attribute {name!r}{meant}", name=name)
    module_name, attribute = _LAZY[name]
    import importlib

    if not module_name.startswith("haulage.hook."):
        # The kinds of devices are registered by the import of this one.
        importlib.import_module("haulage.platforms")
    module = importlib.import_module(module_name)
    value = module if attribute is None else getattr(module, attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, "errors", *(name for name in globals() if name.startswith("__"))})


_integrations.install()
