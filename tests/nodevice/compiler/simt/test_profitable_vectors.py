"""Which kernels run on vectors, by what their threads access and work out, in the code of their
blocks."""

import re

import numpy as np

import haulage
from haulage import cuda


def gathered(x, y, places):
    i = cuda.grid(1)
    y[i] = x[places[i]] * x[i]


def searched(text, pattern, found):
    i = cuda.grid(1)
    if i <= text.size - pattern.size:
        same = 1
        for k in range(pattern.size):
            if text[i + k] != pattern[k]:
                same = 0
                break
        found[i] = same


def column_lengths(a, limit, out):
    i = cuda.grid(1)
    j = 0
    while j < a.shape[0] and a[j, i] < limit:
        j += 1
    out[i] = j


def nearest(x, y, out):
    i = cuda.grid(1)
    kept = cuda.local.array(8, np.float32)
    for k in range(8):
        kept[k] = np.inf
    for j in range(y.size):
        d = abs(x[i] - y[j])
        if d < kept[7]:
            k = 7
            while k > 0 and kept[k - 1] > d:
                kept[k] = kept[k - 1]
                k -= 1
            kept[k] = d
    for k in range(8):
        out[i, k] = kept[k]


def bent(rays, out):
    i = cuda.grid(1)
    if i < rays.shape[0]:
        p, q, r = rays[i, 0], rays[i, 1], rays[i, 2]
        d, e, f = rays[i, 3], rays[i, 4], rays[i, 5]
        for _ in range(10):
            total = 0.1 * (p * d + q * e + r * f)
            d -= total * p
            e -= total * q
            f -= total * r
            p += 0.05 * d
            q += 0.05 * e
            r += 0.05 * f
        out[i, 0] = p
        out[i, 1] = q
        out[i, 2] = r


def code_of(kernel, signature):
    return haulage.compile(kernel, signature, block=128)


def test_what_is_mostly_side_by_side_is_widened():
    code = code_of(gathered, "void(float32[::1], float32[::1], int32[::1])")
    assert re.search(r"fmul <\d+ x float>", code.stages["llvm"])


def test_arithmetic_of_a_loop_counts_for_each_iteration():
    code = code_of(bent, "void(float64[:,::1], float64[:,::1])")
    assert re.search(r"fmul [^\n]*<\d+ x double>", code.stages["llvm"])


def test_a_search_that_moves_on_byte_by_byte_is_for_lanes():
    code = code_of(searched, "void(uint8[::1], uint8[::1], uint8[::1])")
    assert "lanes.start" in code.stages["blocks"]


def test_a_search_down_columns_reads_rows():
    code = code_of(column_lengths, "void(float32[:,::1], float32, int64[::1])")
    assert "lanes.start" in code.stages["blocks"]
    assert "gather" not in code.stages["llvm"]


def test_loops_in_which_each_thread_writes_to_places_of_its_own_are_not_for_lanes():
    code = code_of(nearest, "void(float32[::1], float32[::1], float32[:,::1])")
    assert "lanes.start" not in code.stages["blocks"]
