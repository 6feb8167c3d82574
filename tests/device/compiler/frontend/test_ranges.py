"""Loops over ranges: their turns, also near the ends of the numbers, and what LLVM knows."""

import numpy as np
import pytest

import haulage
from haulage import cuda

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]

MOST = 2**63 - 1


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [(0, 7, 2), (0, 8, 2), (7, -1, -2), (-5, 5, 3), (3, 3, 1), (5, 0, 1), (0, -4, -1)],
)
def test_a_range_has_pythons_turns(kind, start, stop, step):
    @cuda.jit
    def turns(out, start, stop, step):
        for i in range(start, stop, step):
            out[out[0] + 1] = i
            out[0] += 1

    out = np.zeros(12, np.int64)
    turns[1, 1](out, kind(start), kind(stop), kind(step))
    wanted = list(range(start, stop, step))
    assert list(out[: len(wanted) + 1]) == [len(wanted), *wanted]


@pytest.mark.parametrize(
    ("start", "stop", "step"),
    [(MOST - 4, MOST, 3), (-MOST + 4, -MOST - 1, -3), (1, MOST, MOST // 2)],
)
def test_a_range_may_end_where_the_next_number_would_overflow(start, stop, step):
    @cuda.jit
    def turns(out, start, stop, step):
        count = 0
        last = 0
        for i in range(start, stop, step):
            count += 1
            last = i
        out[cuda.threadIdx.x, 0] = count
        out[cuda.threadIdx.x, 1] = last

    out = np.zeros((8, 2), np.int64)
    turns[1, 8](out, start, stop, step)
    wanted = range(start, stop, step)
    assert (out == [len(wanted), wanted[-1]]).all()


@pytest.mark.emitted
def test_an_index_that_goes_up_from_0_is_not_asked_whether_it_is_negative():
    def strided(x, out):
        t = cuda.grid(1)
        for i in range(t, x.shape[0], cuda.gridsize(1)):
            out[i] += x[i]
        for i in range(0, x.shape[0], 2):
            out[t] += x[i]

    signature = "void(float32[::1], float32[::1])"
    text = haulage.compile(strided, signature, block=64).stages["clean"]
    body = text.split("@haulage.kernel", 1)[1]
    assert ", i64 %arg.x.5.0, i64 0" not in body
    assert ", i64 %arg.out.5.0, i64 0" not in body
