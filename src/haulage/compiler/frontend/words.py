"""Makes Numba know the objects of `lang/`: words, namespaces and index registers."""

import functools
import inspect
from types import BuiltinFunctionType
from typing import Any

from numba.core import types
from numba.core.datamodel import models, register_default
from numba.core.imputils import Registry
from numba.core.typing.templates import (
    AttributeTemplate,
    bound_function,
    infer_getattr,
    make_intrinsic_template,
)
from numba.extending import overload_method

from haulage.lang import debug, tools
from haulage.lang.bits import METHODS
from haulage.lang.cg import grid_sync
from haulage.lang.math import FUNCTIONS
from haulage.lang.word import Namespace, Register, Register3, Word

# The name of the Numba target that all of our targets are below.
SIMT = "haulage"

registry = Registry("haulage")


class Register3Type(types.Dummy):
    """The type of `threadIdx` and its like."""

    def __init__(self, register: str) -> None:
        self.register = register
        super().__init__(f"registers({register})")


class NamespaceType(types.Dummy):
    """The type of `shared`, `atomic` and their like."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace
        super().__init__(f"namespace({namespace.__name__}, {id(namespace)})")


register_default(Register3Type)(models.OpaqueModel)
register_default(NamespaceType)(models.OpaqueModel)


@infer_getattr
class _Register3Attributes(AttributeTemplate):
    key = Register3Type

    def generic_resolve(self, owner: Any, attribute: str) -> Any:
        return types.int32 if attribute in ("x", "y", "z") else None


@infer_getattr
class _NamespaceAttributes(AttributeTemplate):
    key = NamespaceType

    def generic_resolve(self, owner: Any, attribute: str) -> Any:
        member = vars(owner.namespace).get(attribute)
        return None if member is None else value_type(member)


@infer_getattr
class _VectorAttributes(AttributeTemplate):
    key = tools.VectorType

    def generic_resolve(self, owner: Any, attribute: str) -> Any:
        return owner.base_type if attribute in owner.attr_names else None


@registry.lower_getattr_generic(tools.VectorType)
def _lower_field(context: Any, builder: Any, owner: Any, value: Any, attribute: str) -> Any:
    return builder.extract_value(value, owner.attr_names.index(attribute))


# Not by `overload_method`, whose functions in between would be the place that faults name.
_SYNC = "GridGroup.sync"


@infer_getattr
class _GridGroupAttributes(AttributeTemplate):
    key = tools.GridGroupType

    @bound_function(_SYNC)
    def resolve_sync(self, group: Any, args: Any, kws: Any) -> Any:
        return (
            None if args or kws else grid_sync.build(tools, group)[0].replace(args=(), recvr=group)
        )


@registry.lower(_SYNC, tools.GridGroupType)
def _lower_sync(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return grid_sync.build(tools, *sig.args)[1](context, builder, sig, args)


@registry.lower_getattr_generic(Register3Type)
def _lower_register(context: Any, builder: Any, owner: Any, value: Any, attribute: str) -> Any:
    return context.haulage_target.register(builder, f"{owner.register}.{attribute}")


@registry.lower_getattr_generic(NamespaceType)
def _lower_member(context: Any, builder: Any, owner: Any, value: Any, attribute: str) -> Any:
    return context.get_dummy_value()


@registry.lower_constant(Register3Type)
@registry.lower_constant(NamespaceType)
def _lower_constant(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return context.get_dummy_value()


def value_type(value: Any) -> Any:
    """The Numba type of an object of `lang/`, or None if it is none."""
    if isinstance(value, Word):
        return _function_type(value)
    if isinstance(value, BuiltinFunctionType) and value in FUNCTIONS:
        return _function_type(FUNCTIONS[value])
    if debug.is_stop(value):
        return _function_type(debug.set_trace)
    if isinstance(value, Register):
        # A number whose value is read where a constant would be written.
        return types.int32
    if isinstance(value, Register3):
        return Register3Type(value.__name__)
    if isinstance(value, Namespace):
        return NamespaceType(value)
    return None


def as_number(kind: Any) -> Any:
    """The type of a member of an IntEnum, also in a tuple, as that of the number that it is."""
    if isinstance(kind, types.IntEnumMember):
        return kind.dtype
    if isinstance(kind, types.BaseTuple) and any(isinstance(k, types.IntEnumMember) for k in kind):
        return types.BaseTuple.from_types([as_number(each) for each in kind])
    return kind


@functools.cache
def _function_type(word: Word) -> Any:
    parameters = list(inspect.signature(word.build).parameters.values())[1:]
    call = inspect.Signature(
        [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    )

    @functools.wraps(word.build)
    def define(context: Any, *args: Any, **kwargs: Any) -> Any:
        args = tuple(map(as_number, args))
        kwargs = {name: as_number(kind) for name, kind in kwargs.items()}
        try:
            call.bind(*args, **kwargs)
        except TypeError as error:
            raise tools.TypingError(f"{word.__qualname__}{call}: {error}") from None
        built = word.build(tools, *args, **kwargs)
        if built is None:
            return None
        sig, generate = built
        # Numba's lowering wants a type for each parameter, left out or not.
        left_out = tuple(
            types.Omitted(parameter.default)
            for parameter in parameters[len(sig.args) :]
            if parameter.kind is not inspect.Parameter.VAR_POSITIONAL
        )
        return sig.replace(args=(*sig.args, *left_out)), generate

    return types.Function(
        make_intrinsic_template(
            word, define, word.__qualname__, prefer_literal=True, kwargs={"target": SIMT}
        )
    )


def _as_method(word: Word) -> Any:
    # Numba wants the same parameters in both.
    return lambda number: lambda number: word(number)


for (_owner, _name), _word in METHODS.items():
    overload_method(getattr(types, _owner), _name, target=SIMT)(_as_method(_word))
