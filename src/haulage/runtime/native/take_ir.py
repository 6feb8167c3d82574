"""The emitted code that makes an array over a block of a free list."""

from haulage.runtime.memory.pool import ALLOCATIONS, IN_USE, PEAK

TEXT = """
; Whether collector passes have put nothing aside that is to be given back first.
define internal i1 @is_nothing_aside() {{
  %aside = load ptr, ptr {aside}
  %size_at = getelementptr i8, ptr %aside, i64 {size_at}
  %size = load i64, ptr %size_at
  %handles = load ptr, ptr {aside_handles}
  %handles_at = getelementptr i8, ptr %handles, i64 {size_at}
  %more = load i64, ptr %handles_at
  %both = or i64 %size, %more
  %nothing = icmp eq i64 %both, 0
  ret i1 %nothing
}}

; take(shape, dtype, strides, order, stream) -> the array; None: not one of the plain cases.
; Nothing is changed before `pop`, and from there on nothing of Python's runs.
define ptr @take(ptr %self, ptr %arguments, i64 %count) {{
  %time = alloca [2 x i64]
  %depth = alloca [2 x ptr]
  %none = load ptr, ptr {none}
  %is_five = icmp eq i64 %count, 5
  br i1 %is_five, label %arguments_there, label %refuse
arguments_there:
  %strides_at = getelementptr ptr, ptr %arguments, i64 2
  %strides = load ptr, ptr %strides_at
  %no_strides = icmp eq ptr %strides, %none
  %order_at = getelementptr ptr, ptr %arguments, i64 3
  %order = load ptr, ptr %order_at
  %order_c = load ptr, ptr {order_c}
  %is_order_c = icmp eq ptr %order, %order_c
  %stream_at = getelementptr ptr, ptr %arguments, i64 4
  %stream = load ptr, ptr %stream_at
  %stream_0 = load ptr, ptr {stream_0}
  %is_stream_0 = icmp eq ptr %stream, %stream_0
  %usual_layout = and i1 %no_strides, %is_order_c
  %usual = and i1 %usual_layout, %is_stream_0
  br i1 %usual, label %look, label %refuse
look:
  %shape = load ptr, ptr %arguments
  %dtype_at = getelementptr ptr, ptr %arguments, i64 1
  %dtype = load ptr, ptr %dtype_at
  %device = call ptr @current_device()
  %plan = call ptr @find(ptr %shape, ptr %dtype, ptr %device)
  %no_plan = icmp eq ptr %plan, null
  br i1 %no_plan, label %refuse, label %who
who:                                     ; sys._getframe(1): a reference to the caller's frame
  call void @keep(ptr %plan)
  %getframe = load ptr, ptr {getframe}
  %one = load ptr, ptr {one}
  %depth_at = getelementptr ptr, ptr %depth, i64 1
  store ptr %one, ptr %depth_at
  %frame = call ptr @PyObject_Vectorcall(ptr %getframe, ptr %depth_at, i64 {one_argument}, ptr null)
  %no_frame = icmp eq ptr %frame, null
  br i1 %no_frame, label %frameless, label %framed
frameless:
  call void @PyErr_Clear()
  br label %undo_plan
framed:
  %code = call ptr @PyFrame_GetCode(ptr %frame)
  %lasti = call i32 @PyFrame_GetLasti(ptr %frame)
  call void @drop(ptr %frame)
  %is_known = call i1 @is_known(ptr %code)
  br i1 %is_known, label %make, label %undo_code
make:
  %array_type = load ptr, ptr {array_type}
  %array = call ptr @PyType_GenericAlloc(ptr %array_type, i64 0)
  %no_array = icmp eq ptr %array, null
  br i1 %no_array, label %fail_code, label %make_block
make_block:
  %block = call ptr @shell()
  %no_block = icmp eq ptr %block, null
  br i1 %no_block, label %fail_array, label %check
check:
  %end = load i64, ptr {end_for_take}
  %all_plain = call i1 @is_plain(i64 %end)
  %nothing_aside = call i1 @is_nothing_aside()
  %is_pooled = call i1 @is_pooled()
  %not_special = and i1 %all_plain, %nothing_aside
  %plain = and i1 %not_special, %is_pooled
  br i1 %plain, label %pop, label %undo_block
pop:
  %cells_at = getelementptr i8, ptr %plan, i64 {p_cells}
  %cells = load ptr, ptr %cells_at
  %size_at = getelementptr i8, ptr %cells, i64 {size_at}
  %size = load i64, ptr %size_at
  %empty = icmp eq i64 %size, 0
  br i1 %empty, label %undo_block, label %fill
fill:
  %fewer = sub i64 %size, 1
  store i64 %fewer, ptr %size_at
  %items_at = getelementptr i8, ptr %cells, i64 {list_items}
  %items = load ptr, ptr %items_at
  %cell_at = getelementptr ptr, ptr %items, i64 %fewer
  %cell = load ptr, ptr %cell_at
  call void @keep(ptr %cell)             ; the list's reference is the block's, this the array's
{fill_block}
{fill_array}
  %plan_at = getelementptr i8, ptr %block, i64 {b_plan}
  store ptr %plan, ptr %plan_at
  %its_code_at = getelementptr i8, ptr %block, i64 {b_code}
  store ptr %code, ptr %its_code_at
  %lasti_at = getelementptr i8, ptr %block, i64 {b_lasti}
  %lasti_wide = sext i32 %lasti to i64
  store i64 %lasti_wide, ptr %lasti_at
  %generation = load i64, ptr {generation}
  %new = add i64 %generation, 1
  store i64 %new, ptr {generation}
  %generation_at = getelementptr i8, ptr %block, i64 {b_generation}
  store i64 %new, ptr %generation_at
  %status = call i32 @clock_gettime(i32 {clock}, ptr %time)
  %seconds = load i64, ptr %time
  %rest_at = getelementptr i64, ptr %time, i64 1
  %rest = load i64, ptr %rest_at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  %born_at = getelementptr i8, ptr %block, i64 {b_born}
  store i64 %now, ptr %born_at
  call void @link(ptr %block)
  %numbers_at = getelementptr i8, ptr %plan, i64 {p_numbers}
  %numbers = load ptr, ptr %numbers_at
  %nbytes_at = getelementptr i8, ptr %numbers, i64 {n_nbytes}
  %nbytes = load i64, ptr %nbytes_at
{count_up}
  ret ptr %array
undo_block:
  call void @shell_back(ptr %block)
  call void @drop(ptr %array)
  br label %undo_code
undo_code:
  call void @drop(ptr %code)
  br label %undo_plan
undo_plan:
  call void @drop(ptr %plan)
  br label %refuse
refuse:
  call void @keep(ptr %none)
  ret ptr %none
fail_array:                              ; no memory; the exception is set
  call void @drop(ptr %array)
  br label %fail_code
fail_code:
  call void @drop(ptr %code)
  call void @drop(ptr %plan)
  ret ptr null
}}
"""


def fill_block(places: dict[str, int], items: dict[str, int]) -> str:
    """Store in the slots of `%block` what `%plan` says; None for `host_ptr` stands for `%cell`."""
    text = []
    for number, (name, place) in enumerate(places.items()):
        text.append(f"  %b_at{number} = getelementptr i8, ptr %block, i64 {place}\n")
        if name == "device_ptr":
            text.append(f"  store ptr %cell, ptr %b_at{number}\n")
            continue
        text.append(f"""\
  %b_item_at{number} = getelementptr i8, ptr %plan, i64 {items[name]}
  %b_item{number} = load ptr, ptr %b_item_at{number}
""")
        value = f"%b_item{number}"
        if name == "host_ptr":
            text.append(f"""\
  %is_cell = icmp eq ptr {value}, %none
  %host_ptr = select i1 %is_cell, ptr %cell, ptr {value}
""")
            value = "%host_ptr"
        text.append(f"  call void @keep(ptr {value})\n  store ptr {value}, ptr %b_at{number}\n")
    return "".join(text)


def fill_array(places: dict[str, int], items: dict[str, int]) -> str:
    """Store in the slots of `%array` what `%plan` says, `%block` and `%cell`."""
    ours = {"block": "%block", "device_pointer": "%cell"}
    text = []
    for number, (name, place) in enumerate(places.items()):
        text.append(f"  %a_at{number} = getelementptr i8, ptr %array, i64 {place}\n")
        if name in ours:
            text.append(f"  store ptr {ours[name]}, ptr %a_at{number}\n")
        else:
            text.append(f"""\
  %a_item_at{number} = getelementptr i8, ptr %plan, i64 {items[name]}
  %a_item{number} = load ptr, ptr %a_item_at{number}
  call void @keep(ptr %a_item{number})
  store ptr %a_item{number}, ptr %a_at{number}
""")
    return "".join(text)


def count_up(counters: list[int]) -> str:
    """Add `%nbytes` to the counters whose addresses are at these places of `%numbers`."""
    return "".join(
        f"""\
  %counter_at{level} = getelementptr i8, ptr %numbers, i64 {place}
  %cells{level} = load ptr, ptr %counter_at{level}
  %in_use_at{level} = getelementptr i64, ptr %cells{level}, i64 {IN_USE}
  %in_use{level} = load i64, ptr %in_use_at{level}
  %sum{level} = add i64 %in_use{level}, %nbytes
  store i64 %sum{level}, ptr %in_use_at{level}
  %peak_at{level} = getelementptr i64, ptr %cells{level}, i64 {PEAK}
  %peak{level} = load i64, ptr %peak_at{level}
  %most{level} = call i64 @llvm.smax.i64(i64 %peak{level}, i64 %sum{level})
  store i64 %most{level}, ptr %peak_at{level}
  %allocations_at{level} = getelementptr i64, ptr %cells{level}, i64 {ALLOCATIONS}
  %allocations{level} = load i64, ptr %allocations_at{level}
  %one_more{level} = add i64 %allocations{level}, 1
  store i64 %one_more{level}, ptr %allocations_at{level}
"""
        for level, place in enumerate(counters)
    )
