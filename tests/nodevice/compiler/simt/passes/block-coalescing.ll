; The thread's index is used as block index times block size plus thread index only.
; BLOCK: 64

define i32 @haulage.kernel(INDICES, ptr %x) {
entry:
  %t = zext nneg i32 %threadIdx.x to i64
  %b = zext nneg i32 %blockIdx.x to i64
  %d = zext nneg i32 %blockDim.x to i64
  %first = mul nuw nsw i64 %d, %b
  %i = add nuw nsw i64 %first, %t
  %at = getelementptr float, ptr %x, i64 %i
  store float 1.0, ptr %at
  ret i32 0
}

; AFTER: ; blocks coalesced along: x
