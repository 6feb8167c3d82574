"""Code for AMD's GPUs: by which instructions memory is read and written."""

# mypy: allow-untyped-defs

import re

import pytest
from numba import float32

import haulage
from doubles.amd_objects import ARCHITECTURES, count, instructions, needs_disassembler
from haulage import cuda

pytestmark = needs_disassembler

TWO = "void(float32[::1], float32[::1])"
THREE = "void(float32[::1], float32[::1], float32[::1])"
FEW = ("gfx90a", "gfx1100", "gfx1201")


@cuda.jit
def by_rows(x, factors, y):
    i = cuda.grid(1)
    for k in range(factors.size):
        y[k * 64 + i] = x[i] * factors[k]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_what_is_only_read_is_a_scalar_or_leaves_its_loop_if_arrays_lie_apart(architecture):
    code = haulage.compile(by_rows, THREE, architecture)
    lines = instructions(by_rows, THREE, architecture)
    assert "icmp ule i64" in code.llvm
    # Each loop has one store; in the version for arrays that may lie together both are loaded anew.
    assert count(lines, "global_store") == 2
    assert count(lines, "global_load") == 3
    assert count(lines, "flat_|scratch_|buffer_(load|store)") == 0
    assert code.llvm.count("load float, ptr addrspace(1)") == 4
    noted = re.findall(r"load float, ptr addrspace\(1\).*!invariant\.load", code.llvm)
    assert len(noted) == 2


@pytest.mark.parametrize("architecture", FEW)
def test_a_load_in_front_of_the_only_store_needs_no_second_version(architecture):
    @cuda.jit
    def scaled(x, factors, y):
        i = cuda.grid(1)
        if i < y.size:
            y[i] = x[i] * factors[0] + factors[1]

    code = haulage.compile(scaled, THREE, architecture)
    assert "icmp ule i64" not in code.llvm
    assert len(re.findall(r"load float, .*!invariant\.load", code.llvm)) == 3
    lines = instructions(scaled, THREE, architecture)
    assert count(lines, "global_load") == 1
    assert count(lines, r"s_load_(dwordx2|b64) s\[\d+:\d+\], s\[\d+:\d+\], (0x0|null)$") == 1


@pytest.mark.parametrize("architecture", FEW)
def test_loads_in_front_of_all_stores_need_no_second_version(architecture):
    @cuda.jit
    def drawn(places, pulls):
        i = cuda.grid(1)
        mine = places[i]
        total = float32(0)
        for k in range(places.size):
            total += (places[k] - mine) * abs(places[k])
        pulls[2 * i] = total
        pulls[2 * i + 1] = -total

    lines = instructions(drawn, TWO, architecture)
    assert "icmp ule i64" not in haulage.compile(drawn, TWO, architecture).llvm
    assert count(lines, "global_load") == 1
    # What all threads read alike is a scalar as it is.
    assert count(lines, r"s_load_(dword|b32) s\d+, s\[") >= 1


@pytest.mark.parametrize("architecture", FEW)
def test_barriers_of_a_block_hand_over_nothing_of_others(architecture):
    @cuda.jit
    def staged(x, factors, y):
        tile = cuda.shared.array(64, float32)
        t = cuda.threadIdx.x
        for k in range(factors.size):
            tile[t] = x[k * 64 + t]
            cuda.syncthreads()
            y[k * 64 + t] = tile[63 - t] * factors[k]
            cuda.syncthreads()

    lines = instructions(staged, THREE, architecture)
    llvm = haulage.compile(staged, THREE, architecture).llvm
    assert len(re.findall(r"load float, ptr addrspace\(1\).*!invariant\.load", llvm)) == 2
    assert count(lines, "ds_(write|store)_b32") == 2
    # Two in each version of the loop.
    assert count(lines, "s_barrier($|_wait)") == 4


@pytest.mark.parametrize("architecture", FEW)
def test_what_others_may_hand_over_is_not_taken_for_what_stays(architecture):
    @cuda.jit
    def fenced(x, factors, y):
        i = cuda.grid(1)
        for k in range(factors.size):
            y[k * 64 + i] = x[i] * factors[k]
            cuda.threadfence()

    @cuda.jit
    def taken(x, factors, y):
        i = cuda.grid(1)
        if cuda.atomic.add(y, 0, 1) > 3:
            y[i] = x[i] * factors[0]

    for kernel in (fenced, taken):
        llvm = haulage.compile(kernel, THREE, architecture).llvm
        assert not re.search(r"load float, .*!invariant\.load", llvm)


def test_strides_tell_where_an_array_ends():
    llvm = haulage.compile(by_rows, "void(float32[:], float32[:], float32[:])", "gfx942").llvm
    assert "llvm.smax.i64" in llvm
    assert len(re.findall(r"load float, .*!invariant\.load", llvm)) == 2


@pytest.mark.parametrize("architecture", FEW)
def test_bytes_next_to_one_another_are_loaded_at_once(architecture):
    @cuda.jit
    def summed(x, y):
        i = cuda.grid(1)
        total = 0
        for k in range(16):
            total += x[i * 16 + k]
        y[i] = total

    # The hardware takes addresses of any multiples.
    lines = instructions(summed, "void(uint8[::1], int32[::1])", architecture)
    assert count(lines, "global_load") == count(lines, "global_load_(dwordx4|b128)") == 1


@pytest.mark.parametrize("architecture", FEW)
def test_arrays_of_the_device_that_a_kernel_captures_are_global(architecture):
    known = cuda.device_array(100, "f4")

    @cuda.jit
    def copied(x):
        i = cuda.grid(1)
        known[i] += known[known.size - 1 - i]
        for k in range(known.size):
            x[k] = known[k]
        cuda.atomic.add(known, 3, x[i])
        x[0] = known[5]

    lines = instructions(copied, "void(float32[::1])", architecture)
    assert count(lines, "global_load") >= 3
    assert count(lines, "flat_") == 0
