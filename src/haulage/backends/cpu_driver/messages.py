"""What running kernels tell the host: native buffers that worker threads write and Python reads.

A message is a number and some 8-byte cells. Those with negative numbers go to a buffer of their
own, so that no flood of the others can crowd them out. Workers never touch the interpreter, so the
buffers are written by native code, one message at a time.
"""

import ctypes
import struct
import threading
from typing import Any

from haulage.backends.cpu_driver import loader

# The function that kernels call: void (i32 number, ptr cells, i32 count).
SYMBOL = "haulage_message"
# Bytes of messages that a buffer holds, each 8 for its number and count, and its cells.
CAPACITY = 1 << 20
# More than that code uses of a stack.
STACK = 4000

_HEADER = struct.Struct("<iI")

_IR = f"""
%buffer = type {{ i32, i32, i64, [{CAPACITY} x i8] }}
@positive = internal global %buffer zeroinitializer, align 64
@negative = internal global %buffer zeroinitializer, align 64
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @haulage_busy(i64)  ; of `guard_ir.py`: nobody is to leave while he has the lock

define internal void @lock(ptr %buffer) {{
start:
  br label %try
try:
  %got = cmpxchg ptr %buffer, i32 0, i32 1 acquire monotonic
  %done = extractvalue {{ i32, i1 }} %got, 1
  br i1 %done, label %end, label %try
end:
  ret void
}}

; A stack that ends does so before the lock is taken, which nobody would release.
define internal void @reach_down() noinline {{
  %room = alloca [{STACK} x i8]
  store volatile i8 0, ptr %room
  ret void
}}

define void @{SYMBOL}(i32 %number, ptr %cells, i32 %count) {{
start:
  call void @reach_down()
  %is.negative = icmp slt i32 %number, 0
  %buffer = select i1 %is.negative, ptr @negative, ptr @positive
  call void @haulage_busy(i64 1)
  call void @lock(ptr %buffer)
  %used.at = getelementptr %buffer, ptr %buffer, i32 0, i32 2
  %used = load i64, ptr %used.at
  %count.wide = zext i32 %count to i64
  %bytes = shl i64 %count.wide, 3
  %needed = add i64 %bytes, 8
  %end = add i64 %used, %needed
  %fits = icmp ule i64 %end, {CAPACITY}
  br i1 %fits, label %write, label %drop
write:
  %at = getelementptr %buffer, ptr %buffer, i32 0, i32 3, i64 %used
  store i32 %number, ptr %at
  %count.at = getelementptr i8, ptr %at, i64 4
  store i32 %count, ptr %count.at
  %cells.at = getelementptr i8, ptr %at, i64 8
  call void @llvm.memcpy.p0.p0.i64(ptr %cells.at, ptr %cells, i64 %bytes, i1 false)
  store i64 %end, ptr %used.at
  br label %unlock
drop:
  %dropped.at = getelementptr %buffer, ptr %buffer, i32 0, i32 1
  %dropped = load i32, ptr %dropped.at
  %one.more = add i32 %dropped, 1
  store i32 %one.more, ptr %dropped.at
  br label %unlock
unlock:
  store atomic i32 0, ptr %buffer release, align 4
  call void @haulage_busy(i64 0)
  ret void
}}

define i64 @take(i32 %sign, ptr %into, ptr %dropped.into) {{
start:
  %is.negative = icmp slt i32 %sign, 0
  %buffer = select i1 %is.negative, ptr @negative, ptr @positive
  call void @lock(ptr %buffer)
  %used.at = getelementptr %buffer, ptr %buffer, i32 0, i32 2
  %used = load i64, ptr %used.at
  %room = getelementptr %buffer, ptr %buffer, i32 0, i32 3
  call void @llvm.memcpy.p0.p0.i64(ptr %into, ptr %room, i64 %used, i1 false)
  store i64 0, ptr %used.at
  %dropped.at = getelementptr %buffer, ptr %buffer, i32 0, i32 1
  %dropped = load i32, ptr %dropped.at
  store i32 %dropped, ptr %dropped.into
  store i32 0, ptr %dropped.at
  store atomic i32 0, ptr %buffer release, align 4
  ret i64 %used
}}

define void @unlock() {{
  store atomic i32 0, ptr @positive release, align 4
  store atomic i32 0, ptr @negative release, align 4
  ret void
}}
"""

_lock = threading.RLock()
_code: Any = None
_take: Any = None
_into: Any = None


def address() -> int:
    """The address of the function that kernels call; made when the first kernel asks for it."""
    global _code, _take, _into
    with _lock:
        if _code is None:
            code = loader.link_ir("messages", [SYMBOL, "take", "unlock"], _IR)
            prototype = ctypes.CFUNCTYPE(
                ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p
            )
            _take = prototype(code["take"])
            _into = ctypes.create_string_buffer(CAPACITY)
            _code = code
        return int(_code[SYMBOL])


def take(sign: int) -> tuple[list[tuple[int, bytes]], int]:
    """The messages whose numbers have that sign, in order, and how many more found no room."""
    with _lock:
        if _code is None:
            return [], 0
        dropped = ctypes.c_uint32()
        used = _take(sign, ctypes.addressof(_into), ctypes.addressof(dropped))
        text = ctypes.string_at(_into, used)
    found: list[tuple[int, bytes]] = []
    at = 0
    while at < used:
        number, count = _HEADER.unpack_from(text, at)
        start = at + _HEADER.size
        at = start + 8 * count
        found.append((number, text[start:at]))
    return found, dropped.value


def renew() -> None:
    """After a fork, in the child: locks may have been held by threads that are gone, and what was
    said before is the parent's to tell."""
    global _lock
    _lock = threading.RLock()
    if _code is not None:
        ctypes.CFUNCTYPE(None)(_code["unlock"])()
        take(1)
        take(-1)


loader.PROVIDED[SYMBOL] = address
