"""Running a grid whose blocks wait for one another, in the worker threads' code, as LLVM IR.

    i64  phases(entry, launch, slot, outcomes, blocks, by all)  run a grid from barrier to barrier

If `by all` is not 0, all threads run it, whatever it took last, as blocks may wait for one another
in between as well. `launch` and `outcomes` are as `compiler/simt/grids.py` says. It goes on while
all blocks wait or some gave way to others, and leaves the mode of `launch` as it was for the last
phase. As `run` it returns after the budget, between two phases or with the job in `slot`, so that
the caller can look after signals.
"""

from haulage.backends.cpu_driver.grid_modes import (
    GAVE_WAY,
    GO_ON,
    MODE_AT,
    MODES,
    RESUME,
    WAITS,
)

FIGURES = {
    "mode_at": MODE_AT,
    "no_mode": ~MODES,
    "resume": RESUME,
    "go_on": GO_ON,
    "waits": WAITS,
    "gave_way": GAVE_WAY,
}

TEXT = """

define i64 @phases(ptr %entry, ptr %launch, ptr %slot, ptr %outcomes, i64 %blocks,
                   i32 %by_all) {{
start:
  %record = call ptr @begin_run(ptr %slot)
  %all_threads = icmp ne i32 %by_all, 0
  %mode_at = getelementptr i8, ptr %launch, i64 {mode_at}
  %begun = call i64 @now(i32 {monotonic})
  %deadline = add i64 %begun, {budget}
  br label %phase
phase:
  %fault = call i64 @run_grid(ptr %entry, ptr %launch, ptr %slot, i1 %all_threads)
  %job = load ptr, ptr %slot
  %finished = icmp eq ptr %job, null
  %good = icmp eq i64 %fault, 0
  %goes_on = and i1 %finished, %good
  br i1 %goes_on, label %look, label %done
look:
  %i = phi i64 [ 0, %phase ], [ %i1, %look ]
  %all = phi i1 [ true, %phase ], [ %all1, %look ]
  %some = phi i1 [ false, %phase ], [ %some1, %look ]
  %outcome_at = getelementptr i32, ptr %outcomes, i64 %i
  %outcome = load i32, ptr %outcome_at
  %waits = icmp uge i32 %outcome, {waits}
  %all1 = and i1 %all, %waits
  %gave_way = icmp uge i32 %outcome, {gave_way}
  %some1 = or i1 %some, %gave_way
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %blocks
  br i1 %more, label %look, label %looked
looked:
  %time = call i64 @now(i32 {monotonic})
  %early = icmp ult i64 %time, %deadline
  %go_on = or i1 %all1, %some1
  %again = and i1 %go_on, %early
  %mode = select i1 %some1, i32 {go_on}, i32 {resume}
  br i1 %again, label %resume, label %done
resume:
  %word = load i32, ptr %mode_at
  %no_mode = and i32 %word, {no_mode}
  %new_word = or i32 %no_mode, %mode
  store i32 %new_word, ptr %mode_at
  br label %phase
done:
  %told = call i64 @end_run(ptr %record, ptr %slot, i64 %fault)
  ret i64 %told
}}
"""
