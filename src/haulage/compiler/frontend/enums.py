"""Members of an IntEnum as numbers of every kind; Numba itself makes integers of them only."""

from collections.abc import Callable
from typing import Any

from numba.core import types
from numba.core.imputils import Registry
from numba.extending import overload

from haulage.compiler.frontend import words

registry = Registry("haulage.enums")


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
