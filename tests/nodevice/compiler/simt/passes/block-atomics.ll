; An atomic operation on a shared array is a load, an operation and a store.
; BLOCK: 64

@haulage.shared.1 = external thread_local global [256 x i8], align 16

define i32 @haulage.kernel(INDICES, ptr %x) {
entry:
  %bins = call ptr @llvm.threadlocal.address.p0(ptr @haulage.shared.1)
  %t = zext i32 %threadIdx.x to i64
  %from = getelementptr i64, ptr %x, i64 %t
  %bin = load i64, ptr %from
  %to = getelementptr i32, ptr %bins, i64 %bin
  %old = atomicrmw add ptr %to, i32 1 monotonic
  ret i32 0
}

declare ptr @llvm.threadlocal.address.p0(ptr)

; STAGE: blocks
; BEFORE: atomicrmw add ptr %to, i32 1 monotonic
; AFTER: load i32, ptr %to
; AFTER: add i32
; AFTER: store i32
; AFTER-NOT: atomicrmw
