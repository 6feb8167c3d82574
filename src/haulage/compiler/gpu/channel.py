"""The functions by which kernels write to the channel of their device: see `haulage.channel`."""

from haulage.channel import (
    CAPACITY_AT,
    CHANNEL,
    FAULTS_AT,
    HEAD_AT,
    MESSAGE,
    MISSING_AT,
    MODULE,
    RING_AT,
    TAIL_AT,
)

FAULT = "haulage_fault"

_VARIABLES = f"""
@{CHANNEL} = VISIBLE addrspace(1) externally_initialized global i64 0, align 8
@{MODULE} = VISIBLE addrspace(1) externally_initialized global i32 0, align 4
@llvm.compiler.used = appending global [2 x ptr] [
    ptr addrspacecast (ptr addrspace(1) @{CHANNEL} to ptr),
    ptr addrspacecast (ptr addrspace(1) @{MODULE} to ptr)], section "llvm.metadata"
"""

_FAULT = f"""
define internal void @{FAULT}(i32 %code) INLINED nounwind cold {{
  %number = load i64, ptr addrspace(1) @{CHANNEL}, align 8
  %there = icmp ne i64 %number, 0
  br i1 %there, label %tell, label %done
tell:
  %channel = inttoptr i64 %number to ptr addrspace(1)
  %module = load i32, ptr addrspace(1) @{MODULE}, align 4
  %wide = zext i32 %module to i64
  %offset = shl i64 %wide, 2
  %at = add i64 %offset, {FAULTS_AT}
  %slot = getelementptr i8, ptr addrspace(1) %channel, i64 %at
  %old = atomicrmw umax ptr addrspace(1) %slot, i32 %code monotonic
  store atomic i32 1, ptr addrspace(1) %channel monotonic, align 4
  br label %done
done:
  ret void
}}
"""

_MESSAGE = f"""
define internal void @{MESSAGE}(i32 %number, ptr %cells, i32 %count) noinline norecurse nounwind {{
start:
  %address = load i64, ptr addrspace(1) @{CHANNEL}, align 8
  %there = icmp ne i64 %address, 0
  br i1 %there, label %begin, label %done
begin:
  %channel = inttoptr i64 %address to ptr addrspace(1)
  %capacity.at = getelementptr i8, ptr addrspace(1) %channel, i64 {CAPACITY_AT}
  %capacity = load i32, ptr addrspace(1) %capacity.at, align 4
  %capacity.wide = zext i32 %capacity to i64
  %mask = sub i64 %capacity.wide, 1
  %head.at = getelementptr i8, ptr addrspace(1) %channel, i64 {HEAD_AT}
  %tail.at = getelementptr i8, ptr addrspace(1) %channel, i64 {TAIL_AT}
  %missing.at = getelementptr i8, ptr addrspace(1) %channel, i64 {MISSING_AT}
  %ring = getelementptr i8, ptr addrspace(1) %channel, i64 {RING_AT}
  %length = add i32 %count, 1
  %length.wide = zext i32 %length to i64
  br label %look
look:
  %head = load atomic i64, ptr addrspace(1) %head.at monotonic, align 8
  %tail = load atomic i64, ptr addrspace(1) %tail.at monotonic, align 8
  %next = add i64 %head, %length.wide
  %taken = sub i64 %next, %tail
  %fits = icmp ule i64 %taken, %capacity.wide
  br i1 %fits, label %take, label %full
full:
  %lost = atomicrmw add ptr addrspace(1) %missing.at, i64 1 monotonic
  br label %done
take:
  %pair = cmpxchg ptr addrspace(1) %head.at, i64 %head, i64 %next monotonic monotonic
  %is.ours = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %is.ours, label %write, label %look
write:
  %i = phi i32 [ 0, %take ], [ %i.next, %cell ]
  %more = icmp ult i32 %i, %count
  br i1 %more, label %cell, label %end
cell:
  %i.wide = zext i32 %i to i64
  %from = getelementptr i64, ptr %cells, i64 %i.wide
  %value = load i64, ptr %from, align 8
  %i.next = add i32 %i, 1
  %i.next.wide = zext i32 %i.next to i64
  %place = add i64 %head, %i.next.wide
  %index = and i64 %place, %mask
  %to = getelementptr i64, ptr addrspace(1) %ring, i64 %index
  store i64 %value, ptr addrspace(1) %to, align 8
  br label %write
end:
  fence seq_cst
  %number.wide = zext i32 %number to i64
  %shifted = shl i64 %number.wide, 32
  %header = or i64 %shifted, %length.wide
  %header.index = and i64 %head, %mask
  %header.at = getelementptr i64, ptr addrspace(1) %ring, i64 %header.index
  store atomic i64 %header, ptr addrspace(1) %header.at monotonic, align 8
  br label %done
done:
  ret void
}}
"""


def with_channel(text: str, *, visible: str = "", inlined: str = "noinline") -> str:
    """A module's text in which the two functions that it declares of these are defined.

    Args:
        visible: how LLVM has variables that a loader finds.
        inlined: `alwaysinline` where a call costs more than a fault's few instructions.
    """
    made = []
    for name, definition in ((FAULT, _FAULT), (MESSAGE, _MESSAGE)):
        if name not in text:
            continue
        lines = text.split("\n")
        kept = [line for line in lines if not (line.startswith("declare ") and f"@{name}(" in line)]
        kept = [line for line in kept if f'@"{name}"(' not in line or "declare" not in line]
        if len(kept) < len(lines):
            made.append(definition)
            text = "\n".join(kept)
    if not made:
        return text
    variables = _VARIABLES.replace("VISIBLE ", f"{visible} " if visible else "")
    return "\n".join([text, variables, *(each.replace("INLINED", inlined) for each in made)])
