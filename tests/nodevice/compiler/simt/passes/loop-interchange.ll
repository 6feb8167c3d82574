; All threads go round together, and neighbours read neighbouring elements in each iteration.
; BLOCK: 64

define i32 @haulage.kernel(INDICES, ptr %x, i64 %n, i64 %m) {
entry:
  %t = zext nneg i32 %threadIdx.x to i64
  %b = zext nneg i32 %blockIdx.x to i64
  %d = zext nneg i32 %blockDim.x to i64
  %first = mul nuw nsw i64 %d, %b
  %i = add nuw nsw i64 %first, %t
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %loop ]
  %row = mul nsw i64 %k, %m
  %place = add nsw i64 %row, %i
  %at = getelementptr float, ptr %x, i64 %place
  %old = load float, ptr %at
  %new = fadd float %old, 1.0
  store float %new, ptr %at
  %next = add nuw nsw i64 %k, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret i32 0
}

; AFTER: ; interchanged loops: %loop
