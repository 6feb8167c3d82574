"""Waiting for the other threads of a block, and making writes seen in order."""

from typing import Any

from haulage.lang.word import Word, word

# The flags of roc's barrier and mem_fence, with numba.roc's values.
CLK_LOCAL_MEM_FENCE = 0
CLK_GLOBAL_MEM_FENCE = 1


def _barrier(tools: Any, *flags: Any, wave: bool = False) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        where = tools.source_place(builder)
        place = context.haulage_faults.barrier(builder.module, *where, wave=wave)
        target = context.haulage_target
        (target.wave_barrier if wave else target.barrier)(builder, place)
        return context.get_dummy_value()

    return tools.signature(tools.types.none, *flags), generate


@word("syncthreads")
def syncthreads(tools: Any) -> Any:
    """`syncthreads()`: wait until every thread of the block is here; their writes are seen then."""
    return _barrier(tools)


def _barrier_reduce(name: str, operation: str, meaning: str) -> Word:
    def build(tools: Any, predicate: Any) -> Any:
        if not isinstance(predicate, (tools.types.Boolean, tools.types.Integer)):
            raise tools.TypingError(
                f"{name}(predicate): predicate: expected a bool or an int; got {predicate}"
            )

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            flag = context.cast(builder, args[0], sig.args[0], tools.types.boolean)
            place = context.haulage_faults.barrier(builder.module, *tools.source_place(builder))
            return context.haulage_target.barrier_reduce(builder, operation, flag, place)

        return tools.types.int32(predicate), generate

    build.__doc__ = (
        f"`{name}(predicate)`: `syncthreads()` that gives every thread {meaning}, int32."
    )
    return word(name)(build)


syncthreads_count = _barrier_reduce(
    "syncthreads_count", "add", "the number of threads of the block whose predicate is true"
)
syncthreads_and = _barrier_reduce(
    "syncthreads_and", "and", "1 if the predicate of all threads of the block is true, else 0"
)
syncthreads_or = _barrier_reduce(
    "syncthreads_or", "or", "1 if the predicate of any thread of the block is true, else 0"
)


@word("barrier")
def barrier(tools: Any, flags: Any = None) -> Any:
    """`barrier(flags=CLK_GLOBAL_MEM_FENCE)`: wait until every work-item of the group is here.

    Both flags order local and global memory on every device.
    """
    if flags is None:
        return _barrier(tools)
    if not isinstance(flags, tools.types.Integer):
        raise tools.TypingError(f"barrier(flags): expected a CLK_* flag; got {flags}")
    return _barrier(tools, flags)


@word("wavebarrier")
def wavebarrier(tools: Any) -> Any:
    """`wavebarrier()`: wait until every work-item of the wavefront is here or has ended.

    A wavefront is 64 work-items of a group that follow one another (x fastest); the last one may
    have fewer. What they wrote before is seen by all of them then.
    """
    return _barrier(tools, wave=True)


def _fence(tools: Any, scope: str) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        context.haulage_target.fence(builder, scope)
        return context.get_dummy_value()

    return tools.signature(tools.types.none), generate


@word("threadfence_block")
def threadfence_block(tools: Any) -> Any:
    """`threadfence_block()`: the block sees this thread's earlier writes before its later ones."""
    return _fence(tools, "block")


@word("threadfence")
def threadfence(tools: Any) -> Any:
    """`threadfence()`: the device sees this thread's earlier writes before its later ones."""
    return _fence(tools, "device")


@word("threadfence_system")
def threadfence_system(tools: Any) -> Any:
    """`threadfence_system()`: every device and the host see them in that order."""
    return _fence(tools, "system")


@word("mem_fence")
def mem_fence(tools: Any, flags: Any) -> Any:
    """`mem_fence(flags)`: order this work-item's earlier memory accesses before its later ones."""
    if not isinstance(flags, tools.types.Integer):
        raise tools.TypingError(f"mem_fence(flags): expected a CLK_* flag; got {flags}")
    sig, generate = _fence(tools, "device")
    return sig.replace(args=(flags,)), generate


@word("nanosleep")
def nanosleep(tools: Any, ns: Any) -> Any:
    """`nanosleep(ns)`: let others work for about `ns` nanoseconds, or for less.

    On the CPU the core is given away once, however long that is.
    """
    if not isinstance(ns, tools.types.Integer):
        raise tools.TypingError(f"nanosleep(ns): ns: expected an int; got {ns}")

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        wanted = context.cast(builder, args[0], sig.args[0], tools.types.uint32)
        context.haulage_target.pause(builder, wanted)
        return context.get_dummy_value()

    return tools.types.none(ns), generate
