"""The emitted code's ground: reference counts, names of modules, and the objects of blocks."""

TEXT = """
@state = internal global [{state_bytes} x i8] zeroinitializer, align 64

@PyLong_Type = external global i8
@PyTuple_Type = external global i8
declare void @_Py_Dealloc(ptr)
declare i64 @PyLong_AsLongAndOverflow(ptr, ptr)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare void @PyObject_GC_UnTrack(ptr)
declare void @PyObject_GC_Del(ptr)
declare void @PyObject_ClearWeakRefs(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyFrame_GetCode(ptr)
declare i32 @PyFrame_GetLasti(ptr)
declare i32 @PyContextVar_Get(ptr, ptr, ptr)
declare ptr @PyDict_GetItem(ptr, ptr)
declare ptr @PyList_New(i64)
declare i32 @PyList_Append(ptr, ptr)
declare void @PyErr_Clear()
declare void @PyErr_Fetch(ptr, ptr, ptr)
declare void @PyErr_Restore(ptr, ptr, ptr)
declare void @PyErr_WriteUnraisable(ptr)
declare i32 @clock_gettime(i32, ptr)
declare i64 @llvm.smax.i64(i64, i64)

define ptr @state_at() {{
  ret ptr @state
}}

; Py_INCREF and Py_DECREF. From 3.12 on counts are of 32 bits, and negative ones stay as they are.
define internal void @keep(ptr %object) {{
  %count = load {count}, ptr %object
  %immortal = icmp slt {count} %count, 0
  br i1 %immortal, label %done, label %mortal
mortal:
  %more = add {count} %count, 1
  store {count} %more, ptr %object
  br label %done
done:
  ret void
}}

define internal void @drop(ptr %object) {{
  %count = load {count}, ptr %object
  %immortal = icmp slt {count} %count, 0
  br i1 %immortal, label %done, label %mortal
mortal:
  %less = sub {count} %count, 1
  store {count} %less, ptr %object
  %last = icmp eq {count} %less, 0
  br i1 %last, label %gone, label %done
gone:
  call void @_Py_Dealloc(ptr %object)
  br label %done
done:
  ret void
}}

; The value of a watched name, if its dictionary has the keys that it had; else null.
define internal ptr @look(ptr %entry) {{
  %names = load ptr, ptr %entry
  %keys_at = getelementptr i8, ptr %names, i64 {dict_keys}
  %keys = load ptr, ptr %keys_at
  %known_at = getelementptr ptr, ptr %entry, i64 1
  %known = load ptr, ptr %known_at
  %is_known = icmp eq ptr %keys, %known
  br i1 %is_known, label %same, label %other
same:
  %place_at = getelementptr ptr, ptr %entry, i64 2
  %place = load ptr, ptr %place_at
  %value = load ptr, ptr %place
  ret ptr %value
other:
  ret ptr null
}}

; Whether the watched names before `end` have the values that they have while all is plain.
define internal i1 @is_plain(i64 %end) {{
entry:
  br label %next
next:
  %i = phi i64 [ {first_plain}, %entry ], [ %after, %same ]
  %all = icmp eq i64 %i, %end
  br i1 %all, label %plain, label %look
look:
  %entry_at = getelementptr [4 x ptr], ptr {watched_at}, i64 %i
  %value = call ptr @look(ptr %entry_at)
  %expected_at = getelementptr ptr, ptr %entry_at, i64 3
  %expected = load ptr, ptr %expected_at
  %is_same = icmp eq ptr %value, %expected
  br i1 %is_same, label %same, label %special
same:
  %after = add i64 %i, 1
  br label %next
plain:
  ret i1 true
special:
  ret i1 false
}}

; ---- objects of blocks: those of dead ones are kept, emptied, for the next ---------------------

define internal ptr @shell() {{
  %head = load ptr, ptr {shells}
  %empty = icmp eq ptr %head, null
  br i1 %empty, label %make, label %reuse
reuse:
  %next_at = getelementptr i8, ptr %head, i64 {b_next}
  %next = load ptr, ptr %next_at
  store ptr %next, ptr {shells}
  %kept = load i64, ptr {shells_kept}
  %fewer = sub i64 %kept, 1
  store i64 %fewer, ptr {shells_kept}
  store i64 1, ptr %head
  ret ptr %head
make:
  %type = load ptr, ptr {block_type}
  %made = call ptr @PyType_GenericAlloc(ptr %type, i64 0)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %none, label %good
good:                                    ; it can be in no cycle: nothing for collectors to see
  call void @PyObject_GC_UnTrack(ptr %made)
  ret ptr %made
none:
  ret ptr null
}}

define internal void @shell_back(ptr %block) {{
  %kept = load i64, ptr {shells_kept}
  %many = icmp sge i64 %kept, 1024
  br i1 %many, label %free, label %keep
keep:
  %head = load ptr, ptr {shells}
  %next_at = getelementptr i8, ptr %block, i64 {b_next}
  store ptr %head, ptr %next_at
  store ptr %block, ptr {shells}
  %more = add i64 %kept, 1
  store i64 %more, ptr {shells_kept}
  ret void
free:
  %type_at = getelementptr i8, ptr %block, i64 {type_at}
  %type = load ptr, ptr %type_at
  call void @PyObject_GC_Del(ptr %block)
  call void @drop(ptr %type)
  ret void
}}

; Put a block at the head of those that are alive, and take one out.
define internal void @link(ptr %block) {{
  %head = load ptr, ptr {live}
  %next_at = getelementptr i8, ptr %block, i64 {b_next}
  store ptr %head, ptr %next_at
  %previous_at = getelementptr i8, ptr %block, i64 {b_previous}
  store ptr null, ptr %previous_at
  store ptr %block, ptr {live}
  %first = icmp eq ptr %head, null
  br i1 %first, label %done, label %tell
tell:
  %theirs = getelementptr i8, ptr %head, i64 {b_previous}
  store ptr %block, ptr %theirs
  br label %done
done:
  ret void
}}

define internal void @unlink(ptr %block) {{
  %previous_at = getelementptr i8, ptr %block, i64 {b_previous}
  %next_at = getelementptr i8, ptr %block, i64 {b_next}
  %previous = load ptr, ptr %previous_at
  %next = load ptr, ptr %next_at
  %first = icmp eq ptr %previous, null
  br i1 %first, label %head, label %inside
head:
  store ptr %next, ptr {live}
  br label %backward
inside:
  %their_next = getelementptr i8, ptr %previous, i64 {b_next}
  store ptr %next, ptr %their_next
  br label %backward
backward:
  %last = icmp eq ptr %next, null
  br i1 %last, label %done, label %tell
tell:
  %their_previous = getelementptr i8, ptr %next, i64 {b_previous}
  store ptr %previous, ptr %their_previous
  br label %done
done:
  ret void
}}

; live() -> a list of the blocks that are alive
define ptr @live(ptr %self, ptr %nothing) {{
entry:
  %list = call ptr @PyList_New(i64 0)
  %no_list = icmp eq ptr %list, null
  br i1 %no_list, label %failed, label %begin
begin:
  %head = load ptr, ptr {live}
  br label %next
next:
  %block = phi ptr [ %head, %begin ], [ %after, %added ]
  %end = icmp eq ptr %block, null
  br i1 %end, label %done, label %add
add:
  %status = call i32 @PyList_Append(ptr %list, ptr %block)
  %bad = icmp ne i32 %status, 0
  br i1 %bad, label %undo, label %added
added:
  %next_at = getelementptr i8, ptr %block, i64 {b_next}
  %after = load ptr, ptr %next_at
  br label %next
undo:
  call void @drop(ptr %list)
  br label %failed
failed:
  ret ptr null
done:
  ret ptr %list
}}
"""
