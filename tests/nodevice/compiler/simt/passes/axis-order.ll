; The innermost loop over threads goes along y, in which accesses are side by side.
; BLOCK: 16, 16

define i32 @haulage.kernel(INDICES, ptr %x) {
entry:
  %i = zext nneg i32 %threadIdx.x to i64
  %j = zext nneg i32 %threadIdx.y to i64
  %row = mul nuw nsw i64 %i, 16
  %place = add nuw nsw i64 %row, %j
  %at = getelementptr float, ptr %x, i64 %place
  store float 1.0, ptr %at
  ret i32 0
}

; AFTER: ; axes, outermost first: zxy
