"""Running grids one after another, in the worker threads' code, as LLVM IR.

    void  run_each(grids, count, state, slot)  run grids until one fails, or for a while

Each of the grids is three i64: the entry, the launch, and whether all threads run it, whatever it
took last. `state` is two: the number of the next grid, and what `run` returns for the one before
it. It returns after the last grid, after one that failed, and as `run` does after the budget,
between two grids or with the job in `slot`.
"""

TEXT = """

define void @run_each(ptr %grids, i64 %count, ptr %state, ptr %slot) {{
start:
  %record = call ptr @begin_run(ptr %slot)
  %fault_at = getelementptr i64, ptr %state, i64 1
  %first = load i64, ptr %state
  %begun = call i64 @now(i32 {monotonic})
  %deadline = add i64 %begun, {budget}
  br label %grid
grid:
  %i = phi i64 [ %first, %start ], [ %next, %grid ]
  %at = getelementptr [3 x i64], ptr %grids, i64 %i
  %entry = load ptr, ptr %at
  %launch_at = getelementptr i64, ptr %at, i64 1
  %launch = load ptr, ptr %launch_at
  %all_at = getelementptr i64, ptr %at, i64 2
  %all = load i64, ptr %all_at
  %by_all = icmp ne i64 %all, 0
  %next = add i64 %i, 1
  store i64 %next, ptr %state
  %fault = call i64 @run_grid(ptr %entry, ptr %launch, ptr %slot, i1 %by_all)
  %job = load ptr, ptr %slot
  %finished = icmp eq ptr %job, null
  %good = icmp eq i64 %fault, 0
  %time = call i64 @now(i32 {monotonic})
  %early = icmp ult i64 %time, %deadline
  %more = icmp ult i64 %next, %count
  %done_well = and i1 %finished, %good
  %goes_on = and i1 %early, %more
  %again = and i1 %done_well, %goes_on
  br i1 %again, label %grid, label %end
end:
  %told = call i64 @end_run(ptr %record, ptr %slot, i64 %fault)
  store i64 %told, ptr %fault_at
  ret void
}}
"""
