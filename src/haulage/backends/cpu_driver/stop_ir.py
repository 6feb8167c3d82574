"""What stops blocks that run, in the worker threads' code, as LLVM IR.

    void watch(main, python)   look after Python's signals while its main thread runs blocks
    i32  raised(into)          the exception that stopped a kernel in the main thread; 0: none did
    i32  stop(thread)          stop what a thread runs; returns 1 if it is running something
    i64  cancel(slot, by force)  drop the blocks of a job that have not begun, wait for those that
                               run, or stop them if `by force`, and give the job back

A thread that runs blocks is sent SIGURG, whose handler jumps to the end of its batch as that of a
crash does (`guard_ir.py`), from wherever it is: so loops need no looks at a flag. It cannot leave
while it holds a lock, which its record says; then it goes on, and is sent the signal again.

Python calls the handlers of its signals in its main thread only, between two of its instructions.
While that thread runs blocks, `watcher` sends it SIGURG every `tick`, where it has been in one
batch since the last time. The handler then lets Python call its handlers, as if the kernel had
called them at that place, and leaves the kernel if one has raised an exception. After `idle` ticks
without a launch the watcher sleeps until the next one.

`begin_run` and `end_run` are around each call of Python's that runs blocks. A call has a number,
as what was to be stopped may be over.

Where `guard_ir.py` has no handler there is none of this: blocks that run are waited for.
"""

from haulage.backends.cpu_driver.guard_ir import RUN_BYTES, has_handler
from haulage.backends.cpu_driver.pool_run_ir import LEFT

FIGURES: dict[str, int] = {
    "left": LEFT,
    "signal": 23,  # SIGURG, which is ignored where nobody has a handler
    "tick_microseconds": 100_000,
    "idle": 100,
    # Nanoseconds until a thread that cannot leave is asked again.
    "again": 2_000_000,
    # What of a record is a run's.
    "record_of_run": RUN_BYTES,
}


def stop_ir(machine: str, system: str, room: int) -> str:
    """The text for a machine and system as `platform` names them; `room` is enough bytes for any
    type of pthreads."""
    text = TEXT if has_handler(machine, system) else NO_STOP
    return text.format(room=room, **FIGURES)


TEXT = """
; Functions of Python: PyGILState_Ensure, PyErr_CheckSignals, PyErr_Fetch, PyGILState_Release.
%python = type {{ ptr, ptr, ptr, ptr }}
; What Python gives each call: a job that is left, and whether the call was stopped.
%slot = type {{ ptr, i64 }}
; An exception, as PyErr_Fetch gives it.
%error = type {{ ptr, ptr, ptr }}

@records      = internal global ptr null          ; of all threads
@records_lock = internal global [{room} x i8] zeroinitializer, align 64
@main         = internal global i64 0             ; the thread, as pthread_self() gives it
@python       = internal global %python zeroinitializer
@raised_here  = internal global %error zeroinitializer  ; in the main thread
@urgent_before = internal global %action zeroinitializer
@watchers_name = internal constant [14 x i8] c"haulage-watch\\00"
@watching     = internal global i32 0             ; whether there is a watcher
@asleep       = internal global i32 0             ; whether it sleeps, or is about to
@wake_lock    = internal global [{room} x i8] zeroinitializer, align 64
@wake_up      = internal global [{room} x i8] zeroinitializer, align 64

declare i32 @pthread_detach(i64)
declare i32 @pthread_setname_np(i64, ptr)
declare i32 @usleep(i32)

; Once a process, and in a child after a fork, which has the thread that forked.
define internal void @prepare_stop() {{
start:
  %m = call i32 @pthread_mutex_init(ptr @records_lock, ptr null)
  %n = call i32 @pthread_mutex_init(ptr @wake_lock, ptr null)
  %c = call i32 @pthread_cond_init(ptr @wake_up, ptr null)
  store i32 0, ptr @watching
  store i32 0, ptr @asleep
  store i64 0, ptr @main
  %record = call ptr @here()
  store ptr %record, ptr @records
  %none = icmp eq ptr %record, null
  br i1 %none, label %end, label %alone
alone:
  %next_at = getelementptr %record, ptr %record, i32 0, i32 15
  store ptr null, ptr %next_at
  br label %end
end:
  ret void
}}

; ---- records ----------------------------------------------------------------------------------

define internal void @list_record(ptr %record) {{
  %thread = call i64 @pthread_self()
  %thread_at = getelementptr %record, ptr %record, i32 0, i32 16
  store i64 %thread, ptr %thread_at
  %l = call i32 @pthread_mutex_lock(ptr @records_lock)
  %first = load ptr, ptr @records
  %next_at = getelementptr %record, ptr %record, i32 0, i32 15
  store ptr %first, ptr %next_at
  store ptr %record, ptr @records
  %u = call i32 @pthread_mutex_unlock(ptr @records_lock)
  ret void
}}

define internal void @unlist_record(ptr %record) {{
start:
  %l = call i32 @pthread_mutex_lock(ptr @records_lock)
  br label %look
look:
  %link = phi ptr [ @records, %start ], [ %its_next, %other ]
  %one = load ptr, ptr %link
  %none = icmp eq ptr %one, null
  br i1 %none, label %end, label %compare
compare:
  %its_next = getelementptr %record, ptr %one, i32 0, i32 15
  %found = icmp eq ptr %one, %record
  br i1 %found, label %take, label %other
other:
  br label %look
take:
  %next = load ptr, ptr %its_next
  store ptr %next, ptr %link
  br label %end
end:
  %u = call i32 @pthread_mutex_unlock(ptr @records_lock)
  ret void
}}

; The record of a thread, or null; the lock is held.
define internal ptr @record_of(i64 %thread) {{
start:
  %first = load ptr, ptr @records
  br label %look
look:
  %record = phi ptr [ %first, %start ], [ %next, %other ]
  %none = icmp eq ptr %record, null
  br i1 %none, label %end, label %compare
compare:
  %thread_at = getelementptr %record, ptr %record, i32 0, i32 16
  %its = load i64, ptr %thread_at
  %found = icmp eq i64 %its, %thread
  br i1 %found, label %end, label %other
other:
  %next_at = getelementptr %record, ptr %record, i32 0, i32 15
  %next = load ptr, ptr %next_at
  br label %look
end:
  ret ptr %record
}}

; ---- calls of Python's ------------------------------------------------------------------------

define internal ptr @begin_run(ptr %slot) {{
start:
  %known = call ptr @here()
  %is_known = icmp ne ptr %known, null
  br i1 %is_known, label %begin, label %ask
ask:
  %on = load i32, ptr @guarding
  %off = icmp eq i32 %on, 0
  br i1 %off, label %none, label %make
none:
  ret ptr null
make:
  %made = call ptr @make_record()
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %none, label %begin
begin:
  %record = phi ptr [ %known, %start ], [ %made, %make ]
  %number_at = getelementptr %record, ptr %record, i32 0, i32 12
  %number = load volatile i64, ptr %number_at
  %next = add i64 %number, 1
  store volatile i64 %next, ptr %number_at
  %slot_at = getelementptr %record, ptr %record, i32 0, i32 13
  store volatile ptr %slot, ptr %slot_at
  %sleeps = load volatile i32, ptr @asleep
  %awake = icmp eq i32 %sleeps, 0
  br i1 %awake, label %end, label %wake
wake:
  %l = call i32 @pthread_mutex_lock(ptr @wake_lock)
  store volatile i32 0, ptr @asleep
  %s = call i32 @pthread_cond_broadcast(ptr @wake_up)
  %u = call i32 @pthread_mutex_unlock(ptr @wake_lock)
  br label %end
end:
  ret ptr %record
}}

; Notes in the slot whether the call was to be stopped; gives what it returns.
define internal i64 @end_run(ptr %record, ptr %slot, i64 %fault) {{
start:
  %none = icmp eq ptr %record, null
  br i1 %none, label %end, label %look
look:
  %asked = call i1 @is_to_stop(ptr %record)
  br i1 %asked, label %note, label %close
note:
  %left_at = getelementptr %slot, ptr %slot, i32 0, i32 1
  store volatile i64 1, ptr %left_at
  br label %close
close:
  %number_at = getelementptr %record, ptr %record, i32 0, i32 12
  %number = load volatile i64, ptr %number_at
  %next = add i64 %number, 1
  store volatile i64 %next, ptr %number_at
  br label %end
end:
  %stopped_at = getelementptr %slot, ptr %slot, i32 0, i32 1
  %stopped = load volatile i64, ptr %stopped_at
  %job = load ptr, ptr %slot
  %job_bits = ptrtoint ptr %job to i64
  %rest = or i64 %stopped, %job_bits
  %empty = icmp eq i64 %rest, 0
  %outcome = select i1 %empty, i64 %fault, i64 {left}
  ret i64 %outcome
}}

define internal i1 @is_to_stop(ptr %record) {{
  %number_at = getelementptr %record, ptr %record, i32 0, i32 12
  %number = load volatile i64, ptr %number_at
  %stop_at = getelementptr %record, ptr %record, i32 0, i32 17
  %stop = load volatile i64, ptr %stop_at
  %asked = icmp eq i64 %stop, %number
  ret i1 %asked
}}

define i32 @stop(i64 %thread) {{
start:
  %l = call i32 @pthread_mutex_lock(ptr @records_lock)
  %record = call ptr @record_of(i64 %thread)
  %none = icmp eq ptr %record, null
  br i1 %none, label %end, label %ask
ask:
  %number_at = getelementptr %record, ptr %record, i32 0, i32 12
  %number = load volatile i64, ptr %number_at
  %stop_at = getelementptr %record, ptr %record, i32 0, i32 17
  store volatile i64 %number, ptr %stop_at
  %k = call i32 @pthread_kill(i64 %thread, i32 {signal})
  br label %end
end:
  %known = phi i32 [ 0, %start ], [ 1, %ask ]
  %u = call i32 @pthread_mutex_unlock(ptr @records_lock)
  ret i32 %known
}}

; Takes the exception that has stopped what the main thread ran; 0: there is none.
define i32 @raised(ptr %into) {{
  %main = load i64, ptr @main
  %self = call i64 @pthread_self()
  %is_main = icmp eq i64 %main, %self
  br i1 %is_main, label %take, label %none
take:
  %type = load ptr, ptr @raised_here
  call void @llvm.memcpy.p0.p0.i64(ptr %into, ptr @raised_here, i64 24, i1 false)
  store %error zeroinitializer, ptr @raised_here
  %empty = icmp eq ptr %type, null
  br i1 %empty, label %none, label %end
none:
  ret i32 0
end:
  ret i32 1
}}

define i64 @cancel(ptr %slot, i32 %by_force) {{
start:
  %until = alloca %time
  %record = call ptr @begin_run(ptr %slot)
  %job = load ptr, ptr %slot
  %claimed_at = getelementptr %job, ptr %job, i32 0, i32 8
  %users_at = getelementptr %job, ptr %job, i32 0, i32 10
  %stop_at = getelementptr %job, ptr %job, i32 0, i32 7
  store atomic i64 4611686018427387904, ptr %claimed_at seq_cst, align 8
  call void @take_out(ptr %job)
  %known = icmp ne ptr %record, null
  %forced = icmp ne i32 %by_force, 0
  br label %look
look:
  %force = phi i1 [ %forced, %start ], [ %force1, %again ]
  %users = load atomic i64, ptr %users_at seq_cst, align 8
  %empty = icmp eq i64 %users, 0
  br i1 %empty, label %done, label %ask
ask:                                          ; whether it is to be by force by now
  br i1 %known, label %asked, label %decide
asked:
  %is_asked = call i1 @is_to_stop(ptr %record)
  br label %decide
decide:
  %too = phi i1 [ false, %ask ], [ %is_asked, %asked ]
  %force1 = or i1 %force, %too
  br i1 %force1, label %send, label %wait
send:
  store atomic i64 1, ptr %stop_at seq_cst, align 8
  call void @signal_workers(ptr %job)
  br label %wait
wait:
  %l1 = call i32 @pthread_mutex_lock(ptr @mutex)
  %users1 = load atomic i64, ptr %users_at seq_cst, align 8
  %empty1 = icmp eq i64 %users1, 0
  br i1 %empty1, label %again, label %sleep
sleep:
  call void @set_alarm(ptr %until, i64 {again})
  %w = call i32 @pthread_cond_timedwait(ptr @job_left, ptr @mutex, ptr %until)
  br label %again
again:
  %u1 = call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %look
done:
  ; The last worker may still hold the mutex, to tell that it has left.
  %l2 = call i32 @pthread_mutex_lock(ptr @mutex)
  %u2 = call i32 @pthread_mutex_unlock(ptr @mutex)
  %fault_at = getelementptr %job, ptr %job, i32 0, i32 11
  %fault = load atomic i64, ptr %fault_at seq_cst, align 8
  store ptr null, ptr %slot
  call void @free(ptr %job)
  %o = call i64 @end_run(ptr %record, ptr %slot, i64 %fault)
  ret i64 %fault
}}

define internal void @signal_workers(ptr %job) {{
start:
  %l = call i32 @pthread_mutex_lock(ptr @records_lock)
  %first = load ptr, ptr @records
  br label %look
look:
  %record = phi ptr [ %first, %start ], [ %next, %other ]
  %none = icmp eq ptr %record, null
  br i1 %none, label %end, label %compare
compare:
  %job_at = getelementptr %record, ptr %record, i32 0, i32 14
  %its = load volatile ptr, ptr %job_at
  %found = icmp eq ptr %its, %job
  br i1 %found, label %send, label %other
send:
  %thread_at = getelementptr %record, ptr %record, i32 0, i32 16
  %thread = load i64, ptr %thread_at
  %k = call i32 @pthread_kill(i64 %thread, i32 {signal})
  br label %other
other:
  %next_at = getelementptr %record, ptr %record, i32 0, i32 15
  %next = load ptr, ptr %next_at
  br label %look
end:
  %u = call i32 @pthread_mutex_unlock(ptr @records_lock)
  ret void
}}

; A worker's record, and what it works on: a job, or null.
define internal void @note_job(ptr %record, ptr %job) {{
start:
  %none = icmp eq ptr %record, null
  br i1 %none, label %end, label %note
note:
  %job_at = getelementptr %record, ptr %record, i32 0, i32 14
  store volatile ptr %job, ptr %job_at
  br label %end
end:
  ret void
}}

define internal ptr @workers_record() {{
start:
  %on = load i32, ptr @guarding
  %off = icmp eq i32 %on, 0
  br i1 %off, label %none, label %make
none:
  ret ptr null
make:
  %made = call ptr @make_record()
  ret ptr %made
}}

; ---- the signal handler -----------------------------------------------------------------------

define internal void @on_urgent(i32 %signal, ptr %info, ptr %context) {{
start:
  %saved = alloca %record, align 16
  %code_at = getelementptr i8, ptr %info, i64 8
  %code = load i32, ptr %code_at
  %sender_at = getelementptr i8, ptr %info, i64 16
  %sender = load i32, ptr %sender_at
  %process = call i32 @getpid()
  %by_thread = icmp eq i32 %code, -6           ; SI_TKILL
  %own = icmp eq i32 %sender, %process
  %ours = and i1 %by_thread, %own
  br i1 %ours, label %find, label %others
others:
  %before = load ptr, ptr @urgent_before
  %value = ptrtoint ptr %before to i64
  %none_before = icmp ule i64 %value, 1        ; SIG_DFL, SIG_IGN
  br i1 %none_before, label %end, label %pass_on
pass_on:
  call void %before(i32 %signal, ptr %info, ptr %context)
  br label %end
find:
  %record = call ptr @here()
  %none = icmp eq ptr %record, null
  br i1 %none, label %end, label %look
look:
  %landing = load volatile ptr, ptr %record
  %outside = icmp eq ptr %landing, null
  br i1 %outside, label %end, label %inside
inside:
  %busy_at = getelementptr %record, ptr %record, i32 0, i32 5
  %busy = load volatile i64, ptr %busy_at
  %stays = icmp ne i64 %busy, 0
  br i1 %stays, label %later, label %who
later:
  store volatile i64 2, ptr %busy_at           ; the signal is sent again when the lock is free
  br label %end
who:
  %job_at = getelementptr %record, ptr %record, i32 0, i32 14
  %job = load volatile ptr, ptr %job_at
  %caller = icmp eq ptr %job, null
  br i1 %caller, label %ask, label %worker
worker:
  %job_stop_at = getelementptr %job, ptr %job, i32 0, i32 7
  %job_stop = load atomic i64, ptr %job_stop_at seq_cst, align 8
  %job_goes_on = icmp eq i64 %job_stop, 0
  br i1 %job_goes_on, label %end, label %leave
ask:
  %asked = call i1 @is_to_stop(ptr %record)
  br i1 %asked, label %leave, label %whose
whose:
  %thread_at = getelementptr %record, ptr %record, i32 0, i32 16
  %thread = load i64, ptr %thread_at
  %main = load i64, ptr @main
  %is_main = icmp eq i64 %thread, %main
  br i1 %is_main, label %handlers, label %end
handlers:                                     ; Python's may run kernels, with the same record
  call void @llvm.memcpy.p0.p0.i64(ptr %saved, ptr %record, i64 {record_of_run}, i1 false)
  store volatile ptr null, ptr %record
  %ensure = load ptr, ptr @python
  %check_at = getelementptr %python, ptr @python, i32 0, i32 1
  %check = load ptr, ptr %check_at
  %release_at = getelementptr %python, ptr @python, i32 0, i32 3
  %release = load ptr, ptr %release_at
  %lock = call i32 %ensure()
  %raised = call i32 %check()
  %goes_on = icmp eq i32 %raised, 0
  br i1 %goes_on, label %resume, label %take
resume:
  call void %release(i32 %lock)
  call void @llvm.memcpy.p0.p0.i64(ptr %record, ptr %saved, i64 {record_of_run}, i1 false)
  br label %end
take:
  %slot_at = getelementptr %record, ptr %saved, i32 0, i32 13
  %slot = load ptr, ptr %slot_at
  %value_at = getelementptr %error, ptr @raised_here, i32 0, i32 1
  %trace_at = getelementptr %error, ptr @raised_here, i32 0, i32 2
  %fetch_at = getelementptr %python, ptr @python, i32 0, i32 2
  %fetch = load ptr, ptr %fetch_at
  call void %fetch(ptr @raised_here, ptr %value_at, ptr %trace_at)
  call void %release(i32 %lock)
  %left_at = getelementptr %slot, ptr %slot, i32 0, i32 1
  store volatile i64 1, ptr %left_at
  call void @llvm.memcpy.p0.p0.i64(ptr %record, ptr %saved, i64 {record_of_run}, i1 false)
  br label %leave
leave:
  store volatile ptr null, ptr %record
  call void @longjmp(ptr %landing, i32 2)
  unreachable
end:
  ret void
}}

; ---- the watcher ------------------------------------------------------------------------------

define void @watch(i64 %main, ptr %python) {{
start:
  %action = alloca %action, align 16
  %found = alloca %action, align 16
  %attributes = alloca [{room} x i8], align 64
  %thread = alloca i64
  store i64 %main, ptr @main
  call void @llvm.memcpy.p0.p0.i64(ptr @python, ptr %python, i64 32, i1 false)
  %on = load i32, ptr @guarding
  %off = icmp eq i32 %on, 0
  br i1 %off, label %end, label %install
install:
  store %action zeroinitializer, ptr %action
  store ptr @on_urgent, ptr %action
  %flags_at = getelementptr %action, ptr %action, i32 0, i32 2
  store i32 1342177284, ptr %flags_at          ; SA_SIGINFO, SA_RESTART, SA_NODEFER
  %q = call i32 @sigaction(i32 {signal}, ptr null, ptr %found)
  %handler = load ptr, ptr %found
  %is_ours = icmp eq ptr %handler, @on_urgent
  br i1 %is_ours, label %begin, label %put
put:
  %s = call i32 @sigaction(i32 {signal}, ptr %action, ptr @urgent_before)
  br label %begin
begin:
  %there = load i32, ptr @watching
  %is_there = icmp ne i32 %there, 0
  br i1 %is_there, label %end, label %create
create:
  %a = call i32 @pthread_attr_init(ptr %attributes)
  %b = call i32 @pthread_attr_setstacksize(ptr %attributes, i64 262144)
  %status = call i32 @pthread_create(ptr %thread, ptr %attributes, ptr @watcher, ptr null)
  %c = call i32 @pthread_attr_destroy(ptr %attributes)
  %good = icmp eq i32 %status, 0
  br i1 %good, label %created, label %end
created:
  %id = load i64, ptr %thread
  %d = call i32 @pthread_detach(i64 %id)
  %n = call i32 @pthread_setname_np(i64 %id, ptr @watchers_name)
  store i32 1, ptr @watching
  br label %end
end:
  ret void
}}

define internal ptr @watcher(ptr %unused) {{
start:
  br label %tick
tick:
  %seen = phi i64 [ 0, %start ], [ %number, %awake ]
  %idle = phi i64 [ 0, %start ], [ %idle2, %awake ]
  %z = call i32 @usleep(i32 {tick_microseconds})
  %l = call i32 @pthread_mutex_lock(ptr @records_lock)
  %main = load i64, ptr @main
  %record = call ptr @record_of(i64 %main)
  %none = icmp eq ptr %record, null
  br i1 %none, label %looked, label %look
look:
  %number_at = getelementptr %record, ptr %record, i32 0, i32 12
  %found = load volatile i64, ptr %number_at
  %landing = load volatile ptr, ptr %record
  %inside = icmp ne ptr %landing, null
  %same = icmp eq i64 %found, %seen
  %long = and i1 %inside, %same
  br i1 %long, label %send, label %looked
send:
  %k = call i32 @pthread_kill(i64 %main, i32 {signal})
  br label %looked
looked:
  %number = phi i64 [ %seen, %tick ], [ %found, %look ], [ %found, %send ]
  %runs = phi i1 [ false, %tick ], [ %inside, %look ], [ true, %send ]
  %u = call i32 @pthread_mutex_unlock(ptr @records_lock)
  %moved = icmp ne i64 %number, %seen
  %active = or i1 %runs, %moved
  %more = add i64 %idle, 1
  %idle1 = select i1 %active, i64 0, i64 %more
  %wide = icmp uge i64 %idle1, {idle}
  br i1 %wide, label %rest, label %stay
stay:
  store volatile i32 0, ptr @asleep
  br label %awake
rest:                                         ; says so one tick before it sleeps
  %last = icmp ugt i64 %idle1, {idle}
  br i1 %last, label %sleep, label %say
say:
  store volatile i32 1, ptr @asleep
  br label %awake
sleep:
  %l1 = call i32 @pthread_mutex_lock(ptr @wake_lock)
  br label %check
check:
  %still = load volatile i32, ptr @asleep
  %is_still = icmp ne i32 %still, 0
  br i1 %is_still, label %wait, label %up
wait:
  %w = call i32 @pthread_cond_wait(ptr @wake_up, ptr @wake_lock)
  br label %check
up:
  %u1 = call i32 @pthread_mutex_unlock(ptr @wake_lock)
  br label %awake
awake:
  %idle2 = phi i64 [ %idle1, %stay ], [ %idle1, %say ], [ 0, %up ]
  br label %tick
}}
"""

NO_STOP = """
define internal void @prepare_stop() {{
  ret void
}}

define internal ptr @begin_run(ptr %slot) {{
  ret ptr null
}}

define internal i64 @end_run(ptr %record, ptr %slot, i64 %fault) {{
  %job = load ptr, ptr %slot
  %empty = icmp eq ptr %job, null
  %outcome = select i1 %empty, i64 %fault, i64 {left}
  ret i64 %outcome
}}

define internal void @note_job(ptr %record, ptr %job) {{
  ret void
}}

define internal ptr @workers_record() {{
  ret ptr null
}}

define i32 @raised(ptr %into) {{
  ret i32 0
}}

define i32 @stop(i64 %thread) {{
  ret i32 0
}}

define void @watch(i64 %main, ptr %python) {{
  ret void
}}

define i64 @cancel(ptr %slot, i32 %by_force) {{
  %job = load ptr, ptr %slot
  %claimed_at = getelementptr %job, ptr %job, i32 0, i32 8
  store atomic i64 4611686018427387904, ptr %claimed_at seq_cst, align 8
  %fault = call i64 @leave(ptr %slot, i64 0)
  ret i64 %fault
}}
"""
