"""The launching thread's part of the worker threads' code, as LLVM IR.

    i64  run(entry, launch, slot)  run a grid; returns its fault, or `LEFT` if it leaves the job, or
                                   that it was stopped, in `slot`
    i64  run_all(entry, launch, slot)  the same with all threads, whatever it took last
    i64  resume(slot)              go on with that job, likewise; empties the slot when it is done

`run` and `resume` return at the latest when the chunk during which the budget passed is done, so
that the caller can look after signals.

What a kernel's blocks took last decides who is asked: nobody for what one thread has done before
others could begin, workers that are awake for more, and those that sleep only for what is worth the
time that waking takes. If it takes longer than that after all, the rest is shared out. This is not
for kernels one of whose blocks may wait for another one: code says so by exporting `WAITS`.
"""

WAITS = "haulage_waits"

# What a call returns, in the place of a fault, that leaves something in its slot.
LEFT = -1

FIGURES = {
    # Nanoseconds after which the caller looks after signals.
    "budget": 50_000_000,
    # A chunk has at most `fine` blocks unless that made more than `most` of them: a chunk costs
    # about 0.1 microseconds, and Ctrl-C waits for one.
    "fine": 64,
    "most": 512,
    # Below so many nanoseconds two threads are slower than one.
    "alone": 4_000,
    # To wake a worker takes the launching thread about 15 microseconds, and the worker 30.
    "worth_waking": 40_000,
    # So long after the beginning of what should be short, others are called.
    "surprise": 20_000,
    # Kernels whose cost is remembered.
    "places": 1024,
    "last_place": 1023,
}

TEXT = """

; What blocks of a kernel took when it last ran: entry, then 1024 times the nanoseconds of a block.
; Two kernels may share a place, and two threads write it at once: it only says what to expect.
@costs = internal global [{places} x [2 x i64]] zeroinitializer, align 64

define internal ptr @cost_of(ptr %entry) {{
  %address = ptrtoint ptr %entry to i64
  %part = lshr i64 %address, 6
  %page = lshr i64 %address, 12
  %mixed = xor i64 %part, %page
  %place = and i64 %mixed, {last_place}
  %at = getelementptr [{places} x [2 x i64]], ptr @costs, i64 0, i64 %place
  ret ptr %at
}}

; The nanoseconds that so many blocks may take one thread; very many if nothing is known.
define internal i64 @expected(ptr %entry, i64 %blocks) {{
  %at = call ptr @cost_of(ptr %entry)
  %whose = load atomic ptr, ptr %at monotonic, align 8
  %known = icmp eq ptr %whose, %entry
  %each_at = getelementptr i64, ptr %at, i64 1
  %each = load atomic i64, ptr %each_at monotonic, align 8
  %each_wide = zext i64 %each to i128
  %blocks_wide = zext i64 %blocks to i128
  %all = mul i128 %each_wide, %blocks_wide
  %all_ns = lshr i128 %all, 10
  %huge = icmp ugt i128 %all_ns, 9223372036854775807
  %narrow = trunc i128 %all_ns to i64
  %ns = select i1 %huge, i64 -1, i64 %narrow
  %expected = select i1 %known, i64 %ns, i64 -1
  ret i64 %expected
}}

define internal void @note_cost(ptr %entry, i64 %blocks, i64 %ns) {{
  %at = call ptr @cost_of(ptr %entry)
  %many = shl i64 %ns, 10
  %each = udiv i64 %many, %blocks
  %each_at = getelementptr i64, ptr %at, i64 1
  store atomic ptr %entry, ptr %at monotonic, align 8
  store atomic i64 %each, ptr %each_at monotonic, align 8
  ret void
}}

define i64 @run(ptr %entry, ptr %launch, ptr %slot) {{
  %record = call ptr @begin_run(ptr %slot)
  %fault = call i64 @run_grid(ptr %entry, ptr %launch, ptr %slot, i1 false)
  %told = call i64 @end_run(ptr %record, ptr %slot, i64 %fault)
  ret i64 %told
}}

define i64 @run_all(ptr %entry, ptr %launch, ptr %slot) {{
  %record = call ptr @begin_run(ptr %slot)
  %fault = call i64 @run_grid(ptr %entry, ptr %launch, ptr %slot, i1 true)
  %told = call i64 @end_run(ptr %record, ptr %slot, i64 %fault)
  ret i64 %told
}}

define internal i64 @run_grid(ptr %entry, ptr %launch, ptr %slot, i1 %by_all) {{
  %gx = load i32, ptr %launch
  %gy_at = getelementptr i32, ptr %launch, i64 1
  %gy = load i32, ptr %gy_at
  %gz_at = getelementptr i32, ptr %launch, i64 2
  %gz = load i32, ptr %gz_at
  %x = zext i32 %gx to i64
  %y = zext i32 %gy to i64
  %z = zext i32 %gz to i64
  %xy = mul i64 %x, %y
  %blocks = mul i64 %xy, %z
  %small = icmp ule i64 %blocks, 1
  br i1 %small, label %inline, label %expect
inline:
  %code = call i64 @guarded(ptr %entry, ptr %launch, i64 0, i64 %blocks)
  ret i64 %code
expect:
  %told = call i64 @expected(ptr %entry, i64 %blocks)
  %expected = select i1 %by_all, i64 -1, i64 %told
  %short = icmp ult i64 %expected, {alone}
  br i1 %short, label %alone, label %share
share:
  %shared = call i64 @share(ptr %slot, ptr %entry, ptr %launch, i64 0, i64 %blocks, i64 0,
                            i64 %expected)
  ret i64 %shared

; Too little work for two threads if it takes what it took before, so this one begins alone.
alone:
  %begun = call i64 @now(i32 {monotonic})
  %late = add i64 %begun, {surprise}
  %eighth = lshr i64 %blocks, 3
  %piece = add i64 %eighth, 1
  br label %next
next:
  %first = phi i64 [ 0, %alone ], [ %last, %go_on ]
  %fault = phi i64 [ 0, %alone ], [ %fault1, %go_on ]
  %end = add i64 %first, %piece
  %last = call i64 @llvm.umin.i64(i64 %end, i64 %blocks)
  %one = call i64 @guarded(ptr %entry, ptr %launch, i64 %first, i64 %last)
  %good = icmp eq i64 %fault, 0
  %fault1 = select i1 %good, i64 %one, i64 %fault
  %stopped = icmp eq i64 %one, {stopped}
  br i1 %stopped, label %left, label %look
left:
  ret i64 %one
look:
  %time = call i64 @now(i32 {monotonic})
  %all = icmp eq i64 %last, %blocks
  br i1 %all, label %note, label %more
more:
  %surprised = icmp ugt i64 %time, %late
  br i1 %surprised, label %rest, label %go_on
go_on:
  br label %next
note:
  %took = sub i64 %time, %begun
  call void @note_cost(ptr %entry, i64 %blocks, i64 %took)
  ret i64 %fault1
rest:
  %others = call i64 @share(ptr %slot, ptr %entry, ptr %launch, i64 %last, i64 %blocks, i64 %fault1,
                            i64 -1)
  ret i64 %others
}}

; Make a job of the blocks [%base, %end) and take part in it; %fault is that of the others.
define internal i64 @share(ptr %slot, ptr %entry, ptr %launch, i64 %base, i64 %end, i64 %fault,
                           i64 %expected) {{
  %blocks = sub i64 %end, %base
  %target = load i64, ptr @target
  %up = add i64 %blocks, %target
  %up1 = sub i64 %up, 1
  %share = udiv i64 %up1, %target
  %fine = call i64 @llvm.umin.i64(i64 %share, i64 {fine})
  %up2 = add i64 %blocks, {most}
  %up3 = sub i64 %up2, 1
  %coarse = udiv i64 %up3, {most}
  %size = call i64 @llvm.umax.i64(i64 %fine, i64 %coarse)
  %full = add i64 %blocks, %size
  %full1 = sub i64 %full, 1
  %chunks = udiv i64 %full1, %size
  %job = call ptr @malloc(i64 ptrtoint (ptr getelementptr (%job, ptr null, i32 1) to i64))
  %none = icmp eq ptr %job, null
  br i1 %none, label %inline, label %fill      ; no room for a job: this thread does it all
inline:
  %code = call i64 @guarded(ptr %entry, ptr %launch, i64 %base, i64 %end)
  %good = icmp eq i64 %fault, 0
  %first_fault = select i1 %good, i64 %code, i64 %fault
  ret i64 %first_fault
fill:
  store %job zeroinitializer, ptr %job
  store ptr %entry, ptr %job
  %launch_at = getelementptr %job, ptr %job, i32 0, i32 1
  store ptr %launch, ptr %launch_at
  %blocks_at = getelementptr %job, ptr %job, i32 0, i32 2
  store i64 %end, ptr %blocks_at
  %size_at = getelementptr %job, ptr %job, i32 0, i32 3
  store i64 %size, ptr %size_at
  %chunks_at = getelementptr %job, ptr %job, i32 0, i32 4
  store i64 %chunks, ptr %chunks_at
  %base_at = getelementptr %job, ptr %job, i32 0, i32 6
  store i64 %base, ptr %base_at
  %fault_at = getelementptr %job, ptr %job, i32 0, i32 11
  store i64 %fault, ptr %fault_at
  store ptr %job, ptr %slot
  %next_at = getelementptr %job, ptr %job, i32 0, i32 5
  %long = icmp ugt i64 %expected, {worth_waking}
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  %head = load ptr, ptr @jobs
  store ptr %head, ptr %next_at
  store ptr %job, ptr @jobs
  %v = atomicrmw add ptr @version, i32 1 seq_cst
  %sleepers = load atomic i64, ptr @sleepers seq_cst, align 8
  %all_awake = icmp eq i64 %sleepers, 0
  br i1 %all_awake, label %enough, label %decide
decide:
  br i1 %long, label %call_them, label %enough
call_them:
  %b = call i32 @pthread_cond_broadcast(ptr @new_job)
  br label %enough
enough:
  %called = phi i1 [ true, %call_them ], [ %all_awake, %fill ], [ false, %decide ]
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  %begun = call i64 @now(i32 {monotonic})
  %soon = add i64 %begun, {surprise}
  %alarm = select i1 %called, i64 -1, i64 %soon
  %shared_fault = call i64 @take_part(ptr %slot, i64 %begun, i64 %alarm)
  ret i64 %shared_fault
}}

define internal i64 @take_part(ptr %slot, i64 %begun, i64 %alarm) {{
  %job = load ptr, ptr %slot
  %deadline = add i64 %begun, {budget}
  %all = call i1 @run_chunks(ptr %job, i64 %begun, i64 %alarm, i64 %deadline)
  br i1 %all, label %finish, label %later
later:
  ret i64 0
finish:
  %fault = call i64 @leave(ptr %slot, i64 {budget})
  ret i64 %fault
}}

define i64 @resume(ptr %slot) {{
  %record = call ptr @begin_run(ptr %slot)
  %begun = call i64 @now(i32 {monotonic})
  %fault = call i64 @take_part(ptr %slot, i64 %begun, i64 -1)
  %told = call i64 @end_run(ptr %record, ptr %slot, i64 %fault)
  ret i64 %told
}}

; Takes the job out of the list, if it is there.
define internal void @take_out(ptr %job) {{
entry:
  %next_at = getelementptr %job, ptr %job, i32 0, i32 5
  %l0 = call i32 @pthread_mutex_lock(ptr @mutex)
  br label %search
search:
  %link = phi ptr [ @jobs, %entry ], [ %its_next, %other ]
  %one = load ptr, ptr %link
  %found = icmp eq ptr %one, %job
  br i1 %found, label %unlink, label %end
end:
  %at_end = icmp eq ptr %one, null              ; an earlier call took it out
  br i1 %at_end, label %out, label %other
other:
  %its_next = getelementptr %job, ptr %one, i32 0, i32 5
  br label %search
unlink:
  %next = load ptr, ptr %next_at
  store ptr %next, ptr %link
  br label %out
out:
  %u0 = call i32 @pthread_mutex_unlock(ptr @mutex)
  ret void
}}

; The time in so many nanoseconds, as conditions have it.
define internal void @set_alarm(ptr %until, i64 %limit) {{
  %real = call i64 @now(i32 0)                  ; conditions are timed on CLOCK_REALTIME
  %then = add i64 %real, %limit
  %seconds = udiv i64 %then, 1000000000
  %ns = urem i64 %then, 1000000000
  store i64 %seconds, ptr %until
  %ns_at = getelementptr %time, ptr %until, i32 0, i32 1
  store i64 %ns, ptr %ns_at
  ret void
}}

; All chunks are claimed: take the job out of the list and wait until its workers have left it, at
; most `limit` nanoseconds (0: as long as it takes). Then free it and empty the slot.
define internal i64 @leave(ptr %slot, i64 %limit) {{
entry:
  %until = alloca %time
  %job = load ptr, ptr %slot
  %users_at = getelementptr %job, ptr %job, i32 0, i32 10
  call void @take_out(ptr %job)
  br label %spin
spin:
  %i = phi i32 [ 0, %entry ], [ %i1, %again ]
  %users = load atomic i64, ptr %users_at seq_cst, align 8
  %empty = icmp eq i64 %users, 0
  br i1 %empty, label %done, label %again
again:
  {pause}
  %i1 = add i32 %i, 1
  %more = icmp ult i32 %i1, {spins}
  br i1 %more, label %spin, label %block
block:
  call void @set_alarm(ptr %until, i64 %limit)
  %l1 = call i32 @pthread_mutex_lock(ptr @mutex)
  br label %check
check:
  %users2 = load atomic i64, ptr %users_at seq_cst, align 8
  %empty2 = icmp eq i64 %users2, 0
  br i1 %empty2, label %release, label %wait
wait:
  %timed = icmp ne i64 %limit, 0
  br i1 %timed, label %wait_timed, label %wait_long
wait_long:
  %w1 = call i32 @pthread_cond_wait(ptr @job_left, ptr @mutex)
  br label %check
wait_timed:
  %w2 = call i32 @pthread_cond_timedwait(ptr @job_left, ptr @mutex, ptr %until)
  %woken = icmp eq i32 %w2, 0
  br i1 %woken, label %check, label %give_up
give_up:
  %u1 = call i32 @pthread_mutex_unlock(ptr @mutex)
  ret i64 0
release:
  %u2 = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %done
done:
  %fault_at = getelementptr %job, ptr %job, i32 0, i32 11
  %fault = load atomic i64, ptr %fault_at seq_cst, align 8
  store ptr null, ptr %slot
  call void @free(ptr %job)
  ret i64 %fault
}}
"""
