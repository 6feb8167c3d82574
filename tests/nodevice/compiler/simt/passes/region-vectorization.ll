; A region of a kernel with a barrier, with a loop that threads leave at different times.
; BLOCK: 64

define i32 @haulage.kernel(INDICES, ptr %x, ptr %y) {
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
  %z = phi float [ %start, %entry ], [ %half, %loop ]
  %half = fmul float %z, 0.5
  %more = fcmp ogt float %half, 1.0
  br i1 %more, label %loop, label %met
met:
  store float %half, ptr %at
  call void @haulage.barrier(i32 1)
  %from = getelementptr float, ptr %x, i64 %first
  %all = load float, ptr %from
  %to = getelementptr float, ptr %y, i64 %i
  store float %all, ptr %to
  ret i32 0
}

declare void @haulage.barrier(i32)

; BEFORE-NOT: vectorized regions
; AFTER: ; vectorized regions: 0
