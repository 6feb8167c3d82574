"""What catches a kernel's accesses outside of memory, in the worker threads' code, as LLVM IR.

    i64  guarded(entry, launch, first, last)  run blocks; returns their fault, or a crash's number
    i32  crash(number, into)   copy what is known of a crash; returns 0 if it is forgotten
    void name(node)            note how a kernel is called: a node of `%name`, kept for ever
    ptr  haulage_alloc(align, bytes, owned), void haulage_free(ptr)   for kernels' code
    void haulage_busy(on)      the thread holds a lock, or no more, and cannot leave

and what `guard_handler_ir` has.

A thread that runs a kernel keeps a *record* of it. SIGSEGV and SIGBUS run `on_fault` on a stack of
their own. If the thread is inside a kernel, it jumps to the end of the batch of blocks that it was
running; otherwise the handler that was there before has its turn, as if there were no other.

It cannot jump out of the C library's allocator, whose locks would stay locked. So kernels' code
allocates by `haulage_alloc`, which notes that in the record. What is `owned` by a batch of blocks
is freed if that crashes. The lock of `messages.py` is noted so too. Nothing else that kernels call
holds a lock.

All numbers are those of Linux with 64 bits; elsewhere there is no handler, and `guarded` calls the
entry and nothing else.
"""

from haulage.backends.cpu_driver import guard_handler_ir

# Crashes' numbers begin here, beyond all faults of kernels.
CRASH = 1 << 40

# What running blocks gives that were stopped (`stop_ir.py`).
STOPPED = CRASH - 1

# How many crashes are remembered.
CRASHES = 64

# si_addr is not known: the processor does not tell it of addresses that cannot be.
UNKNOWN = (1 << 64) - 1

# Bytes that a thread's alternate stack and its record take.
_ROOM, _RECORD = 128 << 10, 1024

# Pieces of memory that a batch of blocks can own; any more are lost if it crashes.
_OWNED = 8

# The bytes at the beginning of a record that a run of blocks uses: 14 words and those pieces.
RUN_BYTES = 8 * (14 + _OWNED)

FIGURES: dict[str, object] = {
    "crash": CRASH,
    "stopped": STOPPED,
    "crashes": CRASHES,
    "unknown": -1,
    "guard_room": _ROOM,
    "guard_stack": _ROOM - _RECORD,
    "owned": _OWNED,
}


def guard_ir(machine: str, system: str) -> str:
    """The text for a machine and system as `platform` names them."""
    if has_handler(machine, system):
        figures = FIGURES | guard_handler_ir.FIGURES | {"copied": _copied()}
        return (TEXT + guard_handler_ir.TEXT).format(**figures)
    return NO_HANDLER


def has_handler(machine: str, system: str) -> bool:
    """Whether there are handlers of signals for a machine and system."""
    return system == "Linux" and machine.lower() in ("x86_64", "aarch64")


TEXT = """
; where a crash goes on (null outside of kernels), entry, launch, first block, last block, whether
; it allocates, pieces owned, those, lowest address of the stack, its bytes; of a crash: address,
; signal; the number of Python's call, its slot, the job of a worker; then, for other threads too:
; the next record, the thread, the number of the call that is to be stopped
%record = type {{ ptr, ptr, ptr, i64, i64, i64, i64, [{owned} x ptr], i64, i64, i64, i64,
                  i64, ptr, ptr, ptr, i64, i64 }}
; number, entry, signal, address, first block, last block, lowest address of the stack, its bytes,
; the grid's extents
%crash = type {{ i64, ptr, i64, i64, i64, i64, i64, i64, [2 x i64] }}
%name = type {{ ptr, ptr, ptr, i64 }}       ; next, entry, text, bytes
%stack = type {{ ptr, i32, i64 }}           ; stack_t
; sigaction: handler, mask, flags, (restorer)
%action = type {{ ptr, [16 x i64], i32, ptr, [8 x i64] }}

@guarding = internal global i32 0, align 64
@key      = internal global i32 0
@names    = internal global ptr null
@count    = internal global i64 0
@crashed  = internal global [{crashes} x %crash] zeroinitializer
; Handlers by signal: those that were there before, and those found later.
@before   = internal global [2 x %action] zeroinitializer
@later    = internal global [2 x %action] zeroinitializer

declare i32 @_setjmp(ptr) returns_twice
declare void @longjmp(ptr, i32) noreturn
declare i32 @pthread_key_create(ptr, ptr)
declare ptr @pthread_getspecific(i32)
declare i32 @pthread_setspecific(i32, ptr)
declare i64 @pthread_self()
declare i32 @pthread_getattr_np(i64, ptr)
declare i32 @pthread_attr_getstack(ptr, ptr, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @pthread_kill(i64, i32)
declare i32 @sigaction(i32, ptr, ptr)
declare i32 @sigaltstack(ptr, ptr)
declare i32 @raise(i32)
declare i32 @getpid()
declare i64 @write(i32, ptr, i64)
declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare ptr @aligned_alloc(i64, i64)

; ---- running blocks ---------------------------------------------------------------------------

define internal i64 @guarded(ptr %entry, ptr %launch, i64 %first, i64 %last) noinline {{
start:
  %landing = alloca [1024 x i8], align 64      ; more than a jmp_buf takes
  %known = call ptr @here()
  %is_known = icmp ne ptr %known, null
  br i1 %is_known, label %begin, label %ask
ask:
  %on = load i32, ptr @guarding
  %off = icmp eq i32 %on, 0
  br i1 %off, label %plain, label %make
make:
  %made = call ptr @make_record()
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %plain, label %begin
plain:
  %plain_fault = call i64 %entry(ptr %launch, i64 %first, i64 %last)
  ret i64 %plain_fault
begin:
  %record = phi ptr [ %known, %start ], [ %made, %make ]
  %landed = call i32 @_setjmp(ptr %landing) returns_twice
  %leaves = icmp ne i32 %landed, 0
  br i1 %leaves, label %left, label %run
run:
  %entry_at = getelementptr %record, ptr %record, i32 0, i32 1
  store ptr %entry, ptr %entry_at
  %launch_at = getelementptr %record, ptr %record, i32 0, i32 2
  store ptr %launch, ptr %launch_at
  %first_at = getelementptr %record, ptr %record, i32 0, i32 3
  store i64 %first, ptr %first_at
  %last_at = getelementptr %record, ptr %record, i32 0, i32 4
  store i64 %last, ptr %last_at
  %owned_at = getelementptr %record, ptr %record, i32 0, i32 6
  store i64 0, ptr %owned_at
  store volatile ptr %landing, ptr %record
  %fault = call i64 %entry(ptr %launch, i64 %first, i64 %last)
  store volatile ptr null, ptr %record
  ret i64 %fault
left:
  %number = call i64 @after_leaving(ptr %record, i32 %landed)
  ret i64 %number
}}

; Frees what the batch owned, and remembers a crash (1), other than a stop (2).
define internal i64 @after_leaving(ptr %record, i32 %why) {{
start:
  %owned_at = getelementptr %record, ptr %record, i32 0, i32 6
  %owned = load i64, ptr %owned_at
  br label %next
next:
  %i = phi i64 [ 0, %start ], [ %i1, %free ]
  %all = icmp eq i64 %i, %owned
  br i1 %all, label %freed, label %free
free:
  %piece_at = getelementptr %record, ptr %record, i32 0, i32 7, i64 %i
  %piece = load ptr, ptr %piece_at
  call void @free(ptr %piece)
  %i1 = add i64 %i, 1
  br label %next
freed:
  store i64 0, ptr %owned_at
  %stopped = icmp eq i32 %why, 2
  br i1 %stopped, label %stop, label %crash
stop:
  ret i64 {stopped}
crash:
  %serial = atomicrmw add ptr @count, i64 1 seq_cst
  %number = add i64 %serial, {crash}
  %place = urem i64 %serial, {crashes}
  %at = getelementptr [{crashes} x %crash], ptr @crashed, i64 0, i64 %place
  store i64 %number, ptr %at
{copied}
  %launch_at = getelementptr %record, ptr %record, i32 0, i32 2
  %launch = load ptr, ptr %launch_at
  %grid_at = getelementptr %crash, ptr %at, i32 0, i32 8
  call void @llvm.memcpy.p0.p0.i64(ptr %grid_at, ptr %launch, i64 12, i1 false)
  ret i64 %number
}}

define i32 @crash(i64 %number, ptr %into) {{
  %serial = sub i64 %number, {crash}
  %place = urem i64 %serial, {crashes}
  %at = getelementptr [{crashes} x %crash], ptr @crashed, i64 0, i64 %place
  call void @llvm.memcpy.p0.p0.i64(ptr %into, ptr %at, i64 80, i1 false)
  %found = load i64, ptr %into
  %same = icmp eq i64 %found, %number
  %known = zext i1 %same to i32
  ret i32 %known
}}

define void @name(ptr %node) {{
start:
  %first = load atomic ptr, ptr @names seq_cst, align 8
  br label %try
try:
  %head = phi ptr [ %first, %start ], [ %found, %try ]
  store ptr %head, ptr %node
  %pair = cmpxchg ptr @names, ptr %head, ptr %node seq_cst seq_cst
  %found = extractvalue {{ ptr, i1 }} %pair, 0
  %done = extractvalue {{ ptr, i1 }} %pair, 1
  br i1 %done, label %end, label %try
end:
  ret void
}}

; ---- a thread's record ------------------------------------------------------------------------

; The calling thread's record, or null.
define internal ptr @here() {{
  %on = load i32, ptr @guarding
  %off = icmp eq i32 %on, 0
  br i1 %off, label %none, label %ask
none:
  ret ptr null
ask:
  %key = load i32, ptr @key
  %record = call ptr @pthread_getspecific(i32 %key)
  ret ptr %record
}}

; Makes the calling thread's record and an alternate stack if it has none; null without memory.
define internal ptr @make_record() {{
start:
  %stack = alloca %stack, align 8
  %attributes = alloca [128 x i8], align 16
  %set = alloca [16 x i64], align 16
  %room = call ptr @mmap(ptr null, i64 {guard_room}, i32 3, i32 34, i32 -1, i64 0)
  %address = ptrtoint ptr %room to i64
  %failed = icmp eq i64 %address, -1
  br i1 %failed, label %none, label %look
none:
  ret ptr null
look:
  %record = getelementptr i8, ptr %room, i64 {guard_stack}
  %s = call i32 @sigaltstack(ptr null, ptr %stack)
  %flags_at = getelementptr %stack, ptr %stack, i32 0, i32 1
  %flags = load i32, ptr %flags_at
  %disabled = and i32 %flags, 2                ; SS_DISABLE
  %has = icmp eq i32 %disabled, 0
  br i1 %has, label %bounds, label %give
give:
  store ptr %room, ptr %stack
  store i32 0, ptr %flags_at
  %bytes_at = getelementptr %stack, ptr %stack, i32 0, i32 2
  store i64 {guard_stack}, ptr %bytes_at
  %t = call i32 @sigaltstack(ptr %stack, ptr null)
  br label %bounds
bounds:
  %self = call i64 @pthread_self()
  %got = call i32 @pthread_getattr_np(i64 %self, ptr %attributes)
  %good = icmp eq i32 %got, 0
  br i1 %good, label %read, label %known
read:
  %low_at = getelementptr %record, ptr %record, i32 0, i32 8
  %size_at = getelementptr %record, ptr %record, i32 0, i32 9
  %r = call i32 @pthread_attr_getstack(ptr %attributes, ptr %low_at, ptr %size_at)
  %d = call i32 @pthread_attr_destroy(ptr %attributes)
  br label %known
known:
  store [16 x i64] zeroinitializer, ptr %set
  store i64 4195392, ptr %set                  ; SIGBUS (7), SIGSEGV (11), SIGURG (23), from 1
  %m = call i32 @pthread_sigmask(i32 1, ptr %set, ptr null)  ; SIG_UNBLOCK
  %key = load i32, ptr @key
  %k = call i32 @pthread_setspecific(i32 %key, ptr %record)
  call void @list_record(ptr %record)
  ret ptr %record
}}

; When a thread ends.
define internal void @end_record(ptr %record) {{
  %stack = alloca %stack, align 8
  call void @unlist_record(ptr %record)
  %room = getelementptr i8, ptr %record, i64 -{guard_stack}
  %s = call i32 @sigaltstack(ptr null, ptr %stack)
  %its = load ptr, ptr %stack
  %ours = icmp eq ptr %its, %room
  br i1 %ours, label %take, label %free
take:
  %flags_at = getelementptr %stack, ptr %stack, i32 0, i32 1
  store i32 2, ptr %flags_at
  %t = call i32 @sigaltstack(ptr %stack, ptr null)
  br label %free
free:
  %u = call i32 @munmap(ptr %room, i64 {guard_room})
  ret void
}}

; ---- memory of kernels ------------------------------------------------------------------------

define void @haulage_busy(i64 %on) {{
start:
  %record = call ptr @here()
  %none = icmp eq ptr %record, null
  br i1 %none, label %end, label %note
note:
  %busy_at = getelementptr %record, ptr %record, i32 0, i32 5
  %before = load volatile i64, ptr %busy_at
  store volatile i64 %on, ptr %busy_at
  %was_asked = icmp eq i64 %before, 2          ; to leave, meanwhile
  br i1 %was_asked, label %again, label %end
again:
  %self = call i64 @pthread_self()
  %k = call i32 @pthread_kill(i64 %self, i32 23)
  br label %end
end:
  ret void
}}

define ptr @haulage_alloc(i64 %align, i64 %bytes, i1 %owned) {{
start:
  %less = sub i64 %align, 1
  %over = add i64 %bytes, %less
  %mask = sub i64 0, %align
  %whole = and i64 %over, %mask
  %record = call ptr @here()
  %none = icmp eq ptr %record, null
  br i1 %none, label %plain, label %note
plain:
  %plain_piece = call ptr @aligned_alloc(i64 %align, i64 %whole)
  ret ptr %plain_piece
note:
  %busy_at = getelementptr %record, ptr %record, i32 0, i32 5
  store volatile i64 1, ptr %busy_at
  %piece = call ptr @aligned_alloc(i64 %align, i64 %whole)
  store volatile i64 0, ptr %busy_at
  %count_at = getelementptr %record, ptr %record, i32 0, i32 6
  %count = load i64, ptr %count_at
  %room = icmp ult i64 %count, {owned}
  %keep = and i1 %owned, %room
  br i1 %keep, label %own, label %end
own:
  %piece_at = getelementptr %record, ptr %record, i32 0, i32 7, i64 %count
  store ptr %piece, ptr %piece_at
  %more = add i64 %count, 1
  store i64 %more, ptr %count_at
  br label %end
end:
  ret ptr %piece
}}

define void @haulage_free(ptr %piece) {{
start:
  %record = call ptr @here()
  %none = icmp eq ptr %record, null
  br i1 %none, label %plain, label %look
plain:
  call void @free(ptr %piece)
  ret void
look:
  %count_at = getelementptr %record, ptr %record, i32 0, i32 6
  %count = load i64, ptr %count_at
  br label %search
search:
  %i = phi i64 [ %count, %look ], [ %i1, %compare ]
  %all = icmp eq i64 %i, 0
  br i1 %all, label %free, label %compare
compare:
  %i1 = sub i64 %i, 1
  %at = getelementptr %record, ptr %record, i32 0, i32 7, i64 %i1
  %one = load ptr, ptr %at
  %found = icmp eq ptr %one, %piece
  br i1 %found, label %drop, label %search
drop:                                         ; the last one takes its place
  %less = sub i64 %count, 1
  %last_at = getelementptr %record, ptr %record, i32 0, i32 7, i64 %less
  %last = load ptr, ptr %last_at
  store ptr %last, ptr %at
  store i64 %less, ptr %count_at
  br label %free
free:
  %busy_at = getelementptr %record, ptr %record, i32 0, i32 5
  store volatile i64 1, ptr %busy_at
  call void @free(ptr %piece)
  store volatile i64 0, ptr %busy_at
  ret void
}}
"""


def _copied() -> str:
    """Lines that copy a record's fields into those of a crash."""
    lines = []
    for to, (source, kind) in enumerate(
        ((1, "ptr"), (11, "i64"), (10, "i64"), (3, "i64"), (4, "i64"), (8, "i64"), (9, "i64")), 1
    ):
        lines += [
            f"  %from.{to} = getelementptr %record, ptr %record, i32 0, i32 {source}",
            f"  %value.{to} = load {kind}, ptr %from.{to}",
            f"  %to.{to} = getelementptr %crash, ptr %at, i32 0, i32 {to}",
            f"  store {kind} %value.{to}, ptr %to.{to}",
        ]
    return "\n".join(lines)


NO_HANDLER = """
declare ptr @aligned_alloc(i64, i64)

define internal i64 @guarded(ptr %entry, ptr %launch, i64 %first, i64 %last) {
  %fault = call i64 %entry(ptr %launch, i64 %first, i64 %last)
  ret i64 %fault
}

define i32 @guard(i32 %front) {
  ret i32 1
}

define i32 @crash(i64 %number, ptr %into) {
  ret i32 0
}

define void @name(ptr %node) {
  ret void
}

define ptr @haulage_alloc(i64 %align, i64 %bytes, i1 %owned) {
  %less = sub i64 %align, 1
  %over = add i64 %bytes, %less
  %mask = sub i64 0, %align
  %whole = and i64 %over, %mask
  %piece = call ptr @aligned_alloc(i64 %align, i64 %whole)
  ret ptr %piece
}

define void @haulage_busy(i64 %on) {
  ret void
}

define void @haulage_free(ptr %piece) {
  call void @free(ptr %piece)
  ret void
}
"""
