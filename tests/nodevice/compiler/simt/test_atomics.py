"""Atomic operations in compiled kernels: which are real, and which plain."""

import re

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.compiler.simt.analysis import uniformity
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.loops import atomics
from nodevice.compiler.simt.llvm_models import model_of


def counts(x, out):
    room = cuda.shared.array(64, np.int32)
    t = cuda.threadIdx.x
    room[t] = 0
    cuda.syncthreads()
    cuda.atomic.add(room, x[cuda.grid(1)], 1)
    cuda.atomic.cas(room, x[cuda.grid(1)], 7, 1)
    cuda.syncthreads()
    out[t] = room[t]


def test_atomics_on_shared_memory_need_no_lock():
    code = haulage.compile(counts, "void(int32[::1], int32[::1])", block=64)
    assert "atomicrmw" in code.stages["clean"]
    assert not re.search("atomicrmw|cmpxchg", code.llvm)


# The same address by two ways, of which one may lead to a parameter.
TWO_ROOTS = """
define i32 @kernel(i32 %threadIdx.x, i1 %which, ptr %room, ptr %given) {
entry:
  %both = select i1 %which, ptr %room, ptr %given
  %own = getelementptr i32, ptr %room, i64 4
  %a = atomicrmw add ptr %both, i32 1 monotonic, align 4
  %b = atomicrmw volatile umax ptr %own, i32 %a syncscope("singlethread") seq_cst, align 4
  %c = cmpxchg ptr %own, i32 %a, i32 %b monotonic monotonic, align 4
  %d = atomicrmw add ptr %given, i32 %a monotonic, align 4
  ret i32 0
}
"""


def test_only_what_is_certainly_in_a_room_becomes_plain():
    function = model_of(TWO_ROOTS)
    atomics.mark_plain(Analyses(function), frozenset(("%room",)))
    a, b, c, d = function.blocks["%entry"].body[2:]
    assert [atomics.expanded(item) for item in (a, d)] == [[a], [d]]
    load, test, *_, store = atomics.expanded(b)
    assert load.text == "%b = load i32, ptr %own, align 4"
    assert test.text.endswith("icmp ugt i32 %b, %a")
    assert (store.opcode, store.operands[1].text) == ("store", "%own")
    *_, pair = atomics.expanded(c)
    assert (pair.opcode, pair.type, pair.result) == ("insertvalue", "{ i32, i1 }", "%c")
    # For the analyses nothing changed.
    assert [item.stays for item in (a, b, c, d)] == [True] * 4
    assert {"%b", "%c"} <= uniformity.analyse(Analyses(function), frozenset()).varying


# ---- arrays that are only added to --------------------------------------------------------------


def bins(x, h):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(h, x[i], 1)


def bins_and_tickets(x, h):
    i = cuda.grid(1)
    cuda.atomic.add(h, x[i], 1)
    x[i] = cuda.atomic.add(x, 0, 1)


def bins_behind_a_fence(x, h):
    cuda.atomic.add(h, x[cuda.grid(1)], 1)
    cuda.threadfence()


def bins_behind_a_pause(x, h):
    cuda.atomic.add(h, x[cuda.grid(1)], 1)
    cuda.nanosleep(10)


def bins_that_are_read(x, h):
    i = cuda.grid(1)
    cuda.atomic.add(h, x[i], 1)
    x[i] = h[0]


def bins_of_two_kinds(x, h):
    i = cuda.grid(1)
    cuda.atomic.add(h, x[i], 1)
    cuda.atomic.max(h, 0, x[i])


def bins_as_they_were(x, h):
    i = cuda.grid(1)
    x[i] = cuda.atomic.add(h, x[i], 1)


@pytest.mark.parametrize("kind", ["1d, C", "1d, A"])
@pytest.mark.parametrize(
    ("kernel", "is_copied"),
    [
        (bins, True),
        (bins_and_tickets, False),
        (bins_behind_a_fence, False),
        (bins_behind_a_pause, False),
        (bins_that_are_read, False),
        (bins_of_two_kinds, False),
        (bins_as_they_were, False),
    ],
)
def test_chunks_of_blocks_add_to_a_copy_where_nobody_can_tell(kernel, is_copied, kind):
    layout = "::1" if kind == "1d, C" else ":"
    code = haulage.compile(kernel, f"void(int32[::1], int32[{layout}])", block=64)
    # A view may have any strides, which its elements' addresses are worked out from.
    assert ("%privatized.0.copy" in code.llvm) == (is_copied and layout == "::1")


def total_of_all(x, out):
    cuda.atomic.add(out, 0, x[cuda.grid(1)])


def test_a_sum_of_all_threads_is_widened():
    code = haulage.compile(total_of_all, "void(float32[::1], float32[::1])", block=256)
    assert re.search(r"fadd reassoc <\d+ x float>", code.llvm)
