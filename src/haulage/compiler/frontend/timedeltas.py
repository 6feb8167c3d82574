"""`//` and `%` of two timedeltas, which Numba has not for scalars and rounds wrongly in ufuncs."""

import operator
from typing import Any

import numpy as np
from numba.core import types
from numba.core.imputils import Registry
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate
from numba.core.typing.templates import Registry as TypingRegistry
from numba.np.npdatetime import normalize_timedeltas
from numba.np.npdatetime_helpers import DATETIME_UNITS, get_best_unit

registry = Registry("haulage timedeltas")
typing_registry = TypingRegistry()

_NAT = -(2**63)


def _quotient(a: int, b: int, missing: bool) -> int:
    return 0 if missing or b == 0 else a // b


def _remainder(a: int, b: int, missing: bool) -> int:
    return _NAT if missing or b == 0 else a % b


def _define(function: Any) -> Any:
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lacking = [builder.icmp_signed("==", each, each.type(_NAT)) for each in args]
        same_unit = normalize_timedeltas(context, builder, *args, *sig.args)
        inner = signature(types.int64, types.int64, types.int64, types.boolean)
        values = (*same_unit, builder.or_(*lacking))
        return context.compile_internal(builder, function, inner, values)

    return lower


_divide, _rest = _define(_quotient), _define(_remainder)


def _add(function: Any, result: Any, lower: Any) -> None:
    class Choice(AbstractTemplate):
        key = function

        def generic(self, args: Any, kws: Any) -> Any:
            if kws or len(args) != 2 or not all(isinstance(a, types.NPTimedelta) for a in args):
                return None
            kind = result or types.NPTimedelta(get_best_unit(*(each.unit for each in args)))
            return signature(kind, *args)

    typing_registry.register_global(function)(Choice)
    # Numba has a definition for all units, before which one for a single unit comes.
    for unit in DATETIME_UNITS:
        registry.lower(function, types.NPTimedelta(unit), types.NPTimedelta)(lower)


for _function in (operator.floordiv, operator.ifloordiv):
    _add(_function, types.int64, _divide)
for _function in (operator.mod, operator.imod):
    _add(_function, None, _rest)

# NumPy's functions on scalars: {function: {loop: implementation}}.
UFUNCS: dict[Any, dict[str, Any]] = {
    np.floor_divide: {"mm->q": _divide},
    np.remainder: {"mm->m": _rest},
}
