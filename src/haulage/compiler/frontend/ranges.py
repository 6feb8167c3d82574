"""The loop variable of `for i in range(...)`, with what is known of it.

Numba counts a range's turns and adds the step once more behind the last, which may overflow, so it
cannot promise that the addition does not. But what overflows is in no turn: to LLVM a promise that
is broken by a number that nobody uses is none. With it LLVM sees that an index which begins at 0 or
above and goes up is never negative, and drops the wraparound of negative indices from each access
in the loop, which would make gathers of them.
"""

from typing import Any

from numba.core import cgutils, types
from numba.core.imputils import RefType, Registry, iternext_impl

registry = Registry("haulage ranges")


def _next(context: Any, builder: Any, sig: Any, args: Any, result: Any) -> None:
    (kind,) = sig.args
    state = cgutils.create_struct_proxy(kind)(context, builder, value=args[0])
    zero, one = (context.get_constant(kind.yield_type, number) for number in (0, 1))
    count = builder.load(state.count)
    more = builder.icmp_signed(">", count, zero)
    result.set_valid(more)
    with builder.if_then(more):
        value = builder.load(state.iter)
        result.yield_(value)
        builder.store(builder.sub(count, one, flags=["nsw"]), state.count)
        builder.store(builder.add(value, state.step, flags=["nsw"]), state.iter)


for _kind in (types.range_iter32_type, types.range_iter64_type):
    registry.lower("iternext", _kind)(iternext_impl(RefType.BORROWED)(_next))
