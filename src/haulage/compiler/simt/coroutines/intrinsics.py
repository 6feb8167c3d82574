"""Regions of LLVM's switched-resume coroutines, for the functions that can be suspended.

Those are the function of a thread, where threads are coroutines, and the block function of a kernel
whose grid has a barrier. See LLVM's "Coroutines in LLVM"; the default pipeline splits them.
"""

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


_ID = "  %coroutine.id = call token @llvm.coro.id(i32 0, ptr null, ptr null, ptr null)"
_SIZE = "  %coroutine.size = call i64 @llvm.coro.size.i64()"
_BEGIN = "  %coroutine = call ptr @llvm.coro.begin(token %coroutine.id, ptr %coroutine.room)"

# What the C library's allocator aligns to.
_HEAP_ALIGN = "16"


def begin() -> list[str]:
    """Lines that make the frame of a coroutine that frees it itself, with any alignment."""
    return [
        _ID,
        _SIZE,
        "  %coroutine.align = call i64 @llvm.coro.align.i64()",
        *up_to_multiple("%coroutine.size", "%coroutine.align", "%coroutine.bytes"),
        "  %coroutine.room = call ptr @haulage_alloc("
        "i64 %coroutine.align, i64 %coroutine.bytes, i1 false)",
        _BEGIN,
    ]


def begin_one_of(count: int, *, owned: bool) -> list[str]:
    """Lines that make the frame of one of `count` coroutines, whose number is `%frame.number`.

    Their frames are one room, since only here it is known how large they are: number 0 makes it and
    leaves its address at `%frames`, whose owner frees it.
    """
    return [
        _ID,
        _SIZE,
        *up_to_multiple("%coroutine.size", _HEAP_ALIGN, "%coroutine.stride"),
        "  %frame.is.first = icmp eq i64 %frame.number, 0",
        "  br i1 %frame.is.first, label %frames.make, label %frames.made",
        "frames.make:",
        f"  %frames.bytes = mul i64 %coroutine.stride, {count}",
        f"  %frames.new = call ptr @haulage_alloc("
        f"i64 {_HEAP_ALIGN}, i64 %frames.bytes, i1 {str(owned).lower()})",
        "  store ptr %frames.new, ptr %frames",
        "  br label %frames.made",
        "frames.made:",
        "  %frames.all = load ptr, ptr %frames",
        "  %frame.offset = mul i64 %coroutine.stride, %frame.number",
        "  %coroutine.room = getelementptr inbounds i8, ptr %frames.all, i64 %frame.offset",
        _BEGIN,
    ]


def up_to_multiple(value: str, of: str, result: str) -> list[str]:
    """Lines that round `value` up to a multiple of the power of two `of`, both 64 bits wide."""
    return [
        f"  {result}.less = sub i64 {of}, 1",
        f"  {result}.over = add i64 {value}, {result}.less",
        f"  {result}.mask = sub i64 0, {of}",
        f"  {result} = and i64 {result}.over, {result}.mask",
    ]


def suspend(stem: str, woken: str, dropped: str = "coroutine.cleanup") -> list[str]:
    """Lines that suspend the function, which goes on at the label `woken`, or `dropped` if it is
    destroyed instead; `stem` names the point."""
    return [
        f'  %"{stem}.woken" = call i8 @llvm.coro.suspend(token none, i1 false)',
        f'  switch i8 %"{stem}.woken", label %coroutine.suspended [',
        f'    i8 0, label %"{woken}"',
        f'    i8 1, label %"{dropped}"',
        "  ]",
    ]


def end(*clean: str, owned: bool = True) -> list[str]:
    """The function's last lines: `coroutine.final`, where it has ended, and `coroutine.cleanup`,
    which the lines `clean` are a part of, where its frame is given back if it is `owned`."""
    free = [
        "  %coroutine.freed = call ptr @llvm.coro.free(token %coroutine.id, ptr %coroutine)",
        "  call void @haulage_free(ptr %coroutine.freed)",
    ]
    return [
        "coroutine.final:",
        "  %coroutine.ended = call i8 @llvm.coro.suspend(token none, i1 true)",
        "  switch i8 %coroutine.ended, label %coroutine.suspended [",
        "    i8 0, label %coroutine.never",
        "    i8 1, label %coroutine.cleanup",
        "  ]",
        "coroutine.never:",
        "  unreachable",
        "coroutine.cleanup:",
        *clean,
        *(free if owned else []),
        "  br label %coroutine.suspended",
        "coroutine.suspended:",
        "  call void @llvm.coro.end(ptr %coroutine, i1 false, token none)",
        "  ret ptr %coroutine",
        "}",
    ]
