; A guard at a region's start is the end of its loop over threads.
; BLOCK: 64

define i32 @haulage.kernel(INDICES, ptr %x, i64 %n) {
entry:
  %t = zext nneg i32 %threadIdx.x to i64
  %b = zext nneg i32 %blockIdx.x to i64
  %d = zext nneg i32 %blockDim.x to i64
  %first = mul nuw nsw i64 %d, %b
  %i = add nuw nsw i64 %first, %t
  %works = icmp slt i64 %i, %n
  br i1 %works, label %work, label %end
work:
  %at = getelementptr float, ptr %x, i64 %i
  store float 1.0, ptr %at
  br label %end
end:
  ret i32 0
}

; STAGE: blocks
; BEFORE: br i1 %works, label %work, label %end
; BEFORE-NOT: %bound
; AFTER: br i1 %"works/guard", label %work, label %end
; AFTER: %bound
