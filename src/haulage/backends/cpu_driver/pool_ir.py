"""The code of the native worker threads, as LLVM IR.

One pool a process. A *job* is one launch: its blocks, cut into chunks that threads claim with an
atomic add. Jobs stand in a list under one mutex; the thread that launched takes part in its own
job, workers in any. `users` counts the workers inside a job: it grows under the mutex while the
job is in the list, so once the job is out of the list and `users` is 0, nobody touches it.

    i64  run(entry, launch, slot)  run a grid; returns its fault, or leaves the job in `slot`
    i64  resume(slot)              go on with that job; empties the slot when it is finished
    i64  cancel(slot)              claim what is left, wait for what runs, give the job back
    i32  start(threads)            start so many workers more; returns how many it could
    void prepare(target chunks)    once a process, and in a child after a fork

`entry(launch, first, last)` runs the blocks [first, last) and returns 0 or a fault; `launch` begins
with the grid's three extents (u32). `run` and `resume` return at the latest when the chunk during
which `BUDGET_NS` passed is done, so that the caller can look after signals.
"""

BUDGET_NS = 50_000_000

# How often an idle worker looks for a new job before it sleeps: about 50 microseconds.
SPINS = 1500

# Room for the largest pthread types of the platforms (48 bytes on glibc and macOS).
_PTHREAD_ROOM = 128

# Workers run code whose blocks keep slots and shared memory on the stack.
STACK_BYTES = 16 << 20

# A chunk has at most FINE blocks unless that made more than MOST_CHUNKS of them: a chunk costs
# about 0.1 microseconds, and Ctrl-C waits for one.
FINE, MOST_CHUNKS = 64, 512

_PAUSE = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
_PAUSE["amd64"], _PAUSE["arm64"] = _PAUSE["x86_64"], _PAUSE["aarch64"]


def pool_ir(machine: str, system: str) -> str:
    """The pool's module for a machine and system as `platform` names them."""
    declaration, pause = _PAUSE.get(machine.lower(), ("", ""))
    return _TEXT.format(
        pause_declaration=declaration,
        pause=pause,
        room=_PTHREAD_ROOM,
        spins=SPINS,
        budget=BUDGET_NS,
        stack=STACK_BYTES,
        fine=FINE,
        most=MOST_CHUNKS,
        monotonic=6 if system == "Darwin" else 1,  # CLOCK_MONOTONIC
    )


_TEXT = """
; entry, launch, blocks, blocks a chunk, chunks, next in list, -, | claimed, - | users, fault
%job = type {{ ptr, ptr, i64, i64, i64, ptr, [2 x i64], i64, [7 x i64], i64, i64, [6 x i64] }}
%time = type {{ i64, i64 }}

@mutex    = internal global [{room} x i8] zeroinitializer, align 64
@new_job  = internal global [{room} x i8] zeroinitializer, align 64
@job_left = internal global [{room} x i8] zeroinitializer, align 64
@jobs     = internal global ptr null, align 64
@target   = internal global i64 32
@version  = internal global i32 0, align 64   ; grows with each job that is put in the list

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_timedwait(ptr, ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @clock_gettime(i32, ptr)
declare ptr @malloc(i64)
declare void @free(ptr)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)
{pause_declaration}

define void @prepare(i64 %target) {{
  store i64 %target, ptr @target
  store ptr null, ptr @jobs
  %m = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %n = call i32 @pthread_cond_init(ptr @new_job, ptr null)
  %l = call i32 @pthread_cond_init(ptr @job_left, ptr null)
  ret void
}}

; Returns how many workers could be started.
define i32 @start(i32 %threads) {{
entry:
  %attributes = alloca [{room} x i8], align 64
  %thread = alloca i64
  %a = call i32 @pthread_attr_init(ptr %attributes)
  %b = call i32 @pthread_attr_setstacksize(ptr %attributes, i64 {stack})
  br label %next
next:
  %started = phi i32 [ 0, %entry ], [ %one_more, %ok ]
  %all = icmp eq i32 %started, %threads
  br i1 %all, label %done, label %create
create:
  %status = call i32 @pthread_create(ptr %thread, ptr %attributes, ptr @worker, ptr null)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %ok, label %done
ok:
  %one_more = add i32 %started, 1
  br label %next
done:
  %c = call i32 @pthread_attr_destroy(ptr %attributes)
  ret i32 %started
}}

define internal i64 @now(i32 %clock) {{
  %t = alloca %time
  %status = call i32 @clock_gettime(i32 %clock, ptr %t)
  %seconds = load i64, ptr %t
  %rest = getelementptr %time, ptr %t, i32 0, i32 1
  %ns = load i64, ptr %rest
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %ns
  ret i64 %sum
}}

; ---- a job ------------------------------------------------------------------------------------

define internal void @run_chunk(ptr %job, i64 %index) {{
  %entry = load ptr, ptr %job
  %launch_at = getelementptr %job, ptr %job, i32 0, i32 1
  %launch = load ptr, ptr %launch_at
  %blocks_at = getelementptr %job, ptr %job, i32 0, i32 2
  %blocks = load i64, ptr %blocks_at
  %size_at = getelementptr %job, ptr %job, i32 0, i32 3
  %size = load i64, ptr %size_at
  %first = mul i64 %index, %size
  %end = add i64 %first, %size
  %last = call i64 @llvm.umin.i64(i64 %end, i64 %blocks)
  %fault = call i64 %entry(ptr %launch, i64 %first, i64 %last)
  %bad = icmp ne i64 %fault, 0
  br i1 %bad, label %keep, label %done
keep:                                         ; the first fault stays
  %fault_at = getelementptr %job, ptr %job, i32 0, i32 10
  %kept = cmpxchg ptr %fault_at, i64 0, i64 %fault seq_cst seq_cst
  br label %done
done:
  ret void
}}

; Claims and runs chunks until none is left (1) or the deadline has passed (0).
define internal i1 @run_chunks(ptr %job, i64 %deadline) {{
entry:
  %claimed_at = getelementptr %job, ptr %job, i32 0, i32 7
  %chunks_at = getelementptr %job, ptr %job, i32 0, i32 4
  %chunks = load i64, ptr %chunks_at
  br label %claim
claim:
  %index = atomicrmw add ptr %claimed_at, i64 1 seq_cst
  %some = icmp ult i64 %index, %chunks
  br i1 %some, label %run, label %none
run:
  call void @run_chunk(ptr %job, i64 %index)
  %limited = icmp ne i64 %deadline, 0
  br i1 %limited, label %look, label %claim
look:
  %time = call i64 @now(i32 {monotonic})
  %late = icmp ugt i64 %time, %deadline
  br i1 %late, label %stop, label %claim
none:
  ret i1 true
stop:
  ret i1 false
}}

; ---- the workers ------------------------------------------------------------------------------

; A job with unclaimed chunks, or null; the mutex is held.
define internal ptr @find_job() {{
entry:
  %head = load ptr, ptr @jobs
  br label %look
look:
  %job = phi ptr [ %head, %entry ], [ %next, %skip ]
  %none = icmp eq ptr %job, null
  br i1 %none, label %done, label %check
check:
  %claimed_at = getelementptr %job, ptr %job, i32 0, i32 7
  %claimed = load atomic i64, ptr %claimed_at seq_cst, align 8
  %chunks_at = getelementptr %job, ptr %job, i32 0, i32 4
  %chunks = load i64, ptr %chunks_at
  %open = icmp ult i64 %claimed, %chunks
  br i1 %open, label %done, label %skip
skip:
  %next_at = getelementptr %job, ptr %job, i32 0, i32 5
  %next = load ptr, ptr %next_at
  br label %look
done:
  ret ptr %job
}}

define internal ptr @worker(ptr %unused) {{
entry:
  %l0 = call i32 @pthread_mutex_lock(ptr @mutex)
  br label %look
look:                                         ; the mutex is held
  %job = call ptr @find_job()
  %none = icmp eq ptr %job, null
  %seen = load atomic i32, ptr @version seq_cst, align 4
  br i1 %none, label %idle, label %join
join:
  %users_at = getelementptr %job, ptr %job, i32 0, i32 9
  %u0 = atomicrmw add ptr %users_at, i64 1 seq_cst
  %x1 = call i32 @pthread_mutex_unlock(ptr @mutex)
  %finished = call i1 @run_chunks(ptr %job, i64 0)
  %l1 = call i32 @pthread_mutex_lock(ptr @mutex)
  %u1 = atomicrmw sub ptr %users_at, i64 1 seq_cst
  %last = icmp eq i64 %u1, 1
  br i1 %last, label %tell, label %look
tell:                                         ; from here on the job may be gone
  %b = call i32 @pthread_cond_broadcast(ptr @job_left)
  br label %look
idle:
  %x2 = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %spin
spin:
  %i = phi i32 [ 0, %idle ], [ %i1, %again ]
  %version = load atomic i32, ptr @version seq_cst, align 4
  %new = icmp ne i32 %version, %seen
  br i1 %new, label %awake, label %again
again:
  {pause}
  %i1 = add i32 %i, 1
  %more = icmp ult i32 %i1, {spins}
  br i1 %more, label %spin, label %sleep
awake:
  %l2 = call i32 @pthread_mutex_lock(ptr @mutex)
  br label %look
sleep:
  %l3 = call i32 @pthread_mutex_lock(ptr @mutex)
  br label %check
check:
  %version3 = load atomic i32, ptr @version seq_cst, align 4
  %same = icmp eq i32 %version3, %seen
  br i1 %same, label %wait, label %look
wait:
  %w = call i32 @pthread_cond_wait(ptr @new_job, ptr @mutex)
  br label %check
}}

; ---- the launching thread ---------------------------------------------------------------------

define i64 @run(ptr %entry, ptr %launch, ptr %slot) {{
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
  br i1 %small, label %inline, label %divide
inline:
  %code = call i64 %entry(ptr %launch, i64 0, i64 %blocks)
  ret i64 %code
divide:
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
fill:
  store %job zeroinitializer, ptr %job
  store ptr %entry, ptr %job
  %launch_at = getelementptr %job, ptr %job, i32 0, i32 1
  store ptr %launch, ptr %launch_at
  %blocks_at = getelementptr %job, ptr %job, i32 0, i32 2
  store i64 %blocks, ptr %blocks_at
  %size_at = getelementptr %job, ptr %job, i32 0, i32 3
  store i64 %size, ptr %size_at
  %chunks_at = getelementptr %job, ptr %job, i32 0, i32 4
  store i64 %chunks, ptr %chunks_at
  store ptr %job, ptr %slot
  %next_at = getelementptr %job, ptr %job, i32 0, i32 5
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  %head = load ptr, ptr @jobs
  store ptr %head, ptr %next_at
  store ptr %job, ptr @jobs
  %v = atomicrmw add ptr @version, i32 1 seq_cst
  %b = call i32 @pthread_cond_broadcast(ptr @new_job)
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  %fault = call i64 @resume(ptr %slot)
  ret i64 %fault
}}

define i64 @resume(ptr %slot) {{
  %job = load ptr, ptr %slot
  %start = call i64 @now(i32 {monotonic})
  %deadline = add i64 %start, {budget}
  %all = call i1 @run_chunks(ptr %job, i64 %deadline)
  br i1 %all, label %finish, label %later
later:
  ret i64 0
finish:
  %fault = call i64 @leave(ptr %slot, i64 {budget})
  ret i64 %fault
}}

define i64 @cancel(ptr %slot) {{
  %job = load ptr, ptr %slot
  %claimed_at = getelementptr %job, ptr %job, i32 0, i32 7
  store atomic i64 4611686018427387904, ptr %claimed_at seq_cst, align 8
  %fault = call i64 @leave(ptr %slot, i64 0)
  ret i64 %fault
}}

; All chunks are claimed: take the job out of the list and wait until its workers have left it, at
; most `limit` nanoseconds (0: as long as it takes). Then free it and empty the slot.
define internal i64 @leave(ptr %slot, i64 %limit) {{
entry:
  %until = alloca %time
  %job = load ptr, ptr %slot
  %users_at = getelementptr %job, ptr %job, i32 0, i32 9
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
  br label %spin
spin:
  %i = phi i32 [ 0, %out ], [ %i1, %again ]
  %users = load atomic i64, ptr %users_at seq_cst, align 8
  %empty = icmp eq i64 %users, 0
  br i1 %empty, label %done, label %again
again:
  {pause}
  %i1 = add i32 %i, 1
  %more = icmp ult i32 %i1, {spins}
  br i1 %more, label %spin, label %block
block:
  %real = call i64 @now(i32 0)                  ; conditions are timed on CLOCK_REALTIME
  %then = add i64 %real, %limit
  %seconds = udiv i64 %then, 1000000000
  %ns = urem i64 %then, 1000000000
  store i64 %seconds, ptr %until
  %ns_at = getelementptr %time, ptr %until, i32 0, i32 1
  store i64 %ns, ptr %ns_at
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
  %fault_at = getelementptr %job, ptr %job, i32 0, i32 10
  %fault = load atomic i64, ptr %fault_at seq_cst, align 8
  store ptr null, ptr %slot
  call void @free(ptr %job)
  ret i64 %fault
}}
"""
