; Only some threads reach the barrier, as far as is known: each thread is a coroutine.
; BLOCK: 64

define i32 @haulage.kernel(INDICES, ptr %x) {
entry:
  %t = zext nneg i32 %threadIdx.x to i64
  %at = getelementptr i64, ptr %x, i64 %t
  %own = load i64, ptr %at
  %waits = icmp eq i64 %own, 0
  br i1 %waits, label %wait, label %end
wait:
  call void @haulage.barrier(i32 1)
  br label %end
end:
  store i64 %t, ptr %at
  ret i32 0
}

declare void @haulage.barrier(i32)

; BEFORE: call void @haulage.barrier(i32 1)
; AFTER: @llvm.coro.suspend
