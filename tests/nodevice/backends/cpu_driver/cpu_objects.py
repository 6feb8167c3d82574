"""Host objects for the tests of the CPU's driver, from LLVM IR."""

import functools

import llvmlite.binding as llvm

# Entries `(launch, first block, last block) -> fault`; at byte 32 of `launch` a pointer `p`.
#   count  adds 1 to p[g] for each block g, atomically
#   spin   as count, and each block takes about p[-1] turns of a loop
#   fault  as count; the chunk with block 7 gives fault 99
KERNELS = """
define i64 @count(ptr %launch, i64 %first, i64 %last) {
  %r = call i64 @blocks(ptr %launch, i64 %first, i64 %last, i1 false)
  ret i64 0
}
define i64 @spin(ptr %launch, i64 %first, i64 %last) {
  %r = call i64 @blocks(ptr %launch, i64 %first, i64 %last, i1 true)
  ret i64 0
}
define i64 @fault(ptr %launch, i64 %first, i64 %last) {
  %r = call i64 @blocks(ptr %launch, i64 %first, i64 %last, i1 false)
  %low = icmp ule i64 %first, 7
  %high = icmp ugt i64 %last, 7
  %has = and i1 %low, %high
  %fault = select i1 %has, i64 99, i64 0
  ret i64 %fault
}
define internal i64 @blocks(ptr %launch, i64 %first, i64 %last, i1 %slow) {
entry:
  %turn = alloca i64
  %p_at = getelementptr i8, ptr %launch, i64 32
  %p = load ptr, ptr %p_at
  %turns_at = getelementptr i64, ptr %p, i64 -1
  br label %block
block:
  %g = phi i64 [ %first, %entry ], [ %g1, %next ]
  %more = icmp ult i64 %g, %last
  br i1 %more, label %do, label %done
do:
  %at = getelementptr i64, ptr %p, i64 %g
  %old = atomicrmw add ptr %at, i64 1 seq_cst
  br i1 %slow, label %delay, label %next
delay:
  %turns = load i64, ptr %turns_at
  store volatile i64 0, ptr %turn
  br label %step
step:
  %i = load volatile i64, ptr %turn
  %i1 = add i64 %i, 1
  store volatile i64 %i1, ptr %turn
  %again = icmp ult i64 %i1, %turns
  br i1 %again, label %step, label %next
next:
  %g1 = add i64 %g, 1
  br label %block
done:
  ret i64 0
}
"""


@functools.cache
def host_object(ir: str = KERNELS) -> bytes:
    """The object file of some LLVM IR for this machine."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(ir)
    module.verify()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(opt=2, reloc="pic", codemodel="default").emit_object(module)
