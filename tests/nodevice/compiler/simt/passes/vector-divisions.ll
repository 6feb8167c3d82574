; A division of integers that differ between threads is a call for vectors.
; BLOCK: 64

define i32 @haulage.kernel(INDICES, ptr %x, i64 %n) {
entry:
  %t = zext nneg i32 %threadIdx.x to i64
  %b = zext nneg i32 %blockIdx.x to i64
  %d = zext nneg i32 %blockDim.x to i64
  %first = mul nuw nsw i64 %d, %b
  %i = add nuw nsw i64 %first, %t
  %q = udiv i64 %i, %n
  %at = getelementptr i64, ptr %x, i64 %q
  store i64 1, ptr %at
  ret i32 0
}

; BEFORE: udiv i64 %i, %n
; AFTER: call i64 @haulage.math.near_udiv.i64(i64 %i, i64 %n)
