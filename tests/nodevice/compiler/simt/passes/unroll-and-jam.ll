; Each thread goes through its own row, and each sum waits for the one before: four side by side.
; BLOCK: 64

define i32 @haulage.kernel(INDICES, ptr %x, ptr %y, i64 %n) {
entry:
  %t = zext nneg i32 %threadIdx.x to i64
  %b = zext nneg i32 %blockIdx.x to i64
  %d = zext nneg i32 %blockDim.x to i64
  %first = mul nuw nsw i64 %d, %b
  %i = add nuw nsw i64 %first, %t
  %row = mul nsw i64 %i, %n
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %next, %loop ]
  %sum = phi float [ 0.0, %entry ], [ %new, %loop ]
  %place = add nsw i64 %row, %k
  %at = getelementptr float, ptr %x, i64 %place
  %value = load float, ptr %at
  %new = fadd float %sum, %value
  %next = add nuw nsw i64 %k, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  %to = getelementptr float, ptr %y, i64 %i
  store float %new, ptr %to
  ret i32 0
}

; STAGE: blocks
; BEFORE-NOT: jam
; AFTER: @haulage.region.0.jam(
; AFTER: %"new/jam.3" = fadd
