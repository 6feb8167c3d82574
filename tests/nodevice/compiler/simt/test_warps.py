"""Warps in the CPU transformation: what lanes have in common, and how they exchange values."""

import re
from dataclasses import replace

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.compiler import llvm
from haulage.compiler.simt.analysis import uniformity
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.analysis.uniformity import Warps, warps_of
from haulage.compiler.simt.emit import warp_collectives, warp_loops
from haulage.compiler.simt.ir.model import RegionEnd
from haulage.compiler.simt.ir.writer import definition
from nodevice.compiler.simt.llvm_models import BARRIER, model_of

DECLARED = """
declare i32 @haulage.shuffle.lane.32.32(i32, i32, i32, i32, i32)
declare i32 @haulage.shuffle.down.32.32(i32, i32, i32, i32, i32)
declare { i32, i32 } @haulage.match.32.32(i32, i32, i32, i32, i32)
"""

PARTS = """
define i32 @kernel(i32 range(i32 0, 1024) %threadIdx.x, i32 %threadIdx.y,
    i32 range(i32 0, 65536) %blockIdx.x, i32 range(i32 1, 1025) %blockDim.x, i32 %n) {
entry:
  %warp = lshr i32 %threadIdx.x, 5
  %half = lshr i32 %threadIdx.x, 4
  %lane = and i32 %threadIdx.x, 31
  %first = and i32 %threadIdx.x, 992
  %low = icmp ult i32 %threadIdx.x, 64
  %high = icmp ugt i32 %threadIdx.x, 31
  %odd = icmp ult i32 %threadIdx.x, 40
  %one = icmp eq i32 %threadIdx.x, 0
  %start = mul nuw nsw i32 %blockIdx.x, %blockDim.x
  %grid = add nuw nsw i32 %start, %threadIdx.x
  %wide = zext i32 %grid to i64
  %grid.warp = lshr i64 %wide, 5
  %moved = add i32 %threadIdx.x, %n
  %moved.warp = lshr i32 %moved, 5
  %row = icmp eq i32 %threadIdx.y, 3
  ret i32 0
}
"""


def common(block, size=32):
    function = model_of(PARTS)
    names = set(function.definitions())
    return (
        names
        - uniformity.analyse(Analyses(function), frozenset(), within=Warps(size, block)).varying
    )


def test_lanes_have_the_higher_bits_of_their_numbers_in_common():
    assert common((128, 1, 1)) == {
        "%warp", "%first", "%low", "%high", "%start", "%grid.warp", "%row",
    }  # fmt: skip
    assert common((64, 4, 1)) == common((128, 1, 1))


def test_lanes_in_blocks_of_odd_sizes_have_less_in_common():
    # Blocks of 48 threads begin amid a warp of the grid, and here rows amid one of the block.
    assert common((48, 1, 1)) == common((128, 1, 1)) - {"%grid.warp"}
    assert common((48, 2, 1)) == {"%start"}
    assert common((16, 2, 1)) == {"%start"}


def test_wavefronts_are_twice_as_long():
    assert common((128, 1, 1), 64) == {"%low", "%start", "%row"}


def test_what_lanes_have_in_common_is_made_of_the_first_lanes_index():
    # As in a region's function, which is told the number of the lane.
    function = model_of(PARTS.replace("i32 %n)", "i32 %n, i64 %thread)"))
    warp_loops._use_first_lane(function, Warps(32, (128, 1, 1)))
    items = function.items()

    def leaves(name):
        item = items.get(name)
        return {name} if item is None else set().union(*map(leaves, item.uses))

    own, lane = "%threadIdx.x", "%thread"
    for name in ("%warp", "%first", "%low", "%high", "%grid.warp"):
        assert lane in leaves(name)
        assert own not in items[name].uses
    for name in ("%half", "%lane", "%odd", "%one", "%moved.warp", "%grid", "%row"):
        assert lane not in leaves(name)
    llvm.parse(definition(replace(function, name="kernel", result="i32")))


VOTING = (
    DECLARED
    + """
define i32 @kernel(i32 %threadIdx.x, i32 %n, ptr %data) {
entry:
  %flag = icmp ult i32 %threadIdx.x, 7
  %truth = zext i1 %flag to i32
  %t = add i32 %threadIdx.x, 0
  %both = call { i32, i32 } @haulage.match.32.32(i32 %t, i32 -1, i32 %truth, i32 1, i32 5)
  %lanes = extractvalue { i32, i32 } %both, 0
  %first = call i32 @haulage.shuffle.lane.32.32(i32 %t, i32 -1, i32 %truth, i32 %n, i32 6)
  %below = call i32 @haulage.shuffle.down.32.32(i32 %t, i32 -1, i32 %truth, i32 %n, i32 7)
  %sum = add i32 %lanes, %first
  %all = add i32 %sum, %below
  store i32 %all, ptr %data
  ret i32 0
}
"""
)


def test_a_collective_ends_one_region_and_what_all_were_told_is_in_common():
    function = model_of(VOTING)
    warps = warps_of(function, (64, 1, 1), 32)
    assert warps == Warps(32, (64, 1, 1))
    flow = uniformity.analyse(Analyses(function), frozenset(), within=warps)
    assert {"%lanes", "%first", "%sum"}.isdisjoint(flow.varying)
    assert {"%below", "%all"} <= flow.varying
    # For the block as a whole they differ: each warp has its own.
    assert {"%lanes", "%first"} <= uniformity.analyse(Analyses(function), frozenset()).varying
    found = warp_collectives.split(function, flow)
    assert [each.kind for each in found.values()] == ["match", "lane", "down"]
    assert [each.alike for each in found.values()] == [True, True, False]
    ends = [block.terminator for block in function.blocks.values()]
    assert [(end.reason, end.place) for end in ends if isinstance(end, RegionEnd)] == [
        ("warp", 5), ("warp", 6), ("warp", 7),
    ]  # fmt: skip


def test_a_function_without_words_of_warps_has_none():
    text = (
        BARRIER
        + """
        define i32 @kernel(i32 %threadIdx.x) {
        entry:
          call void @haulage.barrier(i32 7)
          ret i32 0
        }"""
    )
    assert warps_of(model_of(text), (64, 1, 1), 32) is None


def sums(x, out):
    i = cuda.grid(1)
    value = x[i]
    step = 16
    while step > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, step)
        step //= 2
    if cuda.laneid == 0:
        out[i // 32] = value


def votes(x, out):
    i = cuda.grid(1)
    out[i] = cuda.popc(cuda.ballot_sync(0xFFFFFFFF, x[i] > 0.5))


@pytest.mark.parametrize("kernel", [sums, votes])
def test_exchanges_stay_in_vector_registers(kernel):
    code = haulage.compile(kernel, "void(float32[::1], int32[::1])", block=256)
    assert code.metadata["strategy"] == "regions"
    block = re.search(r"define [^\n]*@haulage.block\(.*?\n}", code.stages["llvm"], re.DOTALL)[0]
    assert "alloca" not in block
    assert "gather" not in block
    assert re.search(r"<\d+ x float>", block)


def test_a_part_for_the_first_warp_only_is_split():
    def total(x, out):
        room = cuda.shared.array(32, np.float32)
        t = cuda.threadIdx.x
        value = x[cuda.grid(1)]
        for k in range(5):
            value += cuda.shfl_xor_sync(0xFFFFFFFF, value, 1 << k)
        if t % 32 == 0:
            room[t // 32] = value
        cuda.syncthreads()
        if t // 32 == 0:
            value = room[t] if t < cuda.blockDim.x // 32 else np.float32(0)
            for k in range(5):
                value += cuda.shfl_xor_sync(0xFFFFFFFF, value, 1 << k)
            room[0] = value
        cuda.syncthreads()
        x[cuda.grid(1)] = room[0]

    code = haulage.compile(total, "void(float32[::1], float32[::1])", block=256)
    assert code.metadata["strategy"] == "regions"


def test_a_warp_decides_once_on_what_its_lanes_have_in_common():
    def first_warp_only(x, out):
        t = cuda.threadIdx.x
        value = x[t]
        if t < 32:
            for k in range(5):
                value += cuda.shfl_xor_sync(0xFFFFFFFF, value, 1 << k)
            out[t] = value

    code = haulage.compile(first_warp_only, "void(float32[::1], float32[::1])", block=256)
    text = code.stages["blocks"]
    region = re.search(r"define [^\n]*@haulage.region.0\(.*?\n}", text, re.DOTALL)[0]
    assert '= sub nuw nsw i32 %threadIdx.x, %"thread/i32"' in region
    assert re.search(r'icmp [^\n]* i32 %"threadIdx.x/first", 32', region)
    # LLVM takes that out of the loop over lanes, which then needs no mask.
    block = re.search(r"define [^\n]*@haulage.block\(.*?\n}", code.stages["llvm"], re.DOTALL)[0]
    assert re.search(r"fadd <\d+ x float>", block)
    assert not re.search(r"<\d+ x i1>", block)
