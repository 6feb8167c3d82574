"""Writes how coroutines pass the barriers of their wavefronts and warps.

Between two barriers of the block each wavefront of 64 threads, which may be two warps, is run until
it can do no more by itself. A thread waits for the lanes of a mask: once all of these that have not
ended wait for the same mask, they are resumed. So a wavefront waits at more barriers than another,
or at none. When no mask is complete, the threads that wait without one (mask 0: for whoever comes
to this place) have met all that can come, and those at the first such place, in the order of
`barriers.in_order`, go on. What is left in the end is at a barrier of the block, has ended, or
waits for threads that never come.
"""

from collections.abc import Sequence

from haulage.compiler.numbers import BITS
from haulage.targets.cpu import WAVE_SIZE

# What a thread waits for: its mask, and the rank of the place that it waits at.
WAIT = "{ i64, i64 }"
# A rank is that of the place's block, times this, and the number of its barrier there.
MOST_IN_BLOCK = 1 << 20

# Added to the fault number in the state of a thread that waits for its wavefront or for lanes. From
# `BEYOND` on threads wait for something else.
MARK = 1 << 30
BEYOND = MARK + (1 << BITS)

FIRST, LAST = "wave", "wave.settled"

# Behind the count of a block's threads: may all of them go on? At which place did they wait?
JUDGE = [
    f"  %none.for.wave = icmp slt i32 %waiting.now, {MARK}",
    "  %all.here = and i1 %none.missed, %none.for.wave",
    f"  %waiting.place = and i32 %waiting.now, {MARK - 1}",
]


def settle(threads: int, sources: Sequence[str], then: str) -> list[str]:
    """Lines from the label `FIRST`, where control comes from `sources`, to the end of `LAST`,
    from where it goes to `then`; `%states`, `%masks` and `%handles` hold those of the threads."""
    first = ", ".join(f"[ 0, %{source} ]" for source in sources)
    return [
        f"{FIRST}:",
        f"  %wave.low = phi i64 {first}, [ %wave.high, %{LAST} ]",
        f"  %wave.whole = add nuw nsw i64 %wave.low, {WAVE_SIZE}",
        f"  %wave.partial = icmp ugt i64 %wave.whole, {threads}",
        f"  %wave.high = select i1 %wave.partial, i64 {threads}, i64 %wave.whole",
        "  %wave.threads = sub nuw nsw i64 %wave.high, %wave.low",
        "  %wave.states = getelementptr inbounds i32, ptr %states, i64 %wave.low",
        f"  %wave.masks = getelementptr inbounds {WAIT}, ptr %masks, i64 %wave.low",
        "  %wave.handles = getelementptr inbounds ptr, ptr %handles, i64 %wave.low",
        "  call void @haulage.wave(ptr %wave.states, ptr %wave.masks, ptr %wave.handles, "
        "i64 %wave.threads)",
        f"  br label %{LAST}",
        f"{LAST}:",
        f"  %wave.more = icmp ult i64 %wave.high, {threads}",
        f"  br i1 %wave.more, label %{FIRST}, label %{then}",
    ]


# Runs one wavefront until it can do no more. Sets of its threads are ints with a bit for each.
FUNCTION = f"""
declare i64 @llvm.cttz.i64(i64, i1)

define internal void @haulage.wave(ptr %states, ptr %masks, ptr %handles, i64 %threads) {{
start:
  br label %look
look:
  %l = phi i64 [ 0, %start ], [ 0, %resumed ], [ %l.after, %look ]
  %live = phi i64 [ 0, %start ], [ 0, %resumed ], [ %live.now, %look ]
  %waiting = phi i64 [ 0, %start ], [ 0, %resumed ], [ %waiting.now, %look ]
  %l.at = getelementptr inbounds i32, ptr %states, i64 %l
  %l.state = load i32, ptr %l.at
  %l.live = icmp sgt i32 %l.state, 0
  %l.above = sub i32 %l.state, {MARK}
  %l.waits = icmp ult i32 %l.above, {BEYOND - MARK}
  %l.live.wide = zext i1 %l.live to i64
  %l.waits.wide = zext i1 %l.waits to i64
  %l.live.bit = shl nuw i64 %l.live.wide, %l
  %l.waits.bit = shl nuw i64 %l.waits.wide, %l
  %live.now = or i64 %live, %l.live.bit
  %waiting.now = or i64 %waiting, %l.waits.bit
  %l.after = add nuw nsw i64 %l, 1
  %l.more = icmp ult i64 %l.after, %threads
  br i1 %l.more, label %look, label %looked
looked:
  %none = icmp eq i64 %waiting.now, 0
  br i1 %none, label %done, label %group

; Threads that wait for one mask are a group; complete ones go on.
group:
  %left = phi i64 [ %waiting.now, %looked ], [ %left.after, %grouped ]
  %go = phi i64 [ 0, %looked ], [ %go.after, %grouped ]
  %g = call i64 @llvm.cttz.i64(i64 %left, i1 true)
  %g.at = getelementptr inbounds {WAIT}, ptr %masks, i64 %g
  %mask = load i64, ptr %g.at
  br label %compare
compare:
  %c = phi i64 [ 0, %group ], [ %c.after, %compare ]
  %alike = phi i64 [ 0, %group ], [ %alike.now, %compare ]
  %c.at = getelementptr inbounds {WAIT}, ptr %masks, i64 %c
  %c.mask = load i64, ptr %c.at
  %c.same = icmp eq i64 %c.mask, %mask
  %c.same.wide = zext i1 %c.same to i64
  %c.bit = shl nuw i64 %c.same.wide, %c
  %alike.now = or i64 %alike, %c.bit
  %c.after = add nuw nsw i64 %c, 1
  %c.more = icmp ult i64 %c.after, %threads
  br i1 %c.more, label %compare, label %grouped
grouped:
  %same = and i64 %alike.now, %left
  %wanted = and i64 %mask, %live.now
  %not.same = xor i64 %same, -1
  %missing = and i64 %wanted, %not.same
  %none.missing = icmp eq i64 %missing, 0
  %has.mask = icmp ne i64 %mask, 0
  %complete = and i1 %has.mask, %none.missing
  %goes = select i1 %complete, i64 %same, i64 0
  %go.after = or i64 %go, %goes
  %left.after = and i64 %left, %not.same
  %left.none = icmp eq i64 %left.after, 0
  br i1 %left.none, label %chosen, label %group
chosen:
  %stuck = icmp eq i64 %go.after, 0
  br i1 %stuck, label %meet, label %resume

; No mask is complete: those at the first place that has none.
meet:
  %m = phi i64 [ 0, %chosen ], [ %m.after, %meet ]
  %first = phi i64 [ -1, %chosen ], [ %first.now, %meet ]
  %met = phi i64 [ 0, %chosen ], [ %met.now, %meet ]
  %m.at = getelementptr inbounds i32, ptr %states, i64 %m
  %m.state = load i32, ptr %m.at
  %m.mask.at = getelementptr inbounds {WAIT}, ptr %masks, i64 %m
  %m.mask = load i64, ptr %m.mask.at
  %m.rank.at = getelementptr inbounds {WAIT}, ptr %masks, i64 %m, i32 1
  %m.rank = load i64, ptr %m.rank.at
  %m.above = sub i32 %m.state, {MARK}
  %m.waits = icmp ult i32 %m.above, {BEYOND - MARK}
  %m.no.mask = icmp eq i64 %m.mask, 0
  %m.meets = and i1 %m.waits, %m.no.mask
  %m.place = select i1 %m.meets, i64 %m.rank, i64 -1
  %m.before = icmp ult i64 %m.place, %first
  %m.kept = select i1 %m.before, i64 0, i64 %met
  %first.now = select i1 %m.before, i64 %m.place, i64 %first
  %m.there = icmp eq i64 %m.place, %first.now
  %m.joins = and i1 %m.meets, %m.there
  %m.wide = zext i1 %m.joins to i64
  %m.bit = shl nuw i64 %m.wide, %m
  %met.now = or i64 %m.kept, %m.bit
  %m.after = add nuw nsw i64 %m, 1
  %m.more = icmp ult i64 %m.after, %threads
  br i1 %m.more, label %meet, label %have.met
have.met:
  %met.none = icmp eq i64 %met.now, 0
  br i1 %met.none, label %done, label %resume

resume:
  %rest = phi i64 [ %go.after, %chosen ], [ %met.now, %have.met ], [ %rest.after, %resume ]
  %r = call i64 @llvm.cttz.i64(i64 %rest, i1 true)
  %r.at = getelementptr inbounds ptr, ptr %handles, i64 %r
  %r.handle = load ptr, ptr %r.at
  call void @llvm.coro.resume(ptr %r.handle)
  %rest.less = sub i64 %rest, 1
  %rest.after = and i64 %rest, %rest.less
  %rest.more = icmp ne i64 %rest.after, 0
  br i1 %rest.more, label %resume, label %resumed
resumed:
  br label %look
done:
  ret void
}}
"""
