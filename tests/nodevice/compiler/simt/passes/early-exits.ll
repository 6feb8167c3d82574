; Threads that leave for good do not keep the others from meeting at a barrier.
; BLOCK: 64

define i32 @haulage.kernel(INDICES, ptr %x) {
entry:
  %t = zext nneg i32 %threadIdx.x to i64
  %at = getelementptr i64, ptr %x, i64 %t
  %own = load i64, ptr %at
  %leaves = icmp eq i64 %own, 0
  br i1 %leaves, label %end, label %stay
stay:
  call void @haulage.barrier(i32 1)
  %mirrored = sub nsw i64 63, %t
  %to = getelementptr i64, ptr %x, i64 %mirrored
  store i64 %own, ptr %to
  br label %end
end:
  ret i32 0
}

declare void @haulage.barrier(i32)

; STAGE: work-item-loops
; AFTER: %states = alloca
