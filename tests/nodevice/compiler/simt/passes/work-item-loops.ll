; Each region is a function that the block function calls in a loop over threads, or once if all
; threads would do the same.
; BLOCK: 64

define i32 @haulage.kernel(INDICES, ptr %x, ptr %y) {
entry:
  %one = load float, ptr %y
  call void @haulage.barrier(i32 2)
  %t = zext nneg i32 %threadIdx.x to i64
  %b = zext nneg i32 %blockIdx.x to i64
  %d = zext nneg i32 %blockDim.x to i64
  %first = mul nuw nsw i64 %d, %b
  %i = add nuw nsw i64 %first, %t
  %at = getelementptr float, ptr %x, i64 %i
  store float %one, ptr %at
  call void @haulage.barrier(i32 1)
  %from = getelementptr float, ptr %x, i64 %first
  %all = load float, ptr %from
  %to = getelementptr float, ptr %y, i64 %i
  store float %all, ptr %to
  ret i32 0
}

declare void @haulage.barrier(i32)

; AFTER: @haulage.region.0(
; AFTER: @haulage.region.1(
; AFTER: @haulage.region.2(
; AFTER: @haulage.block(
; AFTER: call { i32, i32 } @haulage.region.0(
; AFTER: loop.x:
; AFTER: call { i32, i32 } @haulage.region.1(
; AFTER: loop.x1:
; AFTER: call { i32, i32 } @haulage.region.2(
