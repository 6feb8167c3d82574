"""Writes the copies of arrays that a kernel only adds to (`privatization.py`) into the kernel's
entry.

A call of the entry runs some of a launch's blocks in one thread of the system. It copies an array
if that is small enough to stay in the fastest cache and has no more elements than there are threads
to add to it, and if no other array that the kernel uses overlaps it.
"""

from collections.abc import Sequence

from haulage.compiler.simt.loops.privatization import SIZES, Array, Total

# What a copy may take, so that it stays in the first level of the cache.
COPIED_BYTES = 16 * 1024


def open_totals(totals: Sequence[Total], threads: int, before: str) -> tuple[list[str], str]:
    """Lines behind the block `before` that make the copies, and the label of the last block."""
    lines: list[str] = []
    for number, total in enumerate(totals):
        array, kind, k = total.array, total.type, f"total.{number}"
        lines += [
            f"  %{k}.copy = alloca [{COPIED_BYTES} x i8], align 64",
            f"  %{k}.bytes = mul i64 {array.items}, {SIZES[kind]}",
            f"  %{k}.end = getelementptr i8, ptr {array.data}, i64 %{k}.bytes",
            f"  %{k}.small = icmp ule i64 {array.items}, {COPIED_BYTES // SIZES[kind]}",
            f"  %{k}.plain = icmp eq i64 {array.itemsize}, {SIZES[kind]}",
            f"  %{k}.blocks = sub i64 %last, %first",
            f"  %{k}.adding = mul i64 %{k}.blocks, {threads}",
            f"  %{k}.many = icmp ule i64 {array.items}, %{k}.adding",
            f"  %{k}.fits = and i1 %{k}.small, %{k}.plain",
            f"  %{k}.is.0 = and i1 %{k}.fits, %{k}.many",
        ]
        for other, each in enumerate(total.others):
            lines += _apart(each, total, k, other)
        last = len(total.others)
        lines += [
            f"  {total.room} = select i1 %{k}.is.{last}, ptr %{k}.copy, ptr null",
            f"  %{k}.count = select i1 %{k}.is.{last}, i64 {array.items}, i64 0",
            *_loop(f"{k}.start", f"%{k}.count", before),
            f"  %{k}.start.at = getelementptr inbounds {kind}, ptr %{k}.copy, i64 %{k}.start.i",
            f"  store {kind} {total.start}, ptr %{k}.start.at",
            *_end_loop(f"{k}.start"),
        ]
        before = f"{k}.start.out"
    return lines, before


def _apart(other: Array, total: Total, k: str, number: int) -> list[str]:
    """Lines that ask whether `other` and the array of `total` have no byte in common."""
    name = f"{k}.other.{number}"
    lines = []
    low, high = "0", other.itemsize
    for axis, (size, stride) in enumerate(zip(other.shape, other.strides, strict=True)):
        lines += [
            f"  %{name}.steps.{axis} = sub i64 {size}, 1",
            f"  %{name}.span.{axis} = mul i64 %{name}.steps.{axis}, {stride}",
            f"  %{name}.down.{axis} = call i64 @llvm.smin.i64(i64 %{name}.span.{axis}, i64 0)",
            f"  %{name}.up.{axis} = call i64 @llvm.smax.i64(i64 %{name}.span.{axis}, i64 0)",
            f"  %{name}.low.{axis} = add i64 {low}, %{name}.down.{axis}",
            f"  %{name}.high.{axis} = add i64 {high}, %{name}.up.{axis}",
        ]
        low, high = f"%{name}.low.{axis}", f"%{name}.high.{axis}"
    return [
        *lines,
        f"  %{name}.begin = getelementptr i8, ptr {other.data}, i64 {low}",
        f"  %{name}.end = getelementptr i8, ptr {other.data}, i64 {high}",
        f"  %{name}.before = icmp ule ptr %{name}.end, {total.array.data}",
        f"  %{name}.behind = icmp uge ptr %{name}.begin, %{k}.end",
        f"  %{name}.apart = or i1 %{name}.before, %{name}.behind",
        f"  %{k}.is.{number + 1} = and i1 %{k}.is.{number}, %{name}.apart",
    ]


def close_totals(totals: Sequence[Total], before: str) -> list[str]:
    """Lines behind the block `before` that add the copies to their arrays, in any order."""
    lines: list[str] = []
    for number, total in enumerate(totals):
        kind, k = total.type, f"total.{number}"
        bits = f"i{8 * SIZES[kind]}"
        lines += [
            *_loop(f"{k}.merge", f"%{k}.count", before),
            f"  %{k}.from = getelementptr inbounds {kind}, ptr %{k}.copy, i64 %{k}.merge.i",
            f"  %{k}.to = getelementptr {kind}, ptr {total.array.data}, i64 %{k}.merge.i",
            f"  %{k}.value = load {kind}, ptr %{k}.from",
            f"  %{k}.bits = bitcast {kind} %{k}.value to {bits}",
            f"  %{k}.untouched = bitcast {kind} {total.start} to {bits}",
            f"  %{k}.changed = icmp ne {bits} %{k}.bits, %{k}.untouched",
            f"  br i1 %{k}.changed, label %{k}.add, label %{k}.merge.next",
            f"{k}.add:",
            f"  %{k}.old = atomicrmw {total.operation} ptr %{k}.to, {kind} %{k}.value monotonic",
            *_end_loop(f"{k}.merge"),
        ]
        before = f"{k}.merge.out"
    return lines


def _loop(name: str, count: str, before: str) -> list[str]:
    return [
        f"  br label %{name}",
        f"{name}:",
        f"  %{name}.i = phi i64 [ 0, %{before} ], [ %{name}.after, %{name}.next ]",
        f"  %{name}.more = icmp ult i64 %{name}.i, {count}",
        f"  br i1 %{name}.more, label %{name}.body, label %{name}.out",
        f"{name}.body:",
    ]


def _end_loop(name: str) -> list[str]:
    return [
        f"  br label %{name}.next",
        f"{name}.next:",
        f"  %{name}.after = add nuw nsw i64 %{name}.i, 1",
        f"  br label %{name}",
        f"{name}.out:",
    ]
