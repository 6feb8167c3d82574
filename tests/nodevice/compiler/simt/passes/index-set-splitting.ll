; There is work on both sides: a region for the threads that pass and one for the others.
; BLOCK: 64

define i32 @haulage.kernel(INDICES, ptr %x, i64 %n) {
entry:
  %t = zext nneg i32 %threadIdx.x to i64
  %b = zext nneg i32 %blockIdx.x to i64
  %d = zext nneg i32 %blockDim.x to i64
  %first = mul nuw nsw i64 %d, %b
  %i = add nuw nsw i64 %first, %t
  %at = getelementptr float, ptr %x, i64 %i
  %inside = icmp slt i64 %i, %n
  br i1 %inside, label %work, label %border
work:
  %behind = getelementptr float, ptr %at, i64 1
  %value = load float, ptr %behind
  store float %value, ptr %at
  br label %end
border:
  store float 1.0, ptr %at
  br label %end
end:
  ret i32 0
}

; STAGE: blocks
; BEFORE-NOT: border.on
; AFTER: border.on
