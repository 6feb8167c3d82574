; The iterations that all threads have are a loop of their own; some threads have one more.
; BLOCK: 64

define i32 @haulage.kernel(INDICES, ptr %x, i64 %n) {
entry:
  %t = zext nneg i32 %threadIdx.x to i64
  %b = zext nneg i32 %blockIdx.x to i64
  %d = zext nneg i32 %blockDim.x to i64
  %first = mul nuw nsw i64 %d, %b
  %i = add nuw nsw i64 %first, %t
  %g = zext nneg i32 %gridDim.x to i64
  %step = mul nuw nsw i64 %g, %d
  %some = icmp slt i64 %i, %n
  br i1 %some, label %loop, label %end
loop:
  %k = phi i64 [ %i, %entry ], [ %next, %loop ]
  %at = getelementptr float, ptr %x, i64 %k
  store float 1.0, ptr %at
  %next = add nsw i64 %k, %step
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret i32 0
}

; AFTER: ; remainders of grid-stride loops:
