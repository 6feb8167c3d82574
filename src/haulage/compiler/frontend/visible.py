"""What kernels see of Numba's library: the same, whatever else the process does with Numba.

Numba's functions are declared by importing the modules that they are in, and its own jit imports
more of them than kernels need. What those declare is for the host, and no kernel sees it.
"""

from collections.abc import Iterator
from typing import Any

from numba.core import imputils
from numba.core.typing import templates

# With a heap, a state of the process or its interpreter, and NumPy's functions of whole arrays.
_FOR_HOST = (
    "numba.cpython.heapq",
    "numba.cpython.randomimpl",
    "numba.cpython.setobj",
    "numba.experimental",
    "numba.misc.cffiimpl",
    "numba.misc.gdb_hook",
    "numba.np.arraymath",
    "numba.np.linalg",
    "numba.np.polynomial",
    "numba.np.random",
    # It takes numbers too, in another way than Numba's own `min` and `max`.
    "numba.np.types.datetime_registry",
    "numba.typed",
)


class TypingLoader(templates.RegistryLoader):
    """Gives a typing context what a registry has for kernels."""

    def new_registrations(self, name: str) -> Iterator[Any]:
        for each in super().new_registrations(name):
            declared = each[1] if name == "globals" else each
            if not any(map(_is_for_host, _modules(declared))):
                yield each


class LoweringLoader(imputils.RegistryLoader):
    """Gives a context for lowering what a registry has for kernels."""

    def new_registrations(self, name: str) -> Iterator[Any]:
        for each in super().new_registrations(name):
            if not _is_for_host(_module(each[0])):
                yield each


def _is_for_host(module: str) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in _FOR_HOST)


def _modules(declared: Any) -> Iterator[str]:
    """Where a template, or what the templates of a function's type are made of, is written."""
    for template in getattr(declared, "templates", (declared,)):
        written = getattr(template, "_overload_func", None) or template
        yield _module(written)
        # What `type_callable` makes is a class of Numba's with the function in a closure.
        made = vars(template).get("generic") if isinstance(template, type) else None
        for cell in getattr(made, "__closure__", None) or ():
            yield _module(cell.cell_contents)


def _module(written: Any) -> str:
    return str(getattr(written, "__module__", ""))
