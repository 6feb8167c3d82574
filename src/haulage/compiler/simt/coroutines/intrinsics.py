"""LLVM's switched-resume coroutines: how a function that can be suspended begins, suspends, ends.

See LLVM's "Coroutines in LLVM"; its default pipeline splits them. Those here are the function of a
thread, and the block function of a kernel whose grid has a barrier.
"""

from collections.abc import Sequence

from haulage.compiler.simt.ir.builder import Builder

DECLARATIONS = """
declare token @llvm.coro.id(i32, ptr, ptr, ptr)
declare i64 @llvm.coro.size.i64()
declare i64 @llvm.coro.align.i64()
declare ptr @llvm.coro.begin(token, ptr)
declare i8 @llvm.coro.suspend(token, i1)
declare void @llvm.coro.end(ptr, i1, token)
declare ptr @llvm.coro.free(token, ptr)
declare void @llvm.coro.resume(ptr)
declare void @llvm.coro.destroy(ptr)
"""
# Of the driver (`_core/pool_guard.c`): an alignment, bytes, and whether what runs these blocks owns
# the memory, which is freed if they crash; what outlives a phase of a grid is not owned.
HEAP_DECLARATIONS = """
declare noalias ptr @haulage_alloc(i64, i64, i1)
declare void @haulage_free(ptr)
"""

# An attribute of functions that LLVM is to split.
ATTRIBUTE = "presplitcoroutine"

# Labels: where the coroutine has ended, where its frame is freed, and where it returns to whoever
# called or resumed it.
FINAL, CLEANUP, _SUSPENDED = "%coroutine.final", "%coroutine.cleanup", "%coroutine.suspended"
_ID, _HANDLE = "%coroutine.id", "%coroutine"

# What the C library's allocator aligns to.
_HEAP_ALIGN = 16


def begin(b: Builder) -> None:
    """Begin a coroutine that allocates its own frame, with any alignment."""
    size = _size(b)
    align = b.call("i64", "llvm.coro.align.i64", (), "coroutine.align")
    _begin(b, allocate(b, align, b.round_up(size, align), owned=False))


def begin_one_of(b: Builder, count: int, number: str, frames: str, *, owned: bool) -> None:
    """Begin one of `count` coroutines, whose number is given.

    Their frames are one allocation, since only here it is known how large they are: number 0 makes
    it and stores its address to `frames`, whose owner frees it.
    """
    stride = b.round_up(_size(b), str(_HEAP_ALIGN), "coroutine.stride")
    with b.when(b.compare("eq", "i64", number, "0"), "coroutine.first"):
        nbytes = b.binary("mul", "i64", stride, str(count))
        b.store("ptr", allocate(b, str(_HEAP_ALIGN), nbytes, owned=owned), frames)
    own = b.binary("mul", "i64", stride, number)
    _begin(b, b.at("i8", b.load("ptr", frames), own))


def _size(b: Builder) -> str:
    nothing = [("ptr", "null")] * 3
    b.call("token", "llvm.coro.id", [("i32", "0"), *nothing], _ID)
    return b.call("i64", "llvm.coro.size.i64", (), "coroutine.size")


def _begin(b: Builder, memory: str) -> None:
    b.call("ptr", "llvm.coro.begin", [("token", _ID), ("ptr", memory)], _HANDLE)


def allocate(b: Builder, align: str, nbytes: str, *, owned: bool, name: str | None = None) -> str:
    """Memory of the heap; `owned` as `HEAP_DECLARATIONS` says."""
    arguments = [("i64", align), ("i64", nbytes), ("i1", str(owned).lower())]
    return b.call("ptr", "haulage_alloc", arguments, name)


def free(b: Builder, address: str) -> None:
    """Give memory of the heap back."""
    b.call("void", "haulage_free", [("ptr", address)])


def resume(b: Builder, handles: str, index: str) -> str:
    """Resume the coroutine whose handle is an element of an array; returns the handle."""
    handle = b.load("ptr", b.at("ptr", handles, index))
    b.call("void", "llvm.coro.resume", [("ptr", handle)])
    return handle


def suspend(b: Builder, resumed: str | None = None, destroyed: str = CLEANUP) -> None:
    """Suspend; the coroutine goes on in the block `resumed`, by default one that begins here, or in
    `destroyed` if it is destroyed instead."""
    behind = resumed or b.name("coroutine.resumed")
    _suspend(b, "false", behind, destroyed)
    if resumed is None:
        b.block(behind)


def _suspend(b: Builder, final: str, resumed: str, destroyed: str) -> None:
    way = b.call("i8", "llvm.coro.suspend", [("token", "none"), ("i1", final)])
    b.switch("i8", way, _SUSPENDED, [(0, resumed), (1, destroyed)])


def end(b: Builder, *, owned: bool = True, freed: Sequence[str] = ()) -> None:
    """The function's last blocks. When it is destroyed, the memory `freed` is given back, and its
    frame if it is `owned`."""
    b.block(FINAL)
    _suspend(b, "true", "%coroutine.never", CLEANUP)
    b.block("%coroutine.never")
    b.unreachable()
    b.block(CLEANUP)
    for address in freed:
        free(b, address)
    if owned:
        arguments = [("token", _ID), ("ptr", _HANDLE)]
        free(b, b.call("ptr", "llvm.coro.free", arguments))
    b.jump(_SUSPENDED)
    b.block(_SUSPENDED)
    b.call("void", "llvm.coro.end", [("ptr", _HANDLE), ("i1", "false"), ("token", "none")])
    b.ret("ptr", _HANDLE)
