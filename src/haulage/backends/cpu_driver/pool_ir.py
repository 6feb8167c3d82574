"""The code of the native worker threads, as LLVM IR.

One pool a process. A *job* is one launch: its blocks, cut into chunks that threads claim with an
atomic add. Jobs stand in a list under one mutex; the thread that launched takes part in its own
job, workers in any. `users` counts the workers inside a job: it grows under the mutex while the
job is in the list, so once the job is out of the list and `users` is 0, nobody touches it.

    i32  start(threads)            start so many workers more; returns how many it could
    void prepare(target chunks)    once a process, and in a child after a fork

and what the launching thread calls, of `pool_run_ir`, `pool_each_ir` and `pool_phases_ir`, the
entries of `pool_copy_ir`, what keeps a kernel's wild access from ending the process, of `guard_ir`,
and what stops kernels, of `stop_ir`.
`entry(launch, first, last)` runs the blocks [first, last) and returns 0 or a fault; `launch` begins
with the grid's three extents (u32).
"""

from haulage.backends.cpu_driver import (
    guard_ir,
    pool_copy_ir,
    pool_each_ir,
    pool_phases_ir,
    pool_run_ir,
    stop_ir,
)

# How often an idle worker looks for a new job before it sleeps: about 50 microseconds.
SPINS = 1500

# Room for the largest pthread types of the platforms (48 bytes on glibc and macOS).
_PTHREAD_ROOM = 128

# Workers run code whose blocks keep slots and shared memory on the stack, and that calls itself.
# What no frame of theirs steps over lies below, and can be neither read nor written.
STACK_BYTES, STACK_GUARD = 16 << 20, 1 << 20

_PAUSE = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}
_PAUSE["amd64"], _PAUSE["arm64"] = _PAUSE["x86_64"], _PAUSE["aarch64"]


def pool_ir(machine: str, system: str) -> str:
    """The pool's module for a machine and system as `platform` names them."""
    declaration, pause = _PAUSE.get(machine.lower(), ("", ""))
    parts = (_TEXT, pool_run_ir.TEXT, pool_each_ir.TEXT, pool_phases_ir.TEXT)
    text = "".join(parts).format(
        pause_declaration=declaration,
        pause=pause,
        room=_PTHREAD_ROOM,
        spins=SPINS,
        stack=STACK_BYTES + STACK_GUARD,
        stack_guard=STACK_GUARD,
        monotonic=6 if system == "Darwin" else 1,  # CLOCK_MONOTONIC
        **pool_run_ir.FIGURES,
        **pool_phases_ir.FIGURES,
        stopped=guard_ir.STOPPED,
    )
    text += guard_ir.guard_ir(machine, system) + stop_ir.stop_ir(machine, system, _PTHREAD_ROOM)
    return text + pool_copy_ir.copy_ir(machine)


_TEXT = """
; entry, launch, blocks, blocks a chunk, chunks, next in list, first block, whether to stop, |
; claimed, - | users, fault
%job = type {{ ptr, ptr, i64, i64, i64, ptr, i64, i64, i64, [7 x i64], i64, i64, [6 x i64] }}
%time = type {{ i64, i64 }}

@mutex    = internal global [{room} x i8] zeroinitializer, align 64
@new_job  = internal global [{room} x i8] zeroinitializer, align 64
@job_left = internal global [{room} x i8] zeroinitializer, align 64
@jobs     = internal global ptr null, align 64
@target   = internal global i64 32
@version  = internal global i32 0, align 64   ; grows with each job that is put in the list
@sleepers = internal global i64 0             ; workers that only a broadcast wakes

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_timedwait(ptr, ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_setguardsize(ptr, i64)
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
  store i64 0, ptr @sleepers
  %m = call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  %n = call i32 @pthread_cond_init(ptr @new_job, ptr null)
  %l = call i32 @pthread_cond_init(ptr @job_left, ptr null)
  call void @prepare_stop()
  ret void
}}

; Returns how many workers could be started.
define i32 @start(i32 %threads) {{
entry:
  %attributes = alloca [{room} x i8], align 64
  %thread = alloca i64
  %a = call i32 @pthread_attr_init(ptr %attributes)
  %b = call i32 @pthread_attr_setstacksize(ptr %attributes, i64 {stack})
  %g = call i32 @pthread_attr_setguardsize(ptr %attributes, i64 {stack_guard})
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
  %base_at = getelementptr %job, ptr %job, i32 0, i32 6
  %base = load i64, ptr %base_at
  %offset = mul i64 %index, %size
  %first = add i64 %base, %offset
  %end = add i64 %first, %size
  %last = call i64 @llvm.umin.i64(i64 %end, i64 %blocks)
  %fault = call i64 @guarded(ptr %entry, ptr %launch, i64 %first, i64 %last)
  %bad = icmp ne i64 %fault, 0
  br i1 %bad, label %keep, label %done
keep:                                         ; the first fault stays
  %fault_at = getelementptr %job, ptr %job, i32 0, i32 11
  %kept = cmpxchg ptr %fault_at, i64 0, i64 %fault seq_cst seq_cst
  %stopped = icmp eq i64 %fault, {stopped}
  br i1 %stopped, label %drop, label %done
drop:                                         ; and so is what has not begun
  %claimed_at = getelementptr %job, ptr %job, i32 0, i32 8
  store atomic i64 4611686018427387904, ptr %claimed_at seq_cst, align 8
  br label %done
done:
  ret void
}}

; Claims and runs chunks until none is left (1) or the deadline has passed (0); a worker has none.
; Where chunks are left at the time %alarm, it wakes the workers that sleep.
define internal i1 @run_chunks(ptr %job, i64 %begun, i64 %alarm, i64 %deadline) {{
entry:
  %claimed_at = getelementptr %job, ptr %job, i32 0, i32 8
  %chunks_at = getelementptr %job, ptr %job, i32 0, i32 4
  %chunks = load i64, ptr %chunks_at
  %limited = icmp ne i64 %deadline, 0
  br label %claim
claim:
  %mine = phi i64 [ 0, %entry ], [ %mine1, %run ], [ %mine1, %late ]
  %last = phi i64 [ %begun, %entry ], [ 0, %run ], [ %time, %late ]
  %due = phi i64 [ %alarm, %entry ], [ %due, %run ], [ %due1, %late ]
  %index = atomicrmw add ptr %claimed_at, i64 1 seq_cst
  %some = icmp ult i64 %index, %chunks
  br i1 %some, label %run, label %none
run:
  call void @run_chunk(ptr %job, i64 %index)
  %mine1 = add i64 %mine, 1
  br i1 %limited, label %look, label %claim
look:
  %time = call i64 @now(i32 {monotonic})
  %is_due = icmp ugt i64 %time, %due
  br i1 %is_due, label %wake, label %late
wake:
  call void @wake()
  br label %late
late:
  %due1 = phi i64 [ %due, %look ], [ -1, %wake ]
  %over = icmp ugt i64 %time, %deadline
  br i1 %over, label %stop, label %claim
none:
  %worked = icmp ne i64 %mine, 0
  %tell = and i1 %worked, %limited
  br i1 %tell, label %note, label %finished
note:
  %entry_of = load ptr, ptr %job
  %size_at = getelementptr %job, ptr %job, i32 0, i32 3
  %size = load i64, ptr %size_at
  %blocks = mul i64 %mine, %size
  %took = sub i64 %last, %begun
  call void @note_cost(ptr %entry_of, i64 %blocks, i64 %took)
  br label %finished
finished:
  ret i1 true
stop:
  ret i1 false
}}

define internal void @wake() {{
  %l = call i32 @pthread_mutex_lock(ptr @mutex)
  %b = call i32 @pthread_cond_broadcast(ptr @new_job)
  %u = call i32 @pthread_mutex_unlock(ptr @mutex)
  ret void
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
  %claimed_at = getelementptr %job, ptr %job, i32 0, i32 8
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
  %record = call ptr @workers_record()
  %l0 = call i32 @pthread_mutex_lock(ptr @mutex)
  br label %look
look:                                         ; the mutex is held
  %job = call ptr @find_job()
  %none = icmp eq ptr %job, null
  %seen = load atomic i32, ptr @version seq_cst, align 4
  br i1 %none, label %idle, label %join
join:
  %users_at = getelementptr %job, ptr %job, i32 0, i32 10
  %u0 = atomicrmw add ptr %users_at, i64 1 seq_cst
  %x1 = call i32 @pthread_mutex_unlock(ptr @mutex)
  call void @note_job(ptr %record, ptr %job)
  %finished = call i1 @run_chunks(ptr %job, i64 0, i64 -1, i64 0)
  call void @note_job(ptr %record, ptr null)
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
  %s0 = atomicrmw add ptr @sleepers, i64 1 seq_cst
  %w = call i32 @pthread_cond_wait(ptr @new_job, ptr @mutex)
  %s1 = atomicrmw sub ptr @sleepers, i64 1 seq_cst
  br label %check
}}
"""
