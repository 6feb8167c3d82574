; Each thread goes through memory of its own, far from its neighbour's: not vectorised.
; BLOCK: 64

define i32 @haulage.kernel(INDICES, ptr %x) {
entry:
  %t = zext nneg i32 %threadIdx.x to i64
  %far = mul nuw nsw i64 %t, 100
  %at = getelementptr float, ptr %x, i64 %far
  %old = load float, ptr %at
  %new = fadd float %old, 1.0
  store float %new, ptr %at
  ret i32 0
}

; STAGE: blocks
; BEFORE-NOT: llvm.loop.vectorize
; AFTER: llvm.loop.vectorize
