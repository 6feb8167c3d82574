; A loop over threads goes in runs, each to the end of a row, where rows are long enough.
; BLOCK: 128
; STAGE: blocks

define i32 @haulage.kernel(INDICES, ptr %x, i64 %m) {
entry:
  %t = zext nneg i32 %threadIdx.x to i64
  %i = udiv i64 %t, %m
  %j = urem i64 %t, %m
  %row = mul nuw nsw i64 %i, 1000
  %place = add nuw nsw i64 %row, %j
  %at = getelementptr float, ptr %x, i64 %place
  store float 1.0, ptr %at
  ret i32 0
}

; BEFORE-NOT: @haulage.region.0.of.run(
; AFTER: @haulage.region.0.of.run(
; AFTER: add i64 %"i/run", 0
; AFTER: add nuw nsw i64 %"j/run", %"j/wide"
; AFTER: @haulage.block(
; AFTER: icmp uge i64 %m, 32
; AFTER: urem i64
; AFTER: call { i32, i32 } @haulage.region.0.of.run(
; AFTER: call { i32, i32 } @haulage.region.0(
