"""Writes how coroutines pass the barriers of their wavefronts.

Between two barriers of the block each wavefront is run until it can do no more by itself: as long
as all of its threads that have not ended wait for one another, they are resumed. So a wavefront
waits at more barriers than another, or at none. What is left is at a barrier of the block, has
ended, or is in a wavefront whose threads wait for different things, which can never go on.
"""

from haulage.targets.cpu import WAVE_SIZE

# Added to the fault number in the state of a thread that waits for its wavefront.
MARK = 1 << 30

FIRST, LAST = "wave", "wave.settled"

# Behind the count of a block's threads: may all of them go on? At which place did they wait?
JUDGE = [
    f"  %none.for.wave = icmp slt i32 %waiting.now, {MARK}",
    "  %all.here = and i1 %none.ended, %none.for.wave",
    f"  %waiting.place = and i32 %waiting.now, {MARK - 1}",
]


def settle(threads: int, sources: tuple[str, ...]) -> list[str]:
    """Lines from the label `FIRST`, where control comes from `sources`, to the end of `LAST`,
    from where it goes to `count`; `%states` and `%handles` hold those of the block's threads."""
    first = ", ".join(f"[ 0, %{source} ]" for source in sources)
    return [
        f"{FIRST}:",
        f"  %wave.low = phi i64 {first}, [ %wave.high, %{LAST} ]",
        f"  %wave.whole = add nuw nsw i64 %wave.low, {WAVE_SIZE}",
        f"  %wave.partial = icmp ugt i64 %wave.whole, {threads}",
        f"  %wave.high = select i1 %wave.partial, i64 {threads}, i64 %wave.whole",
        "  br label %wave.look",
        # Does a thread of it wait for the wavefront, and does one wait for the block?
        "wave.look:",
        f"  %l = phi i64 [ %wave.low, %{FIRST} ], [ %wave.low, %wave.resumed ], "
        "[ %l.after, %wave.look ]",
        f"  %for.wave = phi i1 [ false, %{FIRST} ], [ false, %wave.resumed ], "
        "[ %for.wave.now, %wave.look ]",
        f"  %for.block = phi i1 [ false, %{FIRST} ], [ false, %wave.resumed ], "
        "[ %for.block.now, %wave.look ]",
        "  %l.at = getelementptr inbounds i32, ptr %states, i64 %l",
        "  %l.state = load i32, ptr %l.at",
        f"  %l.for.wave = icmp sge i32 %l.state, {MARK}",
        "  %l.waits = icmp sgt i32 %l.state, 0",
        "  %l.for.other = xor i1 %l.for.wave, true",
        "  %l.for.block = and i1 %l.waits, %l.for.other",
        "  %for.wave.now = or i1 %for.wave, %l.for.wave",
        "  %for.block.now = or i1 %for.block, %l.for.block",
        "  %l.after = add nuw nsw i64 %l, 1",
        "  %l.more = icmp ult i64 %l.after, %wave.high",
        "  br i1 %l.more, label %wave.look, label %wave.looked",
        "wave.looked:",
        "  %for.wave.only = xor i1 %for.block.now, true",
        "  %wave.can = and i1 %for.wave.now, %for.wave.only",
        f"  br i1 %wave.can, label %wave.resume, label %{LAST}",
        "wave.resume:",
        "  %s = phi i64 [ %wave.low, %wave.looked ], [ %s.after, %wave.resumed.one ]",
        "  %s.at = getelementptr inbounds i32, ptr %states, i64 %s",
        "  %s.state = load i32, ptr %s.at",
        f"  %s.waits = icmp sge i32 %s.state, {MARK}",
        "  br i1 %s.waits, label %wave.resume.one, label %wave.resumed.one",
        "wave.resume.one:",
        "  %s.handle.at = getelementptr inbounds ptr, ptr %handles, i64 %s",
        "  %s.handle = load ptr, ptr %s.handle.at",
        "  call void @llvm.coro.resume(ptr %s.handle)",
        "  br label %wave.resumed.one",
        "wave.resumed.one:",
        "  %s.after = add nuw nsw i64 %s, 1",
        "  %s.more = icmp ult i64 %s.after, %wave.high",
        "  br i1 %s.more, label %wave.resume, label %wave.resumed",
        "wave.resumed:",
        "  br label %wave.look",
        f"{LAST}:",
        f"  %wave.more = icmp ult i64 %wave.high, {threads}",
        f"  br i1 %wave.more, label %{FIRST}, label %count",
    ]
