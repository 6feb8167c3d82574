; A region ends behind guarded work behind a barrier, where threads meet again.
; BLOCK: 64

define i32 @haulage.kernel(INDICES, ptr %x, ptr %y) {
entry:
  %t = zext nneg i32 %threadIdx.x to i64
  %b = zext nneg i32 %blockIdx.x to i64
  %d = zext nneg i32 %blockDim.x to i64
  %first = mul nuw nsw i64 %d, %b
  %i = add nuw nsw i64 %first, %t
  %from = getelementptr float, ptr %x, i64 %t
  store float 0.0, ptr %from
  call void @haulage.barrier(i32 1)
  %works = icmp ult i32 %threadIdx.x, 32
  br i1 %works, label %work, label %join
work:
  store float 1.0, ptr %from
  br label %join
join:
  %to = getelementptr float, ptr %y, i64 %i
  store float 2.0, ptr %to
  ret i32 0
}

declare void @haulage.barrier(i32)

; AFTER: ; split at: %join
