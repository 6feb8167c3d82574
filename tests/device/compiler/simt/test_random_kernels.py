"""Random kernels give what plain Python gives, in each way of the CPU device."""

import os
from math import prod

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from device.compiler.simt import random_kernels, random_types, random_warps
from haulage import cuda

pytestmark = [pytest.mark.ptx, pytest.mark.in_order]

SHAPES = (
    *((x, 1, 1) for x in (1, 2, 7, 32, 33, 64)),
    *((4, 8, 1), (16, 3, 1), (1, 33, 1), (3, 5, 2), (2, 2, 9)),
)
WAYS = ("auto", "scalar", "coroutines")

# `make random-kernels N=1000` tries more of them.
EXAMPLES = int(os.environ.get("HAULAGE_RANDOM_KERNELS", "6"))


# The block behind its loop is one of two regions, which come to it from other blocks each.
_A_BLOCK_OF_TWO_REGIONS = [
    "for k in range(3):",
    "    if u > 3:",
    "        cuda.syncthreads()",
    "    else:",
    "        u = (u * 3 + 2) % 7",
    "        if z:",
    "            z = (f4(floor(f4(v_u2))) / (abs(max(f4(own_f2[v_u2 % 4]), f4(v_i1)))"
    " + f4(1))) > f4(v_f2)",
]


def as_often_as_wanted(test):
    """Run `test` on so many programs, the same ones each time unless more are wanted."""
    chosen = settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize="HAULAGE_RANDOM_KERNELS" not in os.environ,
        suppress_health_check=list(HealthCheck),
    )
    return pytest.mark.timeout(300 + 60 * EXAMPLES)(chosen(test))


def check(lines, shape, blocks, seed):
    """Compare what the kernel and Python make of a program."""
    threads = prod(shape)
    x = np.random.default_rng(seed).integers(0, 50, threads * blocks)
    expected_out, expected_totals = random_kernels.interpret(lines, threads, blocks, x)
    # Optimised, a loop that all threads make together can look like one that they do not, so
    # that "regions" alone would refuse some of these programs.
    for way in WAYS:
        os.environ["HAULAGE_CPU_THREADS"] = way
        try:
            out = cuda.to_device(np.full((threads * blocks, 5), -1.0))
            totals = cuda.to_device(np.zeros(3, np.int64))
            kernel = random_kernels.kernel(lines, shape)
            kernel[blocks, shape](cuda.to_device(x), out, totals)
            text = "\n".join(lines)
            np.testing.assert_allclose(out.copy_to_host(), expected_out, rtol=1e-9, err_msg=text)
            np.testing.assert_array_equal(totals.copy_to_host(), expected_totals, err_msg=text)
        finally:
            del os.environ["HAULAGE_CPU_THREADS"]


@as_often_as_wanted
@given(
    lines=random_kernels.programs,
    shape=st.sampled_from(SHAPES),
    blocks=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_random_kernels_agree_with_python(device, lines, shape, blocks, seed):
    check(lines, shape, blocks, seed)


@as_often_as_wanted
@given(
    lines=random_kernels.wave_programs,
    threads=st.sampled_from((1, 7, 64, 65, 130, 192)),
    blocks=st.integers(1, 2),
    seed=st.integers(0, 99),
)
def test_random_kernels_with_barriers_of_wavefronts_agree_with_python(
    device, lines, threads, blocks, seed
):
    check(lines, (threads, 1, 1), blocks, seed)


@as_often_as_wanted
@given(
    lines=random_warps.programs,
    threads=st.sampled_from((1, 7, 32, 50, 64, 100)),
    blocks=st.integers(1, 2),
    seed=st.integers(0, 99),
)
def test_random_kernels_with_words_of_warps_agree_with_python(device, lines, threads, blocks, seed):
    x = np.random.default_rng(seed).integers(0, 50, threads * blocks)
    expected = random_warps.interpret(lines, threads, blocks, x)
    for way in WAYS:
        os.environ["HAULAGE_CPU_THREADS"] = way
        try:
            out = cuda.to_device(np.full((threads * blocks, 3), -1))
            kernel = random_warps.kernel(lines, threads)
            kernel[blocks, threads](cuda.to_device(x), out)
            text = "\n".join(lines)
            np.testing.assert_array_equal(out.copy_to_host(), expected, err_msg=text)
        finally:
            del os.environ["HAULAGE_CPU_THREADS"]


@example(lines=_A_BLOCK_OF_TWO_REGIONS, threads=33, blocks=1, seed=48)
@as_often_as_wanted
@given(
    lines=random_types.programs,
    threads=st.sampled_from((1, 7, 32, 33)),
    blocks=st.integers(1, 2),
    seed=st.integers(0, 99),
)
def test_random_kernels_of_all_number_types_agree_to_the_last_bit(
    device, lines, threads, blocks, seed
):
    xs, totals = random_types.inputs(threads, blocks, seed)
    expected_totals = [total.copy() for total in totals]
    expected = random_types.interpret(lines, threads, blocks, xs, expected_totals)
    for way in WAYS:
        os.environ["HAULAGE_CPU_THREADS"] = way
        try:
            outs = [cuda.device_array(threads * blocks, code) for code in random_types.TYPES]
            counts = [cuda.to_device(total) for total in totals]
            kernel = random_types.kernel(lines, threads)
            kernel[blocks, threads](*map(cuda.to_device, xs), *outs, *counts)
            for got, wanted in zip((*outs, *counts), (*expected, *expected_totals), strict=True):
                np.testing.assert_array_equal(got.copy_to_host(), wanted, "\n".join(lines))
        finally:
            del os.environ["HAULAGE_CPU_THREADS"]
