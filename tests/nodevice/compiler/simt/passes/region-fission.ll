; The kernel is split at its barrier. Where regions may be vectorised, that is tried on it first.
; BLOCK: 64
; OFF: region-vectorization

define i32 @haulage.kernel(INDICES, ptr %x, ptr %y) {
entry:
  %t = zext nneg i32 %threadIdx.x to i64
  %b = zext nneg i32 %blockIdx.x to i64
  %d = zext nneg i32 %blockDim.x to i64
  %first = mul nuw nsw i64 %d, %b
  %i = add nuw nsw i64 %first, %t
  %at = getelementptr float, ptr %x, i64 %i
  store float 1.0, ptr %at
  call void @haulage.barrier(i32 1)
  %from = getelementptr float, ptr %x, i64 %first
  %all = load float, ptr %from
  %to = getelementptr float, ptr %y, i64 %i
  store float %all, ptr %to
  ret i32 0
}

declare void @haulage.barrier(i32)

; BEFORE: call void @haulage.barrier(i32 1)
; AFTER: store float 1.0
; AFTER: ; a region ends (barrier)
; AFTER: load float
; AFTER-NOT: @haulage.barrier
