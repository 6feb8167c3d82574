"""Gives Numba the lowering of `print`, which its front end turns into a statement of its own."""

from typing import Any

from numba.core import types
from numba.core.imputils import Registry

from haulage.lang import print as word
from haulage.lang import tools

registry = Registry("haulage.print")


@registry.lower(print, types.VarArg(types.Any))
def _lower_print(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return word.lower(tools, context, builder, sig, args)
