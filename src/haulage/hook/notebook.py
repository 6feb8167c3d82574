"""`%load_ext haulage` and `%unload_ext haulage` of IPython, and so of notebooks."""

from haulage.hook.installing import install, uninstall


def load_ipython_extension(shell: object) -> None:
    """As `haulage.install(children=True)`; put it before the imports of `numba.cuda`."""
    install(children=True)


def unload_ipython_extension(shell: object) -> None:
    """As `haulage.uninstall()`."""
    uninstall()
