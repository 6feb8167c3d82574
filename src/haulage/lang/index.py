"""Where a thread stands: the index words of both vocabularies."""

from typing import Any

from haulage.lang.word import Register3, word

threadIdx = Register3("threadIdx", "The thread's place in its block, from 0: `.x`, `.y`, `.z`.")
blockIdx = Register3("blockIdx", "The block's place in the grid, from 0: `.x`, `.y`, `.z`.")
blockDim = Register3("blockDim", "Threads of a block: `.x`, `.y`, `.z`.")
gridDim = Register3("gridDim", "Blocks of the grid: `.x`, `.y`, `.z`.")


def _wide(tools: Any, target: Any, builder: Any, register: str) -> Any:
    return builder.zext(target.register(builder, register), tools.I64)


def global_index(tools: Any, target: Any, builder: Any, axis: str) -> Any:
    """The LLVM value, an i64, of the thread's place in the grid along "x", "y" or "z"."""
    block, size, thread = (
        _wide(tools, target, builder, f"{name}.{axis}")
        for name in ("blockIdx", "blockDim", "threadIdx")
    )
    first = builder.mul(block, size, flags=["nuw", "nsw"])
    return builder.add(first, thread, flags=["nuw", "nsw"])


def _global_size(tools: Any, target: Any, builder: Any, axis: str) -> Any:
    blocks, size = (
        _wide(tools, target, builder, f"{name}.{axis}") for name in ("gridDim", "blockDim")
    )
    return builder.mul(blocks, size, flags=["nuw", "nsw"])


def _along_axes(tools: Any, ndim: Any, name: str, value_of: Any) -> Any:
    """The word that gives one 64-bit value for 1 dimension, a tuple of them for 2 and 3."""
    if not isinstance(ndim, tools.types.IntegerLiteral) or ndim.literal_value not in (1, 2, 3):
        raise tools.TypingError(
            f"{name}(ndim): RequireLiteralValue: ndim must be the constant 1, 2 or 3; got {ndim}"
        )
    count = ndim.literal_value
    int64 = tools.types.int64
    result = int64 if count == 1 else tools.types.UniTuple(int64, count)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        values = [value_of(tools, context.haulage_target, builder, axis) for axis in "xyz"[:count]]
        return values[0] if count == 1 else tools.cgutils.pack_array(builder, values)

    return result(ndim), generate


@word("grid")
def grid(tools: Any, ndim: Any) -> Any:
    """`grid(ndim)`: the thread's place in the whole grid, int64 or a tuple of 2 or 3 (x first)."""
    return _along_axes(tools, ndim, "grid", global_index)


@word("gridsize")
def gridsize(tools: Any, ndim: Any) -> Any:
    """`gridsize(ndim)`: threads in the whole grid, int64 or a tuple of 2 or 3 (x first)."""
    return _along_axes(tools, ndim, "gridsize", _global_size)


def _by_dimension(tools: Any, dim: Any, name: str, value_of: Any, outside: int) -> Any:
    """An OpenCL-style word of one dimension, which may be known only at run time.

    As OpenCL has it, a dimension outside 0 to 2 gives `outside`.
    """
    if not isinstance(dim, tools.types.Integer):
        raise tools.TypingError(f"{name}(dim): dim must be an int; got {dim}")
    int64 = tools.types.int64

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        wanted = context.cast(builder, args[0], sig.args[0], int64)
        value = tools.ir.Constant(tools.I64, outside)
        for number, axis in enumerate("xyz"):
            is_axis = builder.icmp_signed("==", wanted, tools.ir.Constant(tools.I64, number))
            value = builder.select(
                is_axis, value_of(tools, context.haulage_target, builder, axis), value
            )
        return value

    return int64(dim), generate


def _register_word(register: str) -> Any:
    def value_of(tools: Any, target: Any, builder: Any, axis: str) -> Any:
        return _wide(tools, target, builder, f"{register}.{axis}")

    return value_of


@word("get_global_id")
def get_global_id(tools: Any, dim: Any) -> Any:
    """`get_global_id(dim)`: the work-item's place in the whole range, int64."""
    return _by_dimension(tools, dim, "get_global_id", global_index, 0)


@word("get_global_size")
def get_global_size(tools: Any, dim: Any) -> Any:
    """`get_global_size(dim)`: work-items in the whole range, int64."""
    return _by_dimension(tools, dim, "get_global_size", _global_size, 1)


@word("get_local_id")
def get_local_id(tools: Any, dim: Any) -> Any:
    """`get_local_id(dim)`: the work-item's place in its group, int64."""
    return _by_dimension(tools, dim, "get_local_id", _register_word("threadIdx"), 0)


@word("get_local_size")
def get_local_size(tools: Any, dim: Any) -> Any:
    """`get_local_size(dim)`: work-items in a group, int64."""
    return _by_dimension(tools, dim, "get_local_size", _register_word("blockDim"), 1)


@word("get_group_id")
def get_group_id(tools: Any, dim: Any) -> Any:
    """`get_group_id(dim)`: the group's place among the groups, int64."""
    return _by_dimension(tools, dim, "get_group_id", _register_word("blockIdx"), 0)


@word("get_num_groups")
def get_num_groups(tools: Any, dim: Any) -> Any:
    """`get_num_groups(dim)`: how many groups there are, int64."""
    return _by_dimension(tools, dim, "get_num_groups", _register_word("gridDim"), 1)


@word("get_work_dim")
def get_work_dim(tools: Any) -> Any:
    """`get_work_dim()`: dimensions of the range: the last one with more than one work-item."""
    int64 = tools.types.int64

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        one = tools.ir.Constant(tools.I64, 1)
        dims = one
        for number, axis in ((2, "y"), (3, "z")):
            size = _global_size(tools, context.haulage_target, builder, axis)
            is_used = builder.icmp_unsigned(">", size, one)
            dims = builder.select(is_used, tools.ir.Constant(tools.I64, number), dims)
        return dims

    return int64(), generate
