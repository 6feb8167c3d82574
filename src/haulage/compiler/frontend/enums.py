"""Members of enums that are integers, as numbers of every kind.

Numba itself makes integers of them only, and knows an IntEnum's only, not an IntFlag's.
"""

import enum
import operator
from collections.abc import Callable
from typing import Any

from numba import typeof
from numba.core import types
from numba.core.imputils import Registry
from numba.extending import overload

from haulage.compiler.frontend import words

registry = Registry("haulage.enums")


_ARITHMETIC = [
    getattr(operator, inplace + name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift")
    for inplace in ("", "i")
] + [operator.and_, operator.or_, operator.xor, operator.iand, operator.ior, operator.ixor]
_ARITHMETIC += [operator.neg, operator.pos, operator.invert, abs]


def as_numbers(function: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The types to call a function with: arithmetic takes members for their values.

    Of two members Numba would not know which of its forms for integers to take.
    """
    key = getattr(function, "typing_key", None)
    if not any(key is each for each in _ARITHMETIC):
        return args
    return tuple(kind.dtype if isinstance(kind, types.IntEnumMember) else kind for kind in args)


def value_type(value: Any) -> Any:
    """The Numba type of an enum whose members are integers, or of one of these; else None."""
    if isinstance(value, enum.EnumMeta) and issubclass(value, int):
        members: Any = value.__members__  # type: ignore[attr-defined]
        kinds = {typeof(int(member)) for member in members.values()}
        return types.IntEnumClass(value, kinds.pop()) if len(kinds) == 1 else None
    if isinstance(value, enum.Enum) and isinstance(value, int):
        return types.IntEnumMember(type(value), typeof(int(value)))
    return None


@registry.lower_cast(types.IntEnumMember, types.Float)
@registry.lower_cast(types.IntEnumMember, types.Complex)
def _as_number(context: Any, builder: Any, fromty: Any, toty: Any, value: Any) -> Any:
    return context.cast(builder, value, fromty.dtype, toty)


def _converted(convert: Any) -> Callable[..., Any]:
    # Numba wants the same parameters in both, which annotations are a part of.
    return lambda member: (
        (lambda member: convert(member.value)) if isinstance(member, types.IntEnumMember) else None
    )


for _convert in (int, float, complex, bool):
    overload(_convert, target=words.SIMT)(_converted(_convert))
