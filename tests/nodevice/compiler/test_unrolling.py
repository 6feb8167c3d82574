"""Loops over a thread's own arrays in the code of kernels: short ones leave numbers, no memory."""

import math
import re

import numpy as np
import pytest

import haulage
from haulage import cuda


def cholesky(a, o):
    i = cuda.grid(1)
    if i < a.shape[0]:
        low = cuda.local.array((4, 4), np.float32)
        for r in range(4):
            for c in range(r + 1):
                s = a[i, r, c]
                for k in range(c):
                    s -= low[r, k] * low[c, k]
                low[r, c] = math.sqrt(s) if r == c else s / low[c, c]
        for r in range(4):
            for c in range(r + 1):
                o[i, r, c] = low[r, c]


def bubbles(a, o):
    i = cuda.grid(1)
    if i < a.shape[0]:
        own = cuda.local.array(8, np.float32)
        for k in range(8):
            own[k] = a[i, k, 0]
        for turn in range(8):
            for j in range(7 - turn):
                if own[j] > own[j + 1]:
                    own[j], own[j + 1] = own[j + 1], own[j]
        for k in range(8):
            o[i, k, 0] = own[k]


def powers_of_e(a, o):
    i = cuda.grid(1)
    own = cuda.local.array(4, np.float32)
    for k in range(4):
        own[k] = math.exp(a[i, k, 0])
    for k in range(4):
        o[i, k, 0] = own[3 - k]


def tile_sums(a, o):
    shared = cuda.shared.array((16, 4), np.float32)
    t = cuda.threadIdx.x
    sums = cuda.local.array((2, 2), np.float32)
    for r in range(2):
        for c in range(2):
            sums[r, c] = 0
    for tile in range(a.shape[0]):
        shared[t, 0] = a[tile, t, 0]
        cuda.syncthreads()
        for k in range(16):
            for r in range(2):
                for c in range(2):
                    sums[r, c] += shared[k, r] * shared[t, c]
        cuda.syncthreads()
    for r in range(2):
        for c in range(2):
            o[t, r, c] = sums[r, c]


def insertion(a, o):
    i = cuda.grid(1)
    own = cuda.local.array(8, np.float32)
    for k in range(8):
        j = k
        while j > 0 and own[j - 1] > a[i, k, 0]:
            own[j] = own[j - 1]
            j -= 1
        own[j] = a[i, k, 0]
    for k in range(8):
        o[i, k, 0] = own[k]


def long(a, o):
    i = cuda.grid(1)
    own = cuda.local.array(4096, np.float32)
    for k in range(4096):
        own[k] = a[i, k, 0]
    for k in range(4096):
        o[i, k, 0] = own[4095 - k]


def in_a_loop_with_a_barrier(a, o):
    t = cuda.threadIdx.x
    own = cuda.local.array(4, np.float32)
    for k in range(4):
        o[t, k, 0] = a[t, k, 0]
        cuda.syncthreads()
        own[k] = o[t ^ 1, k, 0]
    for k in range(4):
        o[t, k, 1] = own[k]


SIGNATURE = "void(float32[:, :, ::1], float32[:, :, ::1])"


@pytest.mark.parametrize("kernel", [cholesky, bubbles, powers_of_e, tile_sums])
def test_short_loops_over_a_private_array_leave_no_array(kernel):
    code = haulage.compile(kernel, SIGNATURE, block=16)
    assert "alloca" not in code.stages["clean"]
    assert code.metadata["local_bytes"] == 0


@pytest.mark.parametrize("kernel", [cholesky, bubbles, powers_of_e])
def test_a_kernel_of_short_loops_is_one_piece(kernel):
    assert haulage.compile(kernel, SIGNATURE, block=16).metadata["regions"] == 1


@pytest.mark.parametrize("kernel", [insertion, long, in_a_loop_with_a_barrier])
def test_arrays_that_stay_in_memory_keep_their_loops(kernel):
    clean = haulage.compile(kernel, SIGNATURE, block=16).stages["clean"]
    assert clean.count("alloca") == 1
    # Fewer accesses than turns of the loops.
    assert clean.count("= load float") < 8


@pytest.mark.parametrize("kernel", [tile_sums, insertion])
def test_llvm_may_unroll_what_was_left(kernel):
    assert "llvm.loop.unroll" not in _used_notes(haulage.compile(kernel, SIGNATURE, block=16))


def _used_notes(code):
    clean = code.stages["clean"]
    return "\n".join(line for line in clean.splitlines() if "!llvm.loop" in line)


def sums_of_warps(x, out):
    i = cuda.grid(1)
    value = x[i]
    step = 16
    while step > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
        step //= 2
    if cuda.laneid == 0:
        out[i // 32] = value


def sums_as_often_as_asked(x, out):
    i = cuda.grid(1)
    value = x[i]
    for k in range(out.size):
        value += cuda.shfl_xor_sync(0xFFFFFFFF, value, 1 << k)
    out[i] = value


def test_a_reduction_by_shuffles_is_unrolled():
    code = haulage.compile(sums_of_warps, "void(float32[::1], float32[::1])", block=64)
    assert code.stages["lowered"].count("call i32 @haulage.shuffle") == 1
    assert len(re.findall(r"call i32 @haulage\.shuffle", code.stages["clean"])) == 5
    assert code.metadata["regions"] == 6


def test_shuffles_in_a_loop_of_unknown_length_stay_in_it():
    code = haulage.compile(sums_as_often_as_asked, "void(float32[::1], float32[::1])", block=64)
    assert len(re.findall(r"call i32 @haulage\.shuffle", code.stages["clean"])) == 1
