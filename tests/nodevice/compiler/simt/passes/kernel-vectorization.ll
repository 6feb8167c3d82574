; Threads that leave a loop at different times are lanes of masked vectors.
; BLOCK: 64

define i32 @haulage.kernel(INDICES, ptr %x) {
entry:
  %t = zext nneg i32 %threadIdx.x to i64
  %b = zext nneg i32 %blockIdx.x to i64
  %d = zext nneg i32 %blockDim.x to i64
  %first = mul nuw nsw i64 %d, %b
  %i = add nuw nsw i64 %first, %t
  %at = getelementptr float, ptr %x, i64 %i
  %start = load float, ptr %at
  br label %loop
loop:
  %y = phi float [ %start, %entry ], [ %half, %loop ]
  %half = fmul float %y, 0.5
  %more = fcmp ogt float %half, 1.0
  br i1 %more, label %loop, label %end
end:
  store float %half, ptr %at
  ret i32 0
}

; BEFORE-NOT: vectorized regions
; AFTER: ; vectorized regions: 0
