; A sum over a row that all threads read stays in registers for strips of threads.
; BLOCK: 64

define i32 @haulage.kernel(INDICES, ptr %x, ptr %y, i64 %n, i64 %m) {
entry:
  %t = zext nneg i32 %threadIdx.x to i64
  %b = zext nneg i32 %blockIdx.x to i64
  %d = zext nneg i32 %blockDim.x to i64
  %first = mul nuw nsw i64 %d, %b
  %i = add nuw nsw i64 %first, %t
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %loop ]
  %sum = phi float [ 0.0, %entry ], [ %new, %loop ]
  %row = mul nsw i64 %k, %m
  %place = add nsw i64 %row, %i
  %at = getelementptr float, ptr %x, i64 %place
  %value = load float, ptr %at
  %shared.at = getelementptr float, ptr %y, i64 %k
  %shared = load float, ptr %shared.at
  %product = fmul float %value, %shared
  %new = fadd float %sum, %product
  %next = add nuw nsw i64 %k, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  %to = getelementptr float, ptr %y, i64 %i
  store float %new, ptr %to
  ret i32 0
}

; AFTER: ; strips: %loop
