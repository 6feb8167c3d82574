; A small array that is only added to gets a copy for each chunk of blocks.
; BLOCK: 64

define i32 @haulage.kernel(INDICES, ARRAY x, ARRAY bins) {
entry:
  %t = zext nneg i32 %threadIdx.x to i64
  %from = getelementptr i64, ptr %arg.x.4, i64 %t
  %bin = load i64, ptr %from
  %to = getelementptr i32, ptr %arg.bins.4, i64 %bin
  %old = atomicrmw add ptr %to, i32 1 monotonic
  ret i32 0
}

; BEFORE-NOT: privatized
; AFTER: ; privatized: %arg.bins.4
