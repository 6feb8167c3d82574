"""Mistakes with attributes: those that are not there, and those that cannot be set."""

import types as python_types
from collections.abc import Iterable
from typing import Any

from numba.core import types

from haulage.compiler.frontend.described import described, is_number, short
from haulage.compiler.frontend.mistakes.diagnosis import Diagnosis, is_none, nothing
from haulage.compiler.frontend.mistakes.items import missing_field
from haulage.compiler.frontend.operations import Operand, Operation
from haulage.compiler.frontend.words import NamespaceType, Register3Type, value_type
from haulage.spelling import did_you_mean

# What kernels have in place of functions of the host, by the beginnings of their names.
_INSTEAD = {
    "haulage.cuda.synchronize": "threads of a block wait for each other by cuda.syncthreads()",
    "numpy.random.": "random numbers in a kernel come from cuda.random",
    "random.": "random numbers in a kernel come from cuda.random",
    "time.": "measure around the launch, with cuda.synchronize() before the clock is read",
    "numpy.": "write it as a loop, or call it outside and give the kernel its result",
}

_OF_ARRAYS = (
    *("shape", "size", "ndim", "dtype", "strides", "itemsize", "nbytes", "T", "real", "imag"),
    *("flat", "view", "reshape", "ravel", "transpose"),
)
_GROWING = ("append", "extend", "insert", "pop", "remove", "resize")


def no_such_attribute(operation: Operation) -> Diagnosis | None:
    """An attribute that its owner has not, in a kernel."""
    owner, name = operation.operands[0], str(operation.detail)
    kind = owner.kind
    if isinstance(kind, types.Module):
        if value_type(getattr(kind.pymod, name, None)) is not None:
            return None  # a word of kernels, which says itself what is wrong
        return Diagnosis(_of_module(kind.pymod, name), operation.text)
    if is_none(kind):
        return Diagnosis(f"{nothing(owner)}, which has no attribute {name!r}", operation.text)
    if isinstance(kind, types.Record) and name not in kind.fields:
        return Diagnosis(missing_field(owner, kind, name), operation.text)
    if isinstance(kind, types.Array):
        return Diagnosis(_of_array(owner, name), operation.text)
    what = f": it is {described(kind)}"
    if isinstance(kind, (NamespaceType, Register3Type)):
        what = ""
    elif is_number(kind) and owner.parameter:
        what = f": this argument is {described(kind)} in this call, a single number"
    return Diagnosis(
        f"{owner.text} has no attribute {name!r}{what}{did_you_mean(name, _known(kind))}",
        operation.text,
    )


def _of_module(module: Any, name: str) -> str:
    full = f"{module.__name__}.{name}"
    if not hasattr(module, name):
        return f"{module.__name__} has no {name!r}{did_you_mean(name, dir(module))}"
    value = getattr(module, name)
    what = "a class" if isinstance(value, type) else "a function"
    if isinstance(value, python_types.ModuleType):
        what = "a module"
    advice = next((told for start, told in _INSTEAD.items() if full.startswith(start)), None)
    return (
        f"{full} is {what} of the host, which kernels do not have; "
        f"{advice or 'call it outside, and give the kernel its result'}"
    )


def _of_array(owner: Operand, name: str) -> str:
    missing = f"{owner.text} has no attribute {name!r}: it is {described(owner.kind)}"
    if name in _GROWING:
        return (
            f"{missing}, and a kernel's arrays keep their size; make it as long as it has to "
            "become, and count with cuda.atomic.add"
        )
    fields = tuple(getattr(owner.kind.dtype, "fields", ()))
    if hasattr(_host_array(), name):
        return f"{missing}; NumPy's arrays have it on the host only: write it as a loop"
    return f"{missing}{did_you_mean(name, (*_OF_ARRAYS, *fields))}"


def _host_array() -> type:
    import numpy as np

    return np.ndarray


def _known(kind: Any) -> Iterable[str]:
    if isinstance(kind, NamespaceType):
        return vars(kind.namespace)
    if isinstance(kind, Register3Type):
        return ("x", "y", "z")
    fields: Any = getattr(kind, "fields", None) or getattr(kind, "attr_names", ())
    return tuple(fields)


def cannot_be_set(operation: Operation) -> Diagnosis:
    """An attribute that a kernel cannot set."""
    owner, name = operation.operands[0], str(operation.detail)
    kind = owner.kind
    if isinstance(kind, types.Record):
        if name not in kind.fields:
            return Diagnosis(missing_field(owner, kind, name), operation.text)
        value = operation.operands[1]
        return Diagnosis(
            f"the field {name!r} of {owner.text} is of type {short(kind.typeof(name))} and cannot "
            f"hold {value.text}, {described(value.kind)}",
            operation.text,
        )
    return Diagnosis(
        f"a kernel cannot set {operation.text}: the attributes of {described(kind)} are fixed"
        f"{'; write its elements, as in a[i] = ...' if isinstance(kind, types.Array) else ''}",
        operation.text,
    )
