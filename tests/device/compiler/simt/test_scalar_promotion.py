"""Sums that a loop keeps in an array are kept in a register where no other array overlaps it, and
are what they are in plain Python where one does."""

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import haulage
from haulage import cuda

pytestmark = pytest.mark.usefixtures("device")
OFTEN = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
SUMS = "void(float64[:], float64[:], float64[:])"


def sums(x, h, out):
    for i in range(out.size):
        for k in range(h.size):
            out[i] += x[(i + k) % x.size] * h[k]


def two_sums(x, one, other):
    for i in range(x.size):
        for k in range(1, x.size):
            one[0] += x[i] * x[k]
            other[-1] -= x[k]


def lengths(x, count, out):
    for i in range(x.size):
        count[()] = 0
        for k in range(x.size):
            count[()] += 1
            out[i] = out[i] + count[()] * x[k]


def in_one_thread(loops):
    of_a_thread = cuda.jit(device=True)(loops)

    @cuda.jit
    def kernel(x, y, z):
        if cuda.grid(1) == 0:
            of_a_thread(x, y, z)

    return kernel


@pytest.fixture(scope="module")
def kernels():
    return {each: in_one_thread(each) for each in (sums, two_sums, lengths)}


# Parts of one piece of memory: some overlap, some are interleaved, some are apart or have nothing.
PARTS = st.builds(
    lambda start, count, step: (
        slice(start, start + count * step, step)
        if step > 0
        else slice(start + (count - 1) * -step, start - 1 if start else None, step)
    ),
    st.integers(0, 12),
    st.integers(1, 6),
    st.sampled_from((1, 2, 3, -1, -2)),
) | st.just(slice(3, 3))


def memory():
    return (np.arange(40) % 7) / 8 - 0.25


@pytest.mark.parametrize("loops", [sums, two_sums], ids=lambda each: each.__name__)
@OFTEN
@given(data=st.data())
def test_arrays_that_overlap_or_do_not(kernels, loops, data):
    parts = [data.draw(PARTS) for _ in range(3)]
    wanted = memory()
    args = [wanted[each] for each in parts]
    if args[0].size == 0 or (loops is two_sums and 0 in (args[1].size, args[2].size)):
        return
    there = cuda.to_device(memory())
    kernels[loops][1, 32](*(there[each] for each in parts))
    loops(*args)
    np.testing.assert_allclose(there.copy_to_host(), wanted, rtol=1e-9)


def test_arrays_that_are_given_twice(kernels):
    for first, second, third in itertools.product(range(2), repeat=3):
        wanted = memory()[:10], memory()[10:20]
        there = [cuda.to_device(each) for each in wanted]
        kernels[sums][1, 32](there[first], there[second], there[third])
        sums(wanted[first], wanted[second], wanted[third])
        for found, each in zip(there, wanted, strict=True):
            np.testing.assert_allclose(found.copy_to_host(), each, rtol=1e-9)


@pytest.mark.parametrize("place", [0, 3, 9, 20])
def test_an_array_without_axes(kernels, place):
    wanted = memory()
    there = cuda.to_device(wanted)
    for whole, launch in ((wanted, lengths), (there, kernels[lengths][1, 32])):
        launch(whole[2:8], whole[place : place + 1].reshape(()), whole[6:12])
    np.testing.assert_allclose(there.copy_to_host(), wanted, rtol=1e-9)


@cuda.jit
def product(a, b, c):
    i, j = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        c[i, j] = 0
        for k in range(a.shape[1]):
            c[i, j] += a[i, k] * b[k, j]


def test_a_product_of_matrices_in_its_place(way):
    a, b = np.arange(63.0).reshape(9, 7) % 5, np.arange(84.0).reshape(7, 12) % 4
    c = cuda.device_array((9, 12))
    product[(2, 2), (8, 8)](cuda.to_device(a), cuda.to_device(b), c)
    np.testing.assert_array_equal(c.copy_to_host(), a @ b)


def test_a_graph_compares_the_arrays_of_each_launch(kernels):
    there = cuda.to_device(memory())
    with cuda.graph() as graph:
        kernels[sums][1, 32](there[:10], there[20:24], there[5:12])
    wanted = memory()
    for _ in range(2):
        graph.launch()
        sums(wanted[:10], wanted[20:24], wanted[5:12])
    np.testing.assert_allclose(there.copy_to_host(), wanted, rtol=1e-9)


# ---- which kernels have a second body ------------------------------------------------------------


def plain(x, h, out):
    i = cuda.grid(1)
    if i < out.size:
        for k in range(h.size):
            out[i] += x[i + k] * h[k]


def test_a_sum_is_stored_behind_its_loop():
    code = haulage.compile(plain, SUMS)
    assert code.metadata["disjoint"]
    assert "noalias" not in code.stages["disjoint"].split("@haulage.kernel(", 1)[1]
    stores = [
        [block for block in text.split("\n\n") if "store double" in block]
        for text in (code.stages["clean"], code.stages["disjoint"])
    ]
    loops = [
        any("@llvm.fma" in block for block in blocks_with_stores) for blocks_with_stores in stores
    ]
    assert loops == [True, False]


def of_one_array(x, h, out):
    i = cuda.grid(1)
    if i < out.size:
        for k in range(4):
            out[i] += k


def in_a_variable(x, h, out):
    i = cuda.grid(1)
    if i < out.size:
        total = 0.0
        for k in range(h.size):
            total += x[i + k] * h[k]
        out[i] = total


def with_a_barrier(x, h, out):
    i = cuda.grid(1)
    for k in range(h.size):
        out[i] += x[i + k] * h[k]
        cuda.syncthreads()


def with_an_atomic_operation(x, h, out):
    i = cuda.grid(1)
    for k in range(h.size):
        out[i] += x[i + k]
    cuda.atomic.add(h, 0, out[i])


def with_a_fence(x, h, out):
    i = cuda.grid(1)
    for k in range(h.size):
        out[i] += x[i + k] * h[k]
        cuda.threadfence()


ALONE = [of_one_array, in_a_variable, with_a_barrier, with_an_atomic_operation, with_a_fence]


@pytest.mark.parametrize("kernel", ALONE, ids=lambda each: each.__name__)
def test_others_are_compiled_once(kernel):
    code = haulage.compile(kernel, SUMS)
    assert not code.metadata["disjoint"]
    assert "disjoint" not in code.stages
