"""Where programs say what LLVM IR calls and attributes become, under numba's long name for it."""

from haulage.compat.absent import absent
from haulage.compiler.frontend.extending import lowering_registry as registry

__all__ = ["registry", "lower", "lower_attr", "lower_constant"]

lower = registry.lower
lower_attr = registry.lower_getattr
lower_constant = registry.lower_constant

__getattr__ = absent(
    __name__,
    "kernels' words are lowered by Haulage, one object each; the registry is for words of yours",
)
