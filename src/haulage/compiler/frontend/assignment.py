"""`a[1:] = b[:-1]`: elements of one array into a part of another, without memory in between.

Numba copies a source that may overlap its target to the heap first. Here the elements go in an
order in which none is overwritten before it was read; where there is none the thread stops.
"""

import operator
from typing import Any

from numba.core import cgutils, types
from numba.core.imputils import Registry
from numba.core.typing import signature
from numba.core.typing.arraydecl import get_array_index_type
from numba.np import arrayobj

registry = Registry("haulage assignment")

_NO_ORDER = (
    "the source overlaps its target so that each order of copying would overwrite elements that "
    "are still to be read; copy them to a cuda.local.array first"
)

_OTHER_SHAPE = "the source cannot be broadcast to the shape of the part that it is assigned to"


def _order(
    target: int,
    source: int,
    target_bytes: int,
    source_bytes: int,
    shape: tuple[int, ...],
    target_strides: tuple[int, ...],
    source_strides: tuple[int, ...],
    same_type: int,
) -> int:
    """1 if the elements can be copied from the first to the last, -1 if from the last to the first,
    0 if neither; the addresses are those of the first elements, strides are in bytes. Elements
    of the same type that are copied to themselves stay as they are."""

    def offset(number: int, strides: tuple[int, ...]) -> int:
        total = 0
        for back in range(len(shape)):
            axis = len(shape) - 1 - back
            total += number % shape[axis] * strides[axis]
            number //= shape[axis]
        return total

    size, reach, alike = 1, 0, True
    for back in range(len(shape)):
        axis = len(shape) - 1 - back
        size *= shape[axis]
        if shape[axis] > 1:
            alike &= target_strides[axis] == source_strides[axis] > reach
            reach += target_strides[axis] * (shape[axis] - 1)
    # Where the elements' order is that of their addresses, the way that they move decides.
    if alike:
        return 1 if target <= source else -1
    forward = backward = True
    for written in range(size):
        at = target + offset(written, target_strides)
        if same_type and at == source + offset(written, source_strides):
            continue
        for read in range(size):
            other = source + offset(read, source_strides)
            if at < other + source_bytes and other < at + target_bytes:
                forward &= read <= written
                backward &= read >= written
    return 1 if forward else -1 if backward else 0


@registry.lower(operator.setitem, types.Array, types.Any, types.Array)
def _assign(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    array, index, source_type = sig.args
    place = args[1]
    if not isinstance(index, types.BaseTuple):
        index = types.Tuple((index,))
        place = context.make_tuple(builder, index, (place,))
    indexing = get_array_index_type(array, index)
    if indexing.advanced or not isinstance(indexing.result, types.Array):
        return arrayobj.setitem_array(context, builder, sig, args)
    view_type = indexing.result
    getitem = context.get_function(operator.getitem, signature(view_type, array, index))
    integer = context.get_value_type(types.intp)
    target = arrayobj.make_array(view_type)(context, builder, getitem(builder, (args[0], place)))
    shape = cgutils.unpack_tuple(builder, target.shape)
    source = arrayobj.make_array(source_type)(context, builder, args[2])
    strides = (
        cgutils.unpack_tuple(builder, target.strides),
        _broadcast_strides(context, builder, source, shape),
    )

    def copy(backward: bool) -> None:
        with cgutils.loop_nest(builder, shape, integer) as places:
            if backward:
                last = [builder.sub(extent, extent.type(1)) for extent in shape]
                places = [builder.sub(*pair) for pair in zip(last, places, strict=True)]
            to, of = (
                cgutils.get_item_pointer2(
                    context, builder, each.data, shape, steps, "A", places, wraparound=False
                )
                for each, steps in zip((target, source), strides, strict=True)
            )
            value = arrayobj.load_item(context, builder, source_type, of)
            value = context.cast(builder, value, source_type.dtype, array.dtype)
            arrayobj.store_item(context, builder, view_type, value, to)

    if not shape:
        copy(backward=False)
        return context.get_dummy_value()
    overlap = arrayobj.extents_may_overlap(
        context,
        builder,
        *_extents(context, builder, view_type, target, shape, strides[0]),
        *_extents(context, builder, source_type.copy(ndim=len(shape)), source, shape, strides[1]),
    )
    with builder.if_else(overlap, likely=False) as (overlapping, apart):
        with apart:
            copy(backward=False)
        with overlapping:
            word, axes = types.intp, types.UniTuple(types.intp, len(shape))
            order = context.compile_internal(
                builder,
                _order,
                signature(word, *4 * (word,), *3 * (axes,), word),
                (
                    *(builder.ptrtoint(each.data, integer) for each in (target, source)),
                    *(target.itemsize, source.itemsize, target.shape),
                    *(cgutils.pack_array(builder, each) for each in strides),
                    context.get_constant(word, int(array.dtype == source_type.dtype)),
                ),
            )
            none = order.type(0)
            with builder.if_then(builder.icmp_signed("==", order, none), likely=False):
                context.call_conv.return_user_exc(builder, ValueError, (_NO_ORDER,))
            with builder.if_else(builder.icmp_signed(">", order, none)) as (first, last):
                with first:
                    copy(backward=False)
                with last:
                    copy(backward=True)
    return context.get_dummy_value()


def _broadcast_strides(context: Any, builder: Any, source: Any, shape: Any) -> list[Any]:
    """The strides with which `source` has a shape, 0 along axes where it is repeated; the thread
    stops if it has not."""
    extents = cgutils.unpack_tuple(builder, source.shape)
    strides = cgutils.unpack_tuple(builder, source.strides)
    none, one = (context.get_constant(types.intp, number) for number in (0, 1))
    more = len(shape) - len(extents)
    wanted = [one] * -more + shape
    extents, strides = [one] * more + extents, [none] * more + strides
    found, fits = [], cgutils.true_bit
    for want, extent, stride in zip(wanted, extents, strides, strict=True):
        single = builder.icmp_signed("==", extent, one)
        found.append(builder.select(single, none, stride))
        same = builder.icmp_signed("==", extent, want)
        fits = builder.and_(fits, builder.or_(single, same))
    with builder.if_then(builder.not_(fits), likely=False):
        context.call_conv.return_user_exc(builder, ValueError, (_OTHER_SHAPE,))
    return found[len(found) - len(shape) :]


def _extents(
    context: Any, builder: Any, kind: Any, array: Any, shape: Any, strides: Any
) -> tuple[Any, Any]:
    """The lowest address of an array's elements, and the first beyond all of them."""
    low, high = arrayobj.offset_bounds_from_strides(context, builder, kind, array, shape, strides)
    found: tuple[Any, Any] = arrayobj.compute_memory_extents(
        context, builder, low, high, array.data
    )
    return found
