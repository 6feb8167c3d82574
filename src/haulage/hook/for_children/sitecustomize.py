"""Imported by a Python that starts with this folder on PYTHONPATH: installs Haulage there.

The folder leaves `sys.path` at once, and the module that Python would have imported without it is
imported in its place.
"""

import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _install() -> None:
    # Another Python than the one that set PYTHONPATH may be too old for Haulage, and may have no
    # Haulage of its own; then it gets the one that this folder is of.
    if sys.version_info < (3, 11):  # noqa: UP036
        return
    try:
        from haulage.hook.installing import install
    except ModuleNotFoundError as missing:
        if missing.name != "haulage":
            raise
        _load_haulage()
        from haulage.hook.installing import install
    install()
    if "HAULAGE_TRACE_SETTINGS" in os.environ:
        from haulage.tracing.starting import begin

        begin()
    if "HAULAGE_ADVISE_SETTINGS" in os.environ:
        from haulage.advising.starting import begin as begin_to_advise

        begin_to_advise()
    if "HAULAGE_CHECK_SETTINGS" in os.environ:
        from haulage.checking.starting import begin as begin_to_check

        begin_to_check()
    if "HAULAGE_DEBUG_SETTINGS" in os.environ:
        from haulage.debugging.starting import begin as begin_to_debug

        begin_to_debug()


def _load_haulage() -> None:
    from importlib.util import module_from_spec, spec_from_file_location

    package = os.path.dirname(os.path.dirname(_HERE))
    spec = spec_from_file_location(
        "haulage", os.path.join(package, "__init__.py"), submodule_search_locations=[package]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules["haulage"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["haulage"])


def _give_way() -> None:
    """Import the `sitecustomize` that comes after this one, if there is one."""
    # This one is named by its whole path. For others' the current folder may be gone.
    own = [each for each in sys.path if os.path.isabs(each) and os.path.abspath(each) == _HERE]
    sys.path[:] = [folder for folder in sys.path if folder not in own]
    this = sys.modules.pop("sitecustomize")
    try:
        __import__("sitecustomize")
    except ModuleNotFoundError as missing:
        if missing.name != "sitecustomize":
            raise
        # The import system looks for what it has just imported.
        sys.modules["sitecustomize"] = this


try:
    _install()
finally:
    _give_way()
