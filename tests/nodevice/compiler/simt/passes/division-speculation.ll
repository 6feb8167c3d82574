; A division under a condition, by what is the same for all lanes, cannot fail any more.
; BLOCK: 64

define i32 @haulage.kernel(INDICES, ptr %x, i64 %n) {
entry:
  %t = zext nneg i32 %threadIdx.x to i64
  %b = zext nneg i32 %blockIdx.x to i64
  %d = zext nneg i32 %blockDim.x to i64
  %first = mul nuw nsw i64 %d, %b
  %i = add nuw nsw i64 %first, %t
  %at = getelementptr i64, ptr %x, i64 %i
  %own = load i64, ptr %at
  %asks = icmp sgt i64 %own, 0
  br i1 %asks, label %divide, label %end
divide:
  %q = sdiv i64 100, %n
  store i64 %q, ptr %at
  br label %end
end:
  ret i32 0
}

; BEFORE: sdiv
; AFTER: call i64 @haulage.speculated.sdiv.i64(i64 100, i64 %n)
