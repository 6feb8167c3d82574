"""Which loops are run for a chunk of threads at a time, with their values in registers."""

import re

import pytest

import haulage
from haulage import cuda
from haulage.compiler.simt.analysis import uniformity
from haulage.compiler.simt.analysis.kernel import Storage
from haulage.compiler.simt.analysis.manager import Analyses
from haulage.compiler.simt.loops.strip_mining import loops_to_strip_mine
from nodevice.compiler.simt.llvm_models import SUMS as SUMS_OF_ROWS
from nodevice.compiler.simt.llvm_models import model_of

# Each thread weighs what it sums by a number of its own.
SUMS = SUMS_OF_ROWS.replace("LAST", "%n").replace(
    "%sum.next = fadd float %sum, %value",
    """%own.value = sitofp i64 %t to float
  %product = fmul float %own.value, %value
  %sum.next = fadd float %sum, %product""",
)


def _chunked(text, shared=()):
    function = model_of(text)
    flow = uniformity.analyse(Analyses(function), frozenset())
    return list(loops_to_strip_mine(Analyses(function), flow, ["%loop"], shared, 0))


@pytest.mark.parametrize(
    ("row", "turn", "headers"),
    [
        ("0", "1", ["%loop"]),
        ("1", "1", ["%loop"]),
        ("1", "0", ["%loop"]),
        ("1", "%n", []),
        ("1", "1024", []),
        ("%n", "1", []),
        ("2", "1", []),
    ],
)
def test_what_threads_share_or_find_in_the_cache_is_read_in_chunks(row, turn, headers):
    assert _chunked(SUMS.replace("ROW", row).replace("TURN", turn)) == headers


def test_rows_of_the_blocks_own_memory_are_read_in_chunks():
    text = SUMS.replace("ROW", "1").replace("TURN", "1024")
    assert _chunked(text, [Storage("%data", 1 << 15, 16)]) == ["%loop"]


def test_a_loop_that_keeps_nothing_from_turn_to_turn_is_turned_outside():
    text = SUMS.replace("ROW", "1").replace("TURN", "1")
    text = text.replace("fadd float %sum, %product", "fadd float 1.0, %value")
    text = "\n".join(line for line in text.splitlines() if "%sum = phi" not in line)
    assert _chunked(text) == []


def test_sums_of_a_tile_stay_in_registers():
    def forces(x, out):
        tile = cuda.shared.array(128, "float32")
        i, t = cuda.grid(1), cuda.threadIdx.x
        here = x[i]
        total = here - here
        for start in range(0, x.size, 128):
            tile[t] = x[start + t]
            cuda.syncthreads()
            for k in range(128):
                distance = tile[k] - here
                total += distance / (distance * distance + here)
            cuda.syncthreads()
        out[i] = total

    code = haulage.compile(forces, "void(float32[::1], float32[::1])", block=128)
    # The loop over the tile is no region of its own: a start, and one behind each barrier.
    assert (code.metadata["strategy"], code.metadata["regions"]) == ("regions", 3)
    assert re.search(r"phi <\d+ x float>", code.stages["llvm"])


def _lit(normals, lights, out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        y = normals[i, 1]
        total = y - y
        for k in range(lights.size):
            total += lights[k] * y
        out[i, 1] = total


def _scaled(x, factors, out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        y = x[i]
        for k in range(factors.size):
            y = y * factors[k] + y
        out[i] = y


def test_lanes_do_not_ask_for_a_guard_that_is_a_range_of_threads():
    code = haulage.compile(_scaled, "void(float32[::1], float32[::1], float32[::1])", block=256)
    assert re.search(r"phi <\d+ x float>", code.stages["llvm"])
    assert "%lanes.from" in code.stages["blocks"]
    assert not re.search(r"icmp \w+ <\d+ x i64>", code.stages["llvm"])


def test_what_lies_apart_stays_out_of_chunks():
    code = haulage.compile(_lit, "void(float32[:,::1], float32[::1], float32[:,::1])", block=256)
    assert code.metadata["regions"] == 3
    assert "llvm.masked.gather" not in code.stages["blocks"]
    assert "llvm.masked.scatter" not in code.stages["blocks"]
