"""Where programs say what calls and attributes in kernels give, under numba's long name for it."""

from haulage.compat.absent import absent
from haulage.compiler.frontend.extending import typing_registry as registry

__all__ = ["registry", "register", "register_attr", "register_global"]

register = registry.register
register_attr = registry.register_attr
register_global = registry.register_global

__getattr__ = absent(
    __name__,
    "kernels' words are typed by Haulage, one object each; the registry is for words of yours",
)
