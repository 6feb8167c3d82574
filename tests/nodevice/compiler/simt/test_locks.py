"""Where a thread may hold a lock, and which loops need the threads of a block to run by turns."""

import pytest

import haulage
from haulage import cuda
from haulage.compiler.simt.analysis import locks
from haulage.compiler.simt.analysis.manager import Analyses
from nodevice.compiler.simt.llvm_models import model_of

LOCK = """
define i32 @kernel(i32 %threadIdx.x, ptr %lock, ptr %data, i64 %n) {
entry:
  br label %wait
wait:
  %pair = cmpxchg ptr %lock, i32 0, i32 1 monotonic monotonic
  %got = extractvalue { i32, i1 } %pair, 1
  br i1 %got, label %inside, label %again
again:
  call void @haulage.yield()
  br label %wait
inside:
  %value = load i32, ptr %data
  %more = add i32 %value, 1
  store i32 %more, ptr %data
  br label %free
free:
  FENCE
  RELEASE
  br label %behind
behind:
  ret i32 0
}
declare void @haulage.yield()
declare void @haulage.barrier(i32)
"""
STORE = "store i32 0, ptr %lock"
BARRIER = "call void @haulage.barrier(i32 1)"


def _lock(release=STORE, fence="fence seq_cst"):
    return model_of(LOCK.replace("FENCE", fence).replace("RELEASE", release))


@pytest.mark.parametrize(
    "release",
    [
        "%old = atomicrmw xchg ptr %lock, i32 0 monotonic",
        "store i32 0, ptr %lock",
        "store volatile i32 0, ptr %lock",
    ],
)
def test_a_lock_is_held_from_the_wait_to_the_write_that_frees_it(release):
    function = _lock(release)
    assert locks.held(Analyses(function)) == {"%inside", "%free"}
    assert not locks.are_contended(Analyses(function), (64, 1, 1))


def test_behind_a_barrier_of_the_block_nothing_is_held():
    assert locks.held(Analyses(_lock(fence=BARRIER))) == frozenset()


@pytest.mark.parametrize(
    ("release", "fence"),
    [
        # Freed with another number than a thread waits for, at another place, or by others.
        ("store i32 2, ptr %lock", "fence seq_cst"),
        ("%old = atomicrmw sub ptr %lock, i32 1 monotonic", "fence seq_cst"),
        (
            "%next = getelementptr i32, ptr %lock, i64 1\n  store i32 0, ptr %next",
            "fence seq_cst",
        ),
        ("%seen = load volatile i32, ptr %lock", "fence seq_cst"),
        (STORE, BARRIER),
    ],
)
def test_what_the_thread_does_not_free_itself_is_waited_for_by_turns(release, fence):
    assert locks.are_contended(Analyses(_lock(release, fence)), (64, 1, 1))


def test_a_lock_that_others_free_is_waited_for_by_turns():
    text = LOCK.replace("FENCE", "fence seq_cst").replace("RELEASE", STORE)
    first = "%one = icmp eq i32 %threadIdx.x, 1\n  br i1 %one, label %free, label %wait"
    text = text.replace("entry:\n  br label %wait", f"entry:\n  {first}")
    assert locks.are_contended(Analyses(model_of(text)), (64, 1, 1))


def test_a_number_that_is_changed_by_compare_and_swap_is_no_lock():
    function = model_of("""
define i32 @kernel(i32 %threadIdx.x, ptr %most, i32 %own) {
entry:
  %first = load atomic i32, ptr %most monotonic, align 4
  br label %look
look:
  %seen = phi i32 [ %first, %entry ], [ %found, %write ]
  %less = icmp slt i32 %seen, %own
  br i1 %less, label %write, label %end
write:
  %pair = cmpxchg ptr %most, i32 %seen, i32 %own monotonic monotonic
  %found = extractvalue { i32, i1 } %pair, 0
  %done = extractvalue { i32, i1 } %pair, 1
  br i1 %done, label %end, label %look
end:
  store i32 0, ptr %most
  ret i32 0
}
""")
    assert locks.held(Analyses(function)) == frozenset()
    assert not locks.are_contended(Analyses(function), (64, 1, 1))


def first_thread_waits_for_the_block_before(state, out):
    b = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        if b > 0:
            while cuda.atomic.add(state, b - 1, 0) == 0:
                pass
        out[b] = 1
        cuda.threadfence()
        cuda.atomic.exch(state, b, 1)


def first_thread_waits_for_another(state, out):
    b = cuda.blockIdx.x
    if cuda.threadIdx.x == 0:
        while cuda.atomic.add(state, b, 0) == 0:
            pass
        out[b] = 1
    elif cuda.threadIdx.x == 1:
        cuda.atomic.exch(state, b, 1)


@pytest.mark.parametrize(
    ("kernel", "block", "way"),
    [
        (first_thread_waits_for_the_block_before, 64, "regions"),
        (first_thread_waits_for_the_block_before, (32, 2), "coroutines"),
        (first_thread_waits_for_another, 64, "coroutines"),
        (first_thread_waits_for_another, 1, "regions"),
    ],
)
def test_one_thread_of_a_block_that_waits_for_other_blocks_needs_no_turns(kernel, block, way):
    code = haulage.compile(kernel, "void(int32[::1], int32[::1])", block=block)
    assert code.metadata["strategy"] == way
