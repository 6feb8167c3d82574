"""The signal handler behind `guard_ir.py`, and its installation, as LLVM IR.

    i32  guard(front)          install it; returns 0 if it is there

It stands in front of the handlers that were there before it; `guard(1)` also puts it in front of
one that was installed later. That one is asked before the first one, but once only: faulthandler's
puts back the handler before it, which is this one, and raises the signal again.
"""

_BUSY = "; the process cannot go on, as the C library's allocator was at work. "
_ADVICE = "Run it with jit(debug=True) to find the index\n"


def _text(name: str, words: str) -> tuple[str, int]:
    data = words.encode()
    listed = "".join(f"\\{byte:02X}" for byte in data)
    return f'@{name} = internal constant [{len(data)} x i8] c"{listed}"', len(data)


_BEGIN_TEXT, _BEGIN_BYTES = _text("tell_begin", "haulage: kernel ")
_END_TEXT, _END_BYTES = _text(
    "tell_end", ": a thread accessed memory that is not there" + _BUSY + _ADVICE
)

FIGURES = {"begin_bytes": _BEGIN_BYTES, "end_bytes": _END_BYTES}

TEXT = (
    f"""
{_BEGIN_TEXT}
{_END_TEXT}
"""
    + """
; ---- the signal handler -----------------------------------------------------------------------

define i32 @guard(i32 %front) {{
start:
  %on = load i32, ptr @guarding
  %again = icmp ne i32 %on, 0
  br i1 %again, label %install, label %first
first:
  %k = call i32 @pthread_key_create(ptr @key, ptr @end_record)
  %failed = icmp ne i32 %k, 0
  br i1 %failed, label %no, label %install
no:
  ret i32 1
install:
  %a = call i32 @install(i32 11, i32 0, i32 %on, i32 %front)
  %b = call i32 @install(i32 7, i32 1, i32 %on, i32 %front)
  %wrong = or i32 %a, %b
  %bad = icmp ne i32 %wrong, 0
  br i1 %bad, label %no, label %yes
yes:
  store i32 1, ptr @guarding
  ret i32 0
}}

define internal i32 @install(i32 %signal, i32 %number, i32 %again, i32 %front) {{
start:
  %found = alloca %action, align 16
  %ours = alloca %action, align 16
  store %action zeroinitializer, ptr %found
  store %action zeroinitializer, ptr %ours
  %q = call i32 @sigaction(i32 %signal, ptr null, ptr %found)
  %handler = load ptr, ptr %found
  %is_ours = icmp eq ptr %handler, @on_fault
  br i1 %is_ours, label %good, label %other
good:
  ret i32 0
other:
  %before_at = getelementptr [2 x %action], ptr @before, i32 0, i32 %number
  %later_at = getelementptr [2 x %action], ptr @later, i32 0, i32 %number
  %default = icmp eq ptr %handler, null
  %is_first = icmp eq i32 %again, 0
  %fresh = or i1 %default, %is_first
  br i1 %fresh, label %keep, label %decide
keep:
  call void @llvm.memcpy.p0.p0.i64(ptr %before_at, ptr %found, i64 152, i1 false)
  store ptr null, ptr %later_at
  br label %put
decide:                                       ; an unknown later handler stays in front
  %wanted = icmp ne i32 %front, 0
  br i1 %wanted, label %note, label %good
note:
  call void @llvm.memcpy.p0.p0.i64(ptr %later_at, ptr %found, i64 152, i1 false)
  br label %put
put:
  store ptr @on_fault, ptr %ours
  %flags_at = getelementptr %action, ptr %ours, i32 0, i32 2
  store i32 1207959556, ptr %flags_at          ; SA_SIGINFO, SA_ONSTACK, SA_NODEFER
  %s = call i32 @sigaction(i32 %signal, ptr %ours, ptr null)
  ret i32 %s
}}

define internal void @on_fault(i32 %signal, ptr %info, ptr %context) {{
start:
  %record = call ptr @here()
  %none = icmp eq ptr %record, null
  br i1 %none, label %others, label %look
look:
  %landing = load volatile ptr, ptr %record
  %outside = icmp eq ptr %landing, null
  br i1 %outside, label %others, label %inside
inside:
  %code_at = getelementptr i8, ptr %info, i64 8
  %code = load i32, ptr %code_at
  %data_at = getelementptr i8, ptr %info, i64 16
  %by_system = icmp sgt i32 %code, 0
  br i1 %by_system, label %mine, label %sent
sent:                                         ; a handler in front of this one raises it again
  %by_thread = icmp eq i32 %code, -6           ; SI_TKILL
  %sender = load i32, ptr %data_at
  %process = call i32 @getpid()
  %own = icmp eq i32 %sender, %process
  %raised = and i1 %by_thread, %own
  br i1 %raised, label %mine, label %others
mine:
  store volatile ptr null, ptr %record
  %busy_at = getelementptr %record, ptr %record, i32 0, i32 5
  %busy = load volatile i64, ptr %busy_at
  %helpless = icmp ne i64 %busy, 0
  br i1 %helpless, label %tell, label %leave
tell:
  call void @tell(ptr %record)
  br label %others
leave:
  %told = load i64, ptr %data_at
  %is_general = icmp eq i32 %code, 128         ; SI_KERNEL: the processor does not tell where
  %is_unknown = select i1 %by_system, i1 %is_general, i1 true
  %address = select i1 %is_unknown, i64 {unknown}, i64 %told
  %address_at = getelementptr %record, ptr %record, i32 0, i32 10
  store i64 %address, ptr %address_at
  %signal_at = getelementptr %record, ptr %record, i32 0, i32 11
  %signal_wide = zext i32 %signal to i64
  store i64 %signal_wide, ptr %signal_at
  call void @longjmp(ptr %landing, i32 1)
  unreachable
others:
  call void @pass_on(i32 %signal, ptr %info, ptr %context)
  ret void
}}

; What the process does with the signal without this code.
define internal void @pass_on(i32 %signal, ptr %info, ptr %context) {{
start:
  %is_segv = icmp eq i32 %signal, 11
  %number = select i1 %is_segv, i32 0, i32 1
  %before_at = getelementptr [2 x %action], ptr @before, i32 0, i32 %number
  %later_at = getelementptr [2 x %action], ptr @later, i32 0, i32 %number
  %set = alloca [16 x i64], align 16
  %default = alloca %action, align 16
  store %action zeroinitializer, ptr %default
  %code_at = getelementptr i8, ptr %info, i64 8
  %code = load i32, ptr %code_at
  %by_system = icmp sgt i32 %code, 0
  %later = load ptr, ptr %later_at
  %has_later = icmp ne ptr %later, null
  %action = select i1 %has_later, ptr %later_at, ptr %before_at
  %handler = load ptr, ptr %action
  store ptr null, ptr %later_at
  %value = ptrtoint ptr %handler to i64
  %ignores = icmp eq i64 %value, 1             ; SIG_IGN
  %none = icmp ule i64 %value, 1
  br i1 %none, label %by_default, label %call
by_default:                                   ; what the system made is not ignored
  %sent = xor i1 %by_system, true
  %ignored = and i1 %ignores, %sent
  br i1 %ignored, label %end, label %die
die:
  %s = call i32 @sigaction(i32 %signal, ptr %default, ptr null)
  br i1 %by_system, label %end, label %again   ; the access is made anew, and fails anew
again:
  %r = call i32 @raise(i32 %signal)
  br label %end
call:                                         ; the mask is put back when the handler returns
  %flags_at = getelementptr %action, ptr %action, i32 0, i32 2
  %flags = load i32, ptr %flags_at
  %mask = getelementptr %action, ptr %action, i32 0, i32 1
  %m = call i32 @pthread_sigmask(i32 0, ptr %mask, ptr null)
  %not_deferred = and i32 %flags, 1073741824   ; SA_NODEFER
  %deferred = icmp eq i32 %not_deferred, 0
  br i1 %deferred, label %defer, label %reset
defer:
  store [16 x i64] zeroinitializer, ptr %set
  %bit = sub i32 %signal, 1
  %bit_wide = zext i32 %bit to i64
  %it = shl i64 1, %bit_wide
  store i64 %it, ptr %set
  %d = call i32 @pthread_sigmask(i32 0, ptr %set, ptr null)
  br label %reset
reset:
  %once = and i32 %flags, -2147483648          ; SA_RESETHAND
  %is_once = icmp ne i32 %once, 0
  br i1 %is_once, label %forget, label %do
forget:
  store ptr null, ptr %action
  br label %do
do:
  call void %handler(i32 %signal, ptr %info, ptr %context)
  %not_made_anew = xor i1 %by_system, true
  %goes_on = and i1 %has_later, %not_made_anew
  br i1 %goes_on, label %earlier, label %end
earlier:                                      ; what was sent, and not taken, would not come again
  call void @pass_on(i32 %signal, ptr %info, ptr %context)
  br label %end
end:
  ret void
}}

; Says on the error output which kernel ends the process.
define internal void @tell(ptr %record) {{
start:
  %entry_at = getelementptr %record, ptr %record, i32 0, i32 1
  %entry = load ptr, ptr %entry_at
  %w1 = call i64 @write(i32 2, ptr @tell_begin, i64 {begin_bytes})
  %first = load ptr, ptr @names
  br label %look
look:
  %node = phi ptr [ %first, %start ], [ %next, %other ]
  %none = icmp eq ptr %node, null
  br i1 %none, label %end, label %compare
compare:
  %its_at = getelementptr %name, ptr %node, i32 0, i32 1
  %its = load ptr, ptr %its_at
  %found = icmp eq ptr %its, %entry
  br i1 %found, label %say, label %other
other:
  %next = load ptr, ptr %node
  br label %look
say:
  %text_at = getelementptr %name, ptr %node, i32 0, i32 2
  %text = load ptr, ptr %text_at
  %bytes_at = getelementptr %name, ptr %node, i32 0, i32 3
  %bytes = load i64, ptr %bytes_at
  %w2 = call i64 @write(i32 2, ptr %text, i64 %bytes)
  br label %end
end:
  %w3 = call i64 @write(i32 2, ptr @tell_end, i64 {end_bytes})
  ret void
}}
"""
)
