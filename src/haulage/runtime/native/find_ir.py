"""The emitted code that finds the plan of a shape and dtype, and the device that is meant."""

TEXT = """
; ---- the plan ------------------------------------------------------------------------------------

; The value of an exact int, if 64 bits hold it.
define internal i1 @number(ptr %object, ptr %into) {{
  %overflow = alloca i32
  %type_at = getelementptr i8, ptr %object, i64 {type_at}
  %type = load ptr, ptr %type_at
  %is_int = icmp eq ptr %type, @PyLong_Type
  br i1 %is_int, label %int, label %no
int:
  %value = call i64 @PyLong_AsLongAndOverflow(ptr %object, ptr %overflow)
  store i64 %value, ptr %into
  %over = load i32, ptr %overflow
  %fits = icmp eq i32 %over, 0
  ret i1 %fits
no:
  ret i1 false
}}

; null: there is none, or the shape is neither an exact int nor an exact tuple of them
define internal ptr @find(ptr %shape, ptr %dtype, ptr %device) {{
entry:
  %axes = alloca [{most_axes} x i64]
  %type_at = getelementptr i8, ptr %shape, i64 {type_at}
  %type = load ptr, ptr %type_at
  %is_tuple = icmp eq ptr %type, @PyTuple_Type
  br i1 %is_tuple, label %tuple, label %single
single:
  %good = call i1 @number(ptr %shape, ptr %axes)
  br i1 %good, label %look, label %none
tuple:
  %size_at = getelementptr i8, ptr %shape, i64 {size_at}
  %size = load i64, ptr %size_at
  %many = icmp ugt i64 %size, {most_axes}
  br i1 %many, label %none, label %next
next:
  %i = phi i64 [ 0, %tuple ], [ %i_after, %one ]
  %all = icmp eq i64 %i, %size
  br i1 %all, label %look, label %item
item:
  %items = getelementptr i8, ptr %shape, i64 {tuple_items}
  %item_at = getelementptr ptr, ptr %items, i64 %i
  %object = load ptr, ptr %item_at
  %axis_at = getelementptr i64, ptr %axes, i64 %i
  %fits = call i1 @number(ptr %object, ptr %axis_at)
  br i1 %fits, label %one, label %none
one:
  %i_after = add i64 %i, 1
  br label %next
look:                                    ; as fields.slot_of
  %ndim = phi i64 [ 1, %single ], [ %size, %next ]
  %dtype_number = ptrtoint ptr %dtype to i64
  %start = lshr i64 %dtype_number, 4
  br label %mix
mix:
  %j = phi i64 [ 0, %look ], [ %j_after, %mix_in ]
  %mixed = phi i64 [ %start, %look ], [ %mixed_after, %mix_in ]
  %enough = icmp eq i64 %j, %ndim
  br i1 %enough, label %choose, label %mix_in
mix_in:
  %mix_at = getelementptr i64, ptr %axes, i64 %j
  %axis = load i64, ptr %mix_at
  %times = mul i64 %mixed, 31
  %mixed_after = add i64 %times, %axis
  %j_after = add i64 %j, 1
  br label %mix
choose:
  %high = lshr i64 %mixed, 8
  %first = xor i64 %mixed, %high
  br label %way
way:
  %w = phi i64 [ 0, %choose ], [ %w_after, %other ]
  %no_more = icmp eq i64 %w, {ways}
  br i1 %no_more, label %none, label %try
try:
  %moved = add i64 %first, %w
  %slot = and i64 %moved, {last_plan}
  %plan_at = getelementptr ptr, ptr {plans_at}, i64 %slot
  %plan = load ptr, ptr %plan_at
  %empty = icmp eq ptr %plan, null
  br i1 %empty, label %other, label %compare
compare:
  %its_dtype_at = getelementptr i8, ptr %plan, i64 {p_dtype}
  %its_dtype = load ptr, ptr %its_dtype_at
  %same_dtype = icmp eq ptr %its_dtype, %dtype
  br i1 %same_dtype, label %compare_device, label %other
compare_device:
  %its_device_at = getelementptr i8, ptr %plan, i64 {p_device}
  %its_device = load ptr, ptr %its_device_at
  %same_device = icmp eq ptr %its_device, %device
  br i1 %same_device, label %compare_ndim, label %other
compare_ndim:
  %numbers_at = getelementptr i8, ptr %plan, i64 {p_numbers}
  %numbers = load ptr, ptr %numbers_at
  %its_ndim_at = getelementptr i8, ptr %numbers, i64 {n_ndim}
  %its_ndim = load i64, ptr %its_ndim_at
  %same_ndim = icmp eq i64 %its_ndim, %ndim
  br i1 %same_ndim, label %compare_next, label %other
compare_next:
  %k = phi i64 [ 0, %compare_ndim ], [ %k_after, %same_axis ]
  %found = icmp eq i64 %k, %ndim
  br i1 %found, label %yes, label %compare_axis
compare_axis:
  %its_axes = getelementptr i8, ptr %numbers, i64 {n_axis0}
  %its_axis_at = getelementptr i64, ptr %its_axes, i64 %k
  %its_axis = load i64, ptr %its_axis_at
  %given_at = getelementptr i64, ptr %axes, i64 %k
  %given = load i64, ptr %given_at
  %is_same_axis = icmp eq i64 %its_axis, %given
  br i1 %is_same_axis, label %same_axis, label %other
same_axis:
  %k_after = add i64 %k, 1
  br label %compare_next
other:
  %w_after = add i64 %w, 1
  br label %way
yes:
  ret ptr %plan
none:
  ret ptr null
}}

; Whether a code object is known as the program's.
define internal i1 @is_known(ptr %code) {{
entry:
  %number = ptrtoint ptr %code to i64
  %first = lshr i64 %number, 6           ; as fields.place_of_code
  br label %way
way:
  %w = phi i64 [ 0, %entry ], [ %w_after, %other ]
  %no_more = icmp eq i64 %w, {ways}
  br i1 %no_more, label %no, label %try
try:
  %moved = add i64 %first, %w
  %place = and i64 %moved, {last_code}
  %at = getelementptr ptr, ptr {codes_at}, i64 %place
  %known = load ptr, ptr %at
  %is_same = icmp eq ptr %known, %code
  br i1 %is_same, label %yes, label %other
other:
  %w_after = add i64 %w, 1
  br label %way
yes:
  ret i1 true
no:
  ret i1 false
}}

; ---- the device ----------------------------------------------------------------------------------

; The value of a context variable, which the context holds; null: it cannot be had.
define internal ptr @value_of(ptr %variable) {{
  %value_at = alloca ptr
  store ptr null, ptr %value_at
  %none = load ptr, ptr {none}
  %status = call i32 @PyContextVar_Get(ptr %variable, ptr %none, ptr %value_at)
  %value = load ptr, ptr %value_at
  %bad = icmp eq ptr %value, null
  br i1 %bad, label %failed, label %good
failed:
  call void @PyErr_Clear()
  ret ptr null
good:
  call void @drop(ptr %value)
  ret ptr %value
}}

; Whether memory comes from pools, by the variable that chooses.
define internal i1 @is_pooled() {{
  %environment = load ptr, ptr {environment}
  %variable = load ptr, ptr {memory_variable}
  %value = call ptr @PyDict_GetItem(ptr %environment, ptr %variable)
  %known = load ptr, ptr {memory_value}
  %is_known = icmp eq ptr %value, %known
  ret i1 %is_known
}}

; As runtime.devices.registry.current_device; null: that has to find out.
define internal ptr @current_device() {{
  %none = load ptr, ptr {none}
  %in_context = load ptr, ptr {in_context}
  %entered = call ptr @value_of(ptr %in_context)
  %not_entered = icmp eq ptr %entered, %none
  br i1 %not_entered, label %of_thread, label %give_entered
give_entered:
  ret ptr %entered
of_thread:
  %selected_variable = load ptr, ptr {selected}
  %selected = call ptr @value_of(ptr %selected_variable)
  %not_selected = icmp eq ptr %selected, %none
  br i1 %not_selected, label %of_process, label %is_selected
is_selected:
  %failed = icmp eq ptr %selected, null
  br i1 %failed, label %unknown, label %compare
compare:
  %since_at = getelementptr i8, ptr %selected, i64 {item_1}
  %since = load ptr, ptr %since_at
  %choice = call ptr @look(ptr {process_choice_at})
  %is_later = icmp eq ptr %since, %choice
  br i1 %is_later, label %give_selected, label %of_process
give_selected:
  %selected_at = getelementptr i8, ptr %selected, i64 {item_0}
  %its_device = load ptr, ptr %selected_at
  ret ptr %its_device
of_process:
  %used = call ptr @look(ptr {of_process_at})
  %not_used = icmp eq ptr %used, %none
  br i1 %not_used, label %of_environment, label %give_used
give_used:
  ret ptr %used
of_environment:
  %environment = load ptr, ptr {environment}
  %variable = load ptr, ptr {device_variable}
  %value = call ptr @PyDict_GetItem(ptr %environment, ptr %variable)
  %known = load ptr, ptr {device_value}
  %is_known = icmp eq ptr %value, %known
  br i1 %is_known, label %give_known, label %unknown
give_known:
  %device = load ptr, ptr {device_of_value}
  ret ptr %device
unknown:
  ret ptr null
}}
"""
