"""Gives Numba the lowering of `print`, which its front end turns into a statement of its own."""

from typing import Any

from numba.core import types
from numba.core.imputils import Registry

from haulage.compiler.frontend.words import Register3Type
from haulage.lang import print as word
from haulage.lang import tools

registry = Registry("haulage.print")


@registry.lower(print, types.VarArg(types.Any))
def _lower_print(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kinds, values = [], []
    for kind, value in zip(sig.args, args, strict=True):
        if isinstance(kind, Register3Type):
            # `threadIdx` and its like, which have no value of their own.
            of_axes = [
                context.haulage_target.register(builder, f"{kind.register}.{axis}")
                for axis in "xyz"
            ]
            kind = types.UniTuple(types.int32, len(of_axes))
            value = context.make_tuple(builder, kind, of_axes)
        kinds.append(kind)
        values.append(value)
    return word.lower(tools, context, builder, sig.replace(args=tuple(kinds)), values)
