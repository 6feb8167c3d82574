"""Copies that the worker threads share out, as LLVM IR.

    i64  copy(launch, first, last)    an entry that copies by way of the caches
    i64  stream(launch, first, last)  an entry that writes past them, on x86-64; elsewhere as `copy`

`launch` has, from byte 32 on, the addresses that are written and read and how many bytes; they do
not overlap. A block is `COPY_BYTES` of them.

To write to the caches, a processor first reads what it overwrites: a third of what passes between
it and the memory. Large copies fill the caches with what nobody finds there any more, besides.
"""

# What a block copies.
COPY_BYTES = 1 << 20

# Bytes of a line of the caches, which has to be written whole, and of a turn of the loop.
_LINE, _TURN = 64, 256

_COPY = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal {{ ptr, ptr, i64 }} @part(ptr %launch, i64 %first, i64 %last) {{
  %to_at = getelementptr i8, ptr %launch, i64 32
  %to = load ptr, ptr %to_at, align 1
  %from_at = getelementptr i8, ptr %launch, i64 40
  %from = load ptr, ptr %from_at, align 1
  %bytes_at = getelementptr i8, ptr %launch, i64 48
  %bytes = load i64, ptr %bytes_at, align 1
  %begin = mul i64 %first, {copied}
  %full = mul i64 %last, {copied}
  %end = call i64 @llvm.umin.i64(i64 %full, i64 %bytes)
  %length = sub i64 %end, %begin
  %there = getelementptr i8, ptr %to, i64 %begin
  %here = getelementptr i8, ptr %from, i64 %begin
  %p1 = insertvalue {{ ptr, ptr, i64 }} poison, ptr %there, 0
  %p2 = insertvalue {{ ptr, ptr, i64 }} %p1, ptr %here, 1
  %p3 = insertvalue {{ ptr, ptr, i64 }} %p2, i64 %length, 2
  ret {{ ptr, ptr, i64 }} %p3
}}

define i64 @copy(ptr %launch, i64 %first, i64 %last) {{
  %part = call {{ ptr, ptr, i64 }} @part(ptr %launch, i64 %first, i64 %last)
  %there = extractvalue {{ ptr, ptr, i64 }} %part, 0
  %here = extractvalue {{ ptr, ptr, i64 }} %part, 1
  %length = extractvalue {{ ptr, ptr, i64 }} %part, 2
  call void @llvm.memcpy.p0.p0.i64(ptr %there, ptr %here, i64 %length, i1 false)
  ret i64 0
}}
"""

_STREAM = """
declare void @llvm.x86.sse.sfence()

define i64 @stream(ptr %launch, i64 %first, i64 %last) {{
entry:
  %part = call {{ ptr, ptr, i64 }} @part(ptr %launch, i64 %first, i64 %last)
  %there = extractvalue {{ ptr, ptr, i64 }} %part, 0
  %here = extractvalue {{ ptr, ptr, i64 }} %part, 1
  %length = extractvalue {{ ptr, ptr, i64 }} %part, 2
  %address = ptrtoint ptr %there to i64         ; up to the first whole line
  %back = sub i64 0, %address
  %missing = and i64 %back, {last_of_line}
  %head = call i64 @llvm.umin.i64(i64 %missing, i64 %length)
  call void @llvm.memcpy.p0.p0.i64(ptr %there, ptr %here, i64 %head, i1 false)
  %rest = sub i64 %length, %head
  %tail = and i64 %rest, {last_of_turn}
  %end = sub i64 %length, %tail
  br label %turn
turn:
  %i = phi i64 [ %head, %entry ], [ %i1, %lines ]
  %done = icmp eq i64 %i, %end
  br i1 %done, label %after, label %lines
lines:
  %s0 = getelementptr i8, ptr %here, i64 %i
  %d0 = getelementptr i8, ptr %there, i64 %i
{turn}
  %i1 = add i64 %i, {turn_bytes}
  br label %turn
after:
  %s_end = getelementptr i8, ptr %here, i64 %end
  %d_end = getelementptr i8, ptr %there, i64 %end
  call void @llvm.memcpy.p0.p0.i64(ptr %d_end, ptr %s_end, i64 %tail, i1 false)
  call void @llvm.x86.sse.sfence()              ; such writes are in no order with others before it
  ret i64 0
}}

!1 = !{{ i32 1 }}
"""


_NO_STREAM = """
@stream = alias i64 (ptr, i64, i64), ptr @copy
"""


def copy_ir(machine: str) -> str:
    """The text for a machine as `platform` names it."""
    if machine.lower() not in ("x86_64", "amd64"):
        return (_COPY + _NO_STREAM).format(copied=COPY_BYTES)
    loads, stores = [], []
    for at in range(0, _TURN, _LINE):
        loads += [
            f"  %s.{at} = getelementptr i8, ptr %s0, i64 {at}",
            f"  %v.{at} = load <{_LINE} x i8>, ptr %s.{at}, align 1",
        ]
        stores += [
            f"  %d.{at} = getelementptr i8, ptr %d0, i64 {at}",
            f"  store <{_LINE} x i8> %v.{at}, ptr %d.{at}, align {_LINE}, !nontemporal !1",
        ]
    return (_COPY + _STREAM).format(
        copied=COPY_BYTES,
        turn="\n".join(loads + stores),
        turn_bytes=_TURN,
        last_of_turn=_TURN - 1,
        last_of_line=_LINE - 1,
    )
