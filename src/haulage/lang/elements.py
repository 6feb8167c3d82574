"""One element of an array as an array of its own."""

from typing import Any

from haulage.lang.run_time_shapes import sizes_of
from haulage.lang.word import word


@word("as_array")
def as_array(tools: Any, array: Any, place: Any) -> Any:
    """`as_array(array, place)`: an array with one axis and the one element at that place.

    It is the array's memory. The place is an int or a tuple of them, not negative.
    """
    types = tools.types
    tools.check_place("as_array", array, place)
    kind = types.Array(array.dtype, 1, "C", readonly=not array.mutable, aligned=array.aligned)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        whole = context.make_array(array)(context, builder, args[0])
        indices = sizes_of(tools, context, builder, sig.args[1], args[1])
        pointer = tools.cgutils.get_item_pointer(
            context, builder, array, whole, indices, wraparound=False
        )
        nbytes = tools.item_size(context, array.dtype)
        return tools.array_over(context, builder, kind, pointer, [tools.I64(1)], nbytes)

    return tools.signature(kind, array, place), generate
