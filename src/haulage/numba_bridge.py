"""What a kernel's arguments are to Numba. Importing this imports Numba.

The launch path knows arguments by keys that it makes without Numba
(`haulage.runtime.launch.kinds`);
here a key becomes a Numba type, once per signature.
"""

import functools
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

from haulage import importing_numba  # noqa: F401

# isort: split
import numpy as np
from numba import cloudpickle, typeof
from numba.core import types
from numba.core.datamodel import models, register_default
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError, NumbaTypeError, TypingError
from numba.core.imputils import lower_cast, lower_setattr_generic
from numba.core.typeconv import Conversion
from numba.core.typing.templates import builtin_registry
from numba.np import numpy_support
from numba.np.ufunc.decorators import GUVectorize, Vectorize

from haulage.errors import LaunchTypeError

ARRAY, RECORD, SCALAR, TUPLE = "array", "record", "scalar", "tuple"
ENUM, NONE, DTYPE, POINTER, OTHER = "enum", "none", "dtype", "pointer", "other"


class UntypedArgument(LaunchTypeError, TypingError):
    """A kernel was launched with an argument that Numba has no type for."""

    def __init__(self, message: str) -> None:
        Exception.__init__(self, message)
        # What Numba's errors have.
        self.msg, self.loc = message, None

    __str__ = Exception.__str__


class ReadOnlyRecord(types.Record):
    """A record that kernels cannot write to; Numba has no such type."""

    mutable = False

    def __init__(self, fields: Any, size: int, aligned: bool) -> None:
        super().__init__(fields, size, aligned)
        self.name: str = f"ReadOnly{self.name}"

    def can_convert_to(self, typingctx: Any, other: Any) -> Any:
        """Its values can be copied to where a writeable record is."""
        same = isinstance(other, types.Record) and other.dtype == self.dtype
        return Conversion.safe if same else None


class ReadOnlyNestedArray(types.NestedArray):
    """A sub-array field of a record that kernels cannot write to."""

    def __init__(self, dtype: Any, shape: tuple[int, ...]) -> None:
        super().__init__(dtype, shape)
        self.mutable = False


register_default(ReadOnlyRecord)(models.RecordModel)
register_default(ReadOnlyNestedArray)(models.NestedArrayModel)


@lower_setattr_generic(ReadOnlyRecord)
def _refuse(context: Any, builder: Any, sig: Any, args: Any, attr: str) -> NoReturn:
    raise NumbaTypeError(f"cannot write to the field {attr!r} of a read-only record")


@lower_cast(ReadOnlyRecord, types.Record)
def _same_address(context: Any, builder: Any, fromty: Any, toty: Any, value: Any) -> Any:
    return value


def numba_type(key: tuple[Any, ...]) -> Any:
    """The Numba type for an argument's key.

    Keys are ("array", dtype, ndim, layout, read-only, aligned), ("record", dtype, read-only,
    aligned), ("scalar", dtype), ("tuple", keys, named-tuple class or None), ("enum", class, key of
    its values), ("dtype", dtype, whether it is a class), ("pointer", dtype) and ("none",).

    Raises:
        TypeError: Numba has no type for it.
    """
    if key[0] == ARRAY:
        _, dtype, ndim, layout, readonly, aligned = key
        element = _placed(_element(dtype), readonly, aligned)
        return types.Array(element, ndim, layout, readonly=readonly, aligned=aligned)
    if key[0] == RECORD:
        _, dtype, readonly, aligned = key
        return _placed(_element(dtype), readonly, aligned)
    if key[0] == SCALAR:
        return _element(key[1])
    if key[0] == NONE:
        return types.none
    if key[0] == DTYPE:
        _, dtype, is_class = key
        return (types.NumberClass if is_class else types.DType)(_element(dtype))
    if key[0] == POINTER:
        return types.CPointer(_element(key[1]))
    if key[0] == OTHER:
        return key[1]
    if key[0] == ENUM:
        member = types.IntEnumMember if issubclass(key[1], int) else types.EnumMember
        return member(key[1], numba_type(key[2]))
    _, parts, named = key
    kinds = [numba_type(part) for part in parts]
    same = bool(kinds) and all(kind == kinds[0] for kind in kinds)
    if named is not None:
        if same:
            return types.NamedUniTuple(kinds[0], len(kinds), named)
        return types.NamedTuple(kinds, named)
    return types.UniTuple(kinds[0], len(kinds)) if same else types.Tuple(kinds)


def key_of(kind: Any) -> tuple[Any, ...]:
    """The key for a Numba type: what `numba_type` undoes.

    Raises:
        TypeError: arguments of that type cannot be passed to a kernel.
    """
    of = kind.dtype if isinstance(kind, types.Array) else kind
    if not type(of).__module__.startswith(("numba.core.", "numba.np.", "haulage.")):
        # A type of a program's own: kernels can be compiled for it, and no value of a launch fits.
        return (OTHER, kind)
    if isinstance(kind, types.Array):
        dtype = _dtype(kind.dtype)
        return (ARRAY, dtype, kind.ndim, kind.layout, not kind.mutable, kind.aligned)
    if isinstance(kind, types.Record):
        return (RECORD, _dtype(kind), not kind.mutable, True)
    if isinstance(kind, types.BaseTuple):
        named = getattr(kind, "instance_class", None)
        return (TUPLE, tuple(key_of(part) for part in kind), named)
    if isinstance(kind, (types.Number, types.Boolean, types.NPDatetime, types.NPTimedelta)):
        return (SCALAR, _dtype(kind))
    if isinstance(kind, types.NoneType):
        return (NONE,)
    if isinstance(kind, (types.DType, types.NumberClass)):
        return (DTYPE, _dtype(kind.dtype), isinstance(kind, types.NumberClass))
    if isinstance(kind, types.CPointer):
        return (POINTER, _dtype(kind.dtype))
    if isinstance(kind, types.EnumMember):
        return (ENUM, kind.instance_class, key_of(kind.dtype))
    raise TypeError(f"a kernel cannot take an argument of type {kind}")


def kernel_signature(argument_types: tuple[Any, ...]) -> Any:
    """Numba's signature of a kernel that takes arguments of these types."""
    return types.none(*argument_types)


def set_ufunc_target(name: str, module: str, ufunc: str, gufunc: str) -> None:
    """Let `numba.vectorize` and `numba.guvectorize` look anew for what makes their results.

    For `target=name` that is the class `ufunc` or `gufunc` of a module, which is imported when it
    is first asked for.
    """
    for decorator, made_by in ((Vectorize, ufunc), (GUVectorize, gufunc)):
        unset_ufunc_target(name, decorator)
        decorator.target_registry.ondemand[name] = partial(_member, module, made_by)


def unset_ufunc_target(name: str, *decorators: Any) -> None:
    """Undo `set_ufunc_target`, for some of Numba's two decorators only if any are given."""
    for decorator in decorators or (Vectorize, GUVectorize):
        # Numba's registries refuse to replace a value.
        decorator.target_registry.pop(name, None)
        decorator.target_registry.ondemand.pop(name, None)


def _member(module: str, name: str) -> Any:
    return getattr(import_module(module), name)


def key_of_type(value: Any) -> tuple[Any, ...] | None:
    """`key_of(value)` if that is a Numba type, None for values of any other kind."""
    return key_of(value) if isinstance(value, types.Type) else None


def _dtype(kind: Any) -> np.dtype[Any]:
    try:
        return numpy_support.as_dtype(kind)
    except NumbaError as error:
        raise TypeError(f"NumPy has no dtype for {kind}") from error


def _element(dtype: np.dtype[Any]) -> Any:
    try:
        return numpy_support.from_dtype(dtype)
    except (NotImplementedError, NumbaError) as error:
        raise TypeError(f"Unsupported array dtype: {dtype}; kernels have no type for it") from error


def _placed(kind: Any, readonly: bool, aligned: bool) -> Any:
    """`kind` as it is in memory that may be read-only or not aligned; differs for records only."""
    if isinstance(kind, types.NestedArray) and readonly:
        return ReadOnlyNestedArray(_placed(kind.dtype, readonly, aligned), kind.shape)
    if not isinstance(kind, types.Record) or (aligned and not readonly):
        return kind
    members = [
        (name, {**member._asdict(), "type": _placed(member.type, readonly, aligned)})
        for name, member in kind.fields.items()
    ]
    made = ReadOnlyRecord if readonly else types.Record
    return made(members, kind.size, kind.aligned and aligned)


def any_type(value: Any) -> Any:
    """The type that Numba, or a user's extension of it, has for a value; None if there is none."""
    try:
        return typeof(value)
    except ValueError:
        return None


def pickled(value: Any) -> bytes:
    """`value` in bytes; functions of no module that can be imported go with their code."""
    return bytes(cloudpickle.dumps(value))


def unpickled(data: bytes) -> Any:
    """The value that `pickled` put into bytes."""
    return cloudpickle.loads(data)


# ---- what a kernel reaches: for the digest of `compiler/cache` -------------------------------

_PLAIN = (types.Number, types.Boolean, types.NPDatetime, types.NPTimedelta, types.NoneType)


def type_text(value: Any) -> str | None:
    """A Numba type as a text that means the same in each process; None for other values and types.

    The other types are those that stand for objects, and those of extensions.
    """
    if isinstance(value, types.Record):
        inner = [member.type for member in value.fields.values()]
    elif isinstance(value, types.Array):
        inner = [value.dtype]
    elif isinstance(value, types.BaseTuple) and not isinstance(value, types.BaseNamedTuple):
        inner = list(value)
    elif isinstance(value, _PLAIN):
        inner = []
    else:
        return None
    own = type(value).__module__.startswith(("numba.", "haulage."))
    if not own or any(type_text(kind) is None for kind in inner):
        return None
    return f"{type(value).__name__} {value}"


def python_function(value: Any) -> Any:
    """The Python function of one that Numba compiles; None for anything else."""
    return value.py_func if isinstance(value, Dispatcher) else None


def extension(names: set[str]) -> str | None:
    """One of `names`, or an operator, whose meaning somebody gave to Numba; None if there is none.

    Those are names of functions, methods and attributes with an `@overload` and the like outside
    of Numba and Haulage.
    """
    sizes = len(builtin_registry.functions), len(builtin_registry.attributes)
    extended, operators = _extensions(*sizes)
    return next(iter(sorted(operators | (extended & names))), None)


@functools.lru_cache(maxsize=1)
def _extensions(functions: int, attributes: int) -> tuple[frozenset[str], frozenset[str]]:
    """(names, operators) as for `extension`; the registries have so many entries."""
    names: set[str] = set()
    operators: set[str] = set()
    for template in builtin_registry.functions:
        key = getattr(template, "key", None)
        if _is_foreign(template):
            name = getattr(key, "__name__", str(key))
            at_operator = getattr(key, "__module__", None) == "_operator"
            (operators if at_operator else names).add(name)
    for template in builtin_registry.attributes:
        if _is_foreign(template):
            names.add(str(getattr(template, "_attr", template.__name__)))
    return frozenset(names), frozenset(operators)


def warning_category(name: str) -> type[Warning]:
    """One of Numba's classes of warnings."""
    category: type[Warning] = getattr(import_module("numba.core.errors"), name)
    return category


def _is_foreign(template: Any) -> bool:
    made_of = getattr(template, "_overload_func", None) or getattr(
        template, "_definition_func", None
    )
    generic: Any = getattr(template, "generic", None)
    if made_of is None and getattr(generic, "__module__", None) == "numba.core.extending":
        # What `type_callable` decorated.
        made_of = generic.__closure__[0].cell_contents
    namespace = getattr(made_of, "__globals__", {"__name__": template.__module__})
    return str(namespace.get("__name__")).partition(".")[0] not in ("numba", "haulage")
