"""LLVM's switched-resume coroutines: how a function that can be suspended begins, suspends, ends.

See LLVM's "Coroutines in LLVM"; its default pipeline splits them. Those here are the function of a
thread, and the block function of a kernel whose grid has a barrier.
"""

from collections.abc import Sequence

from haulage.compiler.simt.emit.block_function import HEAP_ALIGN, heap_allocate, heap_free
from haulage.compiler.simt.ir.builder import Builder

# An attribute of functions that LLVM is to split.
ATTRIBUTE = "presplitcoroutine"

# Labels: where the coroutine has ended, where its frame is freed, and where it returns to whoever
# called or resumed it.
FINAL, CLEANUP, _SUSPENDED = "%coroutine.final", "%coroutine.cleanup", "%coroutine.suspended"
_ID, _HANDLE = "%coroutine.id", "%coroutine"


def begin(b: Builder) -> None:
    """Begin a coroutine that allocates its own frame, with any alignment."""
    size = _size(b)
    align = b.call("i64", "llvm.coro.align.i64", (), "coroutine.align")
    _begin(b, heap_allocate(b, align, b.round_up(size, align), owned=False))


def begin_one_of(b: Builder, count: int, number: str, frames: str, *, owned: bool) -> None:
    """Begin one of `count` coroutines, whose number is given.

    Their frames are one allocation, since only here it is known how large they are: number 0 makes
    it and stores its address to `frames`, whose owner frees it.
    """
    stride = b.round_up(_size(b), HEAP_ALIGN, "coroutine.stride")
    with b.when(b.compare("eq", "i64", number, "0"), "coroutine.first"):
        nbytes = b.binary("mul", "i64", stride, str(count))
        b.store("ptr", heap_allocate(b, HEAP_ALIGN, nbytes, owned=owned), frames)
    own = b.binary("mul", "i64", stride, number)
    _begin(b, b.at("i8", b.load("ptr", frames), own))


def _size(b: Builder) -> str:
    nothing = [("ptr", "null")] * 3
    b.call("token", "llvm.coro.id", [("i32", "0"), *nothing], _ID)
    return b.call("i64", "llvm.coro.size.i64", (), "coroutine.size")


def _begin(b: Builder, memory: str) -> None:
    b.call("ptr", "llvm.coro.begin", [("token", _ID), ("ptr", memory)], _HANDLE)


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
    outcome = b.call("i8", "llvm.coro.suspend", [("token", "none"), ("i1", final)])
    b.switch("i8", outcome, _SUSPENDED, [(0, resumed), (1, destroyed)])


def end(b: Builder, *, owned: bool = True, freed: Sequence[str] = ()) -> None:
    """The function's last blocks. When it is destroyed, the memory `freed` is given back, and its
    frame if it is `owned`."""
    b.block(FINAL)
    _suspend(b, "true", "%coroutine.never", CLEANUP)
    b.block("%coroutine.never")
    b.unreachable()
    b.block(CLEANUP)
    for address in freed:
        heap_free(b, address)
    if owned:
        arguments = [("token", _ID), ("ptr", _HANDLE)]
        heap_free(b, b.call("ptr", "llvm.coro.free", arguments))
    b.jump(_SUSPENDED)
    b.block(_SUSPENDED)
    b.call("void", "llvm.coro.end", [("ptr", _HANDLE), ("i1", "false"), ("token", "none")])
    b.ret("ptr", _HANDLE)
