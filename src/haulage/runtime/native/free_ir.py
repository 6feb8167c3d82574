"""The emitted code that runs when the last reference to a block goes."""

from haulage.runtime.memory.pool import IN_USE

TEXT = """
; Empty the object of a block that is dead and in no list.
define internal void @bury(ptr %block) {{
{drop_slots}
  %code_at = getelementptr i8, ptr %block, i64 {b_code}
  %code = load ptr, ptr %code_at
  store ptr null, ptr %code_at
  call void @drop(ptr %code)
  %plan_at = getelementptr i8, ptr %block, i64 {b_plan}
  %plan = load ptr, ptr %plan_at
  store ptr null, ptr %plan_at
  call void @drop(ptr %plan)
  call void @shell_back(ptr %block)
  ret void
}}

; tp_dealloc. A block is plain if no slot has changed since it was born: then it was used in no
; other stream, not closed, not handed to others, whatever else there may be to know of it.
define void @dealloc(ptr %block) {{
  %end = load i64, ptr {end_for_free}
  %all_plain = call i1 @is_plain(i64 %end)
  br i1 %all_plain, label %look, label %slowly
look:
  %weak_at = getelementptr i8, ptr %block, i64 {weak}
  %weak = load ptr, ptr %weak_at
  %is_watched = icmp ne ptr %weak, null
  br i1 %is_watched, label %slowly, label %compare
compare:
  %plan_at = getelementptr i8, ptr %block, i64 {b_plan}
  %plan = load ptr, ptr %plan_at
{compare_slots}
  %is_plain = icmp eq i64 %changed, 0
  br i1 %is_plain, label %plain, label %slowly
plain:
  %cell_at = getelementptr i8, ptr %block, i64 {b_device_ptr}
  %cell = load ptr, ptr %cell_at
  %cells_at = getelementptr i8, ptr %plan, i64 {p_cells}
  %cells = load ptr, ptr %cells_at
  %status = call i32 @push(ptr %cells, ptr %cell)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %slowly, label %pushed
pushed:
  %numbers_at = getelementptr i8, ptr %plan, i64 {p_numbers}
  %numbers = load ptr, ptr %numbers_at
  %nbytes_at = getelementptr i8, ptr %numbers, i64 {n_nbytes}
  %nbytes = load i64, ptr %nbytes_at
{count_down}
  call void @unlink(ptr %block)
  call void @bury(ptr %block)
  ret void
slowly:
  call void @dealloc_by_python(ptr %block)
  ret void
}}

; list.append; an exception on its way through stays.
define internal i32 @push(ptr %list, ptr %item) {{
  %type = alloca ptr
  %value = alloca ptr
  %traceback = alloca ptr
  %size_at = getelementptr i8, ptr %list, i64 {size_at}
  %size = load i64, ptr %size_at
  %room_at = getelementptr i8, ptr %list, i64 {list_room}
  %room = load i64, ptr %room_at
  %is_room = icmp slt i64 %size, %room
  br i1 %is_room, label %store, label %grow
store:
  %items_at = getelementptr i8, ptr %list, i64 {list_items}
  %items = load ptr, ptr %items_at
  %item_at = getelementptr ptr, ptr %items, i64 %size
  call void @keep(ptr %item)
  store ptr %item, ptr %item_at
  %more = add i64 %size, 1
  store i64 %more, ptr %size_at
  ret i32 0
grow:
  call void @PyErr_Fetch(ptr %type, ptr %value, ptr %traceback)
  %status = call i32 @PyList_Append(ptr %list, ptr %item)
  %type_was = load ptr, ptr %type
  %value_was = load ptr, ptr %value
  %traceback_was = load ptr, ptr %traceback
  call void @PyErr_Restore(ptr %type_was, ptr %value_was, ptr %traceback_was)
  ret i32 %status
}}

; What is not plain Python gives back, while the block is alive again.
define internal void @dealloc_by_python(ptr %block) {{
  %type = alloca ptr
  %value = alloca ptr
  %traceback = alloca ptr
  %arguments = alloca [2 x ptr]
  store i64 1, ptr %block
  call void @PyErr_Fetch(ptr %type, ptr %value, ptr %traceback)
  %give_back = load ptr, ptr {give_back}
  %first = getelementptr ptr, ptr %arguments, i64 1
  store ptr %block, ptr %first
  %result = call ptr @PyObject_Vectorcall(ptr %give_back, ptr %first, i64 {one_argument}, ptr null)
  %failed = icmp eq ptr %result, null
  br i1 %failed, label %complain, label %given
complain:
  call void @PyErr_WriteUnraisable(ptr %give_back)
  br label %after
given:
  call void @drop(ptr %result)
  br label %after
after:
  %type_was = load ptr, ptr %type
  %value_was = load ptr, ptr %value
  %traceback_was = load ptr, ptr %traceback
  call void @PyErr_Restore(ptr %type_was, ptr %value_was, ptr %traceback_was)
  %count = load {count}, ptr %block
  %less = sub {count} %count, 1
  store {count} %less, ptr %block
  %is_dead = icmp eq {count} %less, 0
  br i1 %is_dead, label %dead, label %alive
alive:
  ret void
dead:
  %weak_at = getelementptr i8, ptr %block, i64 {weak}
  %weak = load ptr, ptr %weak_at
  %is_watched = icmp ne ptr %weak, null
  br i1 %is_watched, label %unwatch, label %gone
unwatch:
  call void @PyObject_ClearWeakRefs(ptr %block)
  br label %gone
gone:
  call void @unlink(ptr %block)
  call void @bury(ptr %block)
  ret void
}}
"""


def compare_slots(places: dict[str, int], items: dict[str, int]) -> str:
    """Set `%changed` to 0 if each slot of `%block` has what `%plan` gave it."""
    text, before = [], "0"
    for number, (name, place) in enumerate(places.items()):
        if name in ("device_ptr", "host_ptr"):
            continue
        text.append(f"""\
  %slot_at{number} = getelementptr i8, ptr %block, i64 {place}
  %slot{number} = load i64, ptr %slot_at{number}
  %item_at{number} = getelementptr i8, ptr %plan, i64 {items[name]}
  %item{number} = load i64, ptr %item_at{number}
  %differs{number} = xor i64 %slot{number}, %item{number}
  %changed{number} = or i64 {before}, %differs{number}
""")
        before = f"%changed{number}"
    return "".join(text) + f"  %changed = or i64 {before}, 0"


def drop_slots(places: dict[str, int]) -> str:
    """Empty the slots of `%block`."""
    return "".join(
        f"""\
  %slot_at{number} = getelementptr i8, ptr %block, i64 {place}
  %slot{number} = load ptr, ptr %slot_at{number}
  store ptr null, ptr %slot_at{number}
  call void @drop(ptr %slot{number})
"""
        for number, place in enumerate(places.values())
    )


def count_down(counters: list[int]) -> str:
    """Take `%nbytes` off the counters whose addresses are at these places of `%numbers`."""
    return "".join(
        f"""\
  %counter_at{level} = getelementptr i8, ptr %numbers, i64 {place}
  %cells{level} = load ptr, ptr %counter_at{level}
  %in_use_at{level} = getelementptr i64, ptr %cells{level}, i64 {IN_USE}
  %in_use{level} = load i64, ptr %in_use_at{level}
  %less{level} = sub i64 %in_use{level}, %nbytes
  store i64 %less{level}, ptr %in_use_at{level}
"""
        for level, place in enumerate(counters)
    )
