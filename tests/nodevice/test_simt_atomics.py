"""Atomic operations in compiled kernels: which are real, which plain, and what is cut off them."""

import math
import re

import numpy as np
from llvm_models import model_of

import haulage
from haulage import cuda
from haulage.compiler.simt import apart, atomics, uniformity


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
    atomics.in_rooms(function, frozenset(("%room",)))
    a, b, c, d = function.blocks["%entry"].body[2:]
    assert "atomicrmw add" in a.text
    assert "atomicrmw add" in d.text
    assert b.text.startswith("%b = load i32, ptr %own, align 4")
    assert "icmp ugt i32 %b, %a" in b.text
    assert "atomicrmw" not in b.text
    assert "cmpxchg" not in c.text
    assert "{ i32, i1 }" in c.text
    # For the analyses nothing changed.
    assert [item.stays for item in (a, b, c, d)] == [True] * 4
    assert {"%b", "%c"} <= uniformity.analyse(function, frozenset()).varying


def long_way(x, out):
    i = cuda.grid(1)
    value = math.sqrt(x[i]) * x[i] + math.sqrt(x[i] + np.float32(1))
    cuda.atomic.add(out, i % 7, value)


def test_what_stands_before_an_atomic_is_widened():
    code = haulage.compile(long_way, "void(float32[::1], float32[::1])", block=256)
    assert code.metadata["pieces"] > 1
    assert re.search(r"@llvm.sqrt.v\d+f32", code.llvm)


def test_a_short_loop_with_an_atomic_is_left_whole():
    function = model_of("""
define i32 @kernel(i32 %threadIdx.x, ptr %given) {
entry:
  %wide = zext i32 %threadIdx.x to i64
  %place = getelementptr i32, ptr %given, i64 %wide
  %a = atomicrmw add ptr %place, i32 1 monotonic, align 4
  ret i32 0
}
""")
    assert apart.around_atomics(function, uniformity.analyse(function, frozenset())) == {}
