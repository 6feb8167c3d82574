; A shuffle: each lane stores what it gives, a region ends, and behind it each loads its answer.
; BLOCK: 64

define i32 @haulage.kernel(INDICES, ptr %x) {
entry:
  %t = zext nneg i32 %threadIdx.x to i64
  %at = getelementptr i64, ptr %x, i64 %t
  %own = load i64, ptr %at
  %other = call i64 @haulage.shuffle.down.64.32(i32 -1, i32 1, i64 %own, i32 31, i32 1)
  store i64 %other, ptr %at
  ret i32 0
}

declare i64 @haulage.shuffle.down.64.32(i32, i32, i64, i32, i32) convergent

; STAGE: region-fission
; BEFORE: %other = call i64 @haulage.shuffle.down.64.32
; AFTER: store i64 %own, ptr
; AFTER: ; a region ends
; AFTER: load i64, ptr
; AFTER: store i64 %other, ptr %at
; AFTER-NOT: @haulage.shuffle
