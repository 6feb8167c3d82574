"""Where a thread may hold a lock that others of its block wait for."""

import pytest
from llvm_models import model_of

from haulage.compiler.simt import locks

LOCK = """
define i32 @kernel(i32 %threadIdx.x, ptr %lock, ptr %data, i64 %n) {
entry:
  br label %wait
wait:
  %pair = cmpxchg ptr %lock, i32 0, i32 1 monotonic monotonic
  %got = extractvalue { i32, i1 } %pair, 1
  br i1 %got, label %inside, label %wait
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
"""


@pytest.mark.parametrize(
    "release",
    [
        "%old = atomicrmw xchg ptr %lock, i32 0 monotonic",
        "store i32 0, ptr %lock",
        "store volatile i32 0, ptr %lock",
    ],
)
def test_a_lock_is_held_from_the_wait_to_the_write_that_frees_it(release):
    text = LOCK.replace("FENCE", "fence seq_cst").replace("RELEASE", release)
    assert locks.held(model_of(text)) == {"%inside", "%free"}


@pytest.mark.parametrize("release", ["%seen = load volatile i32, ptr %lock", "fence seq_cst"])
def test_what_nobody_frees_is_no_lock(release):
    text = LOCK.replace("FENCE", "fence seq_cst").replace("RELEASE", release)
    assert locks.held(model_of(text)) == frozenset()


def test_behind_a_barrier_of_the_block_nothing_is_held():
    text = LOCK.replace("FENCE", "call void @haulage.barrier(i32 1)")
    text = text.replace("RELEASE", "store i32 0, ptr %lock") + "declare void @haulage.barrier(i32)"
    assert locks.held(model_of(text)) == frozenset()


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
    assert locks.held(function) == frozenset()
