"""Functions in PTX or machine code: typed by their declarations, called by their names."""

import functools
import inspect
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import make_intrinsic_template

from haulage.compiler.frontend.words import SIMT
from haulage.compiler.linked import DECLARED
from haulage.lang.tools import source_place

# The attribute of a module of Numba's code that lists the code it has to be linked with.
LINKED = "haulage_linked"


def is_declared(value: Any) -> bool:
    """Whether a value stands for such a function."""
    return hasattr(value, "haulage_linked")


@functools.cache
def function_type(declared: Any) -> Any:
    """The Numba type of a declared function."""
    sig = declared.sig

    def define(context: Any, *args: Any) -> Any:
        if any(context.can_convert(*pair) is None for pair in zip(args, sig.args, strict=True)):
            return None
        return sig, functools.partial(_call, declared)

    # Numba looks at it for how many arguments a call has.
    names = ["context", *(f"argument{number}" for number in range(1, len(sig.args) + 1))]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, kind) for name in names]
    define.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return types.Function(
        make_intrinsic_template(declared, define, declared.name, kwargs={"target": SIMT})
    )


def _call(declared: Any, context: Any, builder: Any, sig: Any, args: Any) -> Any:
    module = builder.module
    if not hasattr(module, LINKED):
        setattr(module, LINKED, [])
    getattr(module, LINKED).extend(declared.haulage_linked)
    call = _call_as_c if declared.abi == "c" else _call_as_numba
    return call(declared, context, builder, sig, args)


def _call_as_numba(declared: Any, context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Call a function that gives a status and writes its result; a status stops the thread."""
    kind = context.call_conv.get_function_type(sig.return_type, sig.args)
    function = _declared(builder.module, kind, declared.name)
    status, value = context.call_conv.call_function(
        builder, function, sig.return_type, sig.args, args
    )
    with cgutils.if_unlikely(builder, status.is_error):
        number = context.haulage_faults.error(
            builder.module,
            RuntimeError,
            f"the declared function {declared.name} gave a status that is not 0",
            source_place(builder),
            "",
        )
        context.call_conv.stop_thread(builder, number)
    return value


def _call_as_c(declared: Any, context: Any, builder: Any, sig: Any, args: Any) -> Any:
    packer = context.get_arg_packer(sig.args)
    is_void = sig.return_type == types.none
    returned = context.call_conv.get_return_type(sig.return_type).pointee
    kind = ir.FunctionType(ir.VoidType() if is_void else returned, packer.argument_types)
    function = _declared(builder.module, kind, declared.name)
    value = builder.call(function, packer.as_arguments(builder, args))
    if is_void:
        return context.get_dummy_value()
    return context.get_returned_value(builder, sig.return_type, value)


def _declared(module: Any, kind: Any, name: str) -> Any:
    # The functions of libdevice are there by their names.
    own = name if name.startswith("__nv_") else DECLARED + name
    function = cgutils.get_or_insert_function(module, kind, own)
    # It may wait for other threads.
    function.attributes.add("convergent")
    return function
