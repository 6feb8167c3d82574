"""Kernels run as Python give what compiled ones give."""

import io
import math
import os
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from device.compiler.simt import random_kernels, random_types, random_warps
from haulage import cuda, roc
from haulage._core import pool
from haulage.errors import BarrierError, IllegalAddress, KernelError
from haulage.interpreting import launching
from haulage.runtime.process import runtime

pytestmark = pytest.mark.usefixtures("on_cpu")

EXAMPLES = int(os.environ.get("HAULAGE_RANDOM_KERNELS", "6"))


class _Everything:
    """Lets each launch run as Python, and stops in none."""

    def __init__(self):
        self.launches = 0

    def take(self, kernel, asking):
        self.launches += 1


@pytest.fixture
def on_cpu(device):
    if device.kind != "cpu":
        pytest.skip("kernels run as Python on the CPU device")


@pytest.fixture
def as_python(monkeypatch):
    everything = _Everything()
    monkeypatch.setattr(runtime.current, "debugger", everything)
    monkeypatch.setattr(launching, "asks", lambda function: True)
    # The code is not run; so it is made in the quickest way.
    monkeypatch.setenv("HAULAGE_CPU_THREADS", "scalar")
    yield everything
    assert everything.launches


@pytest.fixture
def stop_in(monkeypatch):
    """Lets the next launches stop in the first thread of a block, and go on."""

    def choose(*block):
        choice = launching.Choice(block, (0, 0, 0), False)
        monkeypatch.setattr(runtime.current, "debugger", SimpleNamespace(take=lambda *_: choice))
        monkeypatch.setattr("sys.stdin", io.StringIO("continue\n"))

    return choose


def few(test):
    chosen = settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize="HAULAGE_RANDOM_KERNELS" not in os.environ,
        suppress_health_check=list(HealthCheck),
    )
    return pytest.mark.timeout(300 + 60 * EXAMPLES)(chosen(test))


@few
@given(
    lines=random_kernels.programs,
    shape=st.sampled_from(((1, 1, 1), (7, 1, 1), (33, 1, 1), (4, 8, 1), (3, 5, 2))),
    blocks=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_random_kernels(as_python, lines, shape, blocks, seed):
    check(lines, shape, blocks, seed)


@few
@given(
    lines=random_kernels.wave_programs,
    threads=st.sampled_from((1, 65, 130)),
    seed=st.integers(0, 99),
)
def test_random_kernels_with_barriers_of_wavefronts(as_python, lines, threads, seed):
    check(lines, (threads, 1, 1), 1, seed)


def check(lines, shape, blocks, seed):
    threads = math.prod(shape)
    x = np.random.default_rng(seed).integers(0, 50, threads * blocks)
    expected_out, expected_totals = random_kernels.interpret(lines, threads, blocks, x)
    out = cuda.to_device(np.full((threads * blocks, 5), -1.0))
    totals = cuda.to_device(np.zeros(3, np.int64))
    random_kernels.kernel(lines, shape)[blocks, shape](cuda.to_device(x), out, totals)
    text = "\n".join(lines)
    np.testing.assert_allclose(out.copy_to_host(), expected_out, rtol=1e-9, err_msg=text)
    np.testing.assert_array_equal(totals.copy_to_host(), expected_totals, err_msg=text)


@few
@given(
    lines=random_warps.programs,
    threads=st.sampled_from((1, 7, 32, 50, 64)),
    seed=st.integers(0, 99),
)
def test_random_kernels_with_words_of_warps(as_python, lines, threads, seed):
    x = np.random.default_rng(seed).integers(0, 50, threads)
    expected = random_warps.interpret(lines, threads, 1, x)
    out = cuda.to_device(np.full((threads, 3), -1))
    random_warps.kernel(lines, threads)[1, threads](cuda.to_device(x), out)
    np.testing.assert_array_equal(out.copy_to_host(), expected, err_msg="\n".join(lines))


@few
@given(
    lines=random_types.programs,
    threads=st.sampled_from((1, 7, 33)),
    seed=st.integers(0, 99),
)
def test_random_kernels_of_all_number_types_to_the_last_bit(as_python, lines, threads, seed):
    xs, totals = random_types.inputs(threads, 1, seed)
    expected_totals = [total.copy() for total in totals]
    expected = random_types.interpret(lines, threads, 1, xs, expected_totals)
    outs = [cuda.device_array(threads, code) for code in random_types.TYPES]
    counts = [cuda.to_device(total) for total in totals]
    random_types.kernel(lines, threads)[1, threads](*map(cuda.to_device, xs), *outs, *counts)
    for got, wanted in zip((*outs, *counts), (*expected, *expected_totals), strict=True):
        np.testing.assert_array_equal(got.copy_to_host(), wanted, "\n".join(lines))


INTS = ["int8", "int64", "uint32", "uint64"]


@pytest.mark.parametrize("operator", ["+", "//", "%", "&", ">>", "/"])
def test_operations_of_ints_have_the_types_of_compiled_code(monkeypatch, operator):
    """Each pair of types: the results are shifted, which shows their size and sign."""
    names = {"cuda": cuda}
    exec(
        f"def kernel(x, y, out):\n    for i in range(x.size):\n        for j in range(y.size):\n"
        f"            out[i, j] = (x[i] {operator} y[j]) / 4 + (x[i] {operator} 3)\n",
        names,
    )
    values = np.array([1, 5, 100, -1, -100])
    for left in INTS:
        for right in INTS:
            x, y = values.astype(left), values.astype(right)
            if operator in ("<<", ">>"):
                y = np.array([0, 1, 2, 3, 7]).astype(right)
            results = []
            for debugger in (None, _Everything()):
                with monkeypatch.context() as patch:
                    patch.setattr(runtime.current, "debugger", debugger)
                    patch.setattr(launching, "asks", lambda function: True)
                    out = np.zeros((5, 5))
                    cuda.jit(names["kernel"])[1, 1](x, y, out)
                    results.append(out)
            np.testing.assert_array_equal(*results, f"{left} {operator} {right}")


def test_arguments_of_each_sort(as_python):
    record = np.dtype([("n", np.int32), ("v", np.float64, 3)], align=True)

    @cuda.jit
    def all_sorts(array, strided, pair, one, scalar, flag, nothing, dtype, out):
        i = cuda.grid(1)
        local = cuda.local.array(2, dtype)
        local[0] = scalar
        array[i].n = strided[i] + pair[0][i]
        array[i]["v"][1] = pair[1] * local[0]
        if flag and nothing is None:
            out[i] = one.n + one["v"][2]

    array = np.zeros(4, record)
    one = np.zeros(1, record)[0]
    one["n"], one["v"] = 3, (1, 2, 4.5)
    out = cuda.device_array(4)
    pair = (cuda.to_device(np.arange(4)), 2.5)
    all_sorts[1, 4](array, np.arange(8)[::2], pair, one, 7, True, None, np.float32, out)
    assert array["n"].tolist() == [0, 3, 6, 9]
    assert array["v"][:, 1].tolist() == [17.5] * 4
    assert out.copy_to_host().tolist() == [7.5] * 4


def test_declared_types_convert_arguments(as_python):
    @cuda.jit("void(float32[:], uint8)")
    def declared(x, n):
        x[0] = -n

    x = cuda.to_device(np.zeros(1, np.float32))
    declared[1, 1](x, 200)
    assert x.copy_to_host()[0] == np.float32(2**64 - 200)


FACTOR, TABLE = 3, np.array([1.5, 2.5], np.float32)


def test_globals_closures_and_functions(as_python):
    @cuda.jit(device=True)
    def faculty(n):
        if n <= 1:
            return 1
        return n * faculty(n - 1)

    def plain(v, by=2):
        return v * by * FACTOR

    @cuda.jit
    def named(out):
        table = cuda.const.array_like(TABLE)
        out[0] = faculty(5)
        out[1] = plain(1.5)
        out[2] = table[1] + len(out) + math.sqrt(out.shape[0])

    out = np.zeros(9)
    named[1, 1](out)
    assert out[:3].tolist() == [120, 9, 2.5 + 9 + 3]


def test_words_asked_of_compiled_code(as_python):
    @cuda.jit
    def asked(x, out):
        out[0] = cuda.libdevice.erff(x[0])
        out[1] = cuda.fma(x[0], x[1], x[2])
        out[2] = cuda.fp16.hexp(x[0])
        fraction, exponent = cuda.libdevice.frexp(x[2])
        out[3], out[4] = fraction, exponent

    x = np.array([0.5, 3, 10], np.float32)
    out = np.zeros(5)
    asked[1, 1](x, out)
    np.testing.assert_allclose(out, [0.5204999, 11.5, 1.6484375, 0.625, 4], rtol=1e-6)


def test_random_numbers(as_python):
    from haulage.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

    @cuda.jit
    def draw(states, out):
        i = cuda.grid(1)
        out[i] = xoroshiro128p_uniform_float32(states, i)

    def drawn():
        out = cuda.device_array(8, np.float32)
        draw[2, 4](create_xoroshiro128p_states(8, seed=1), out)
        return out.copy_to_host()

    as_it_is = drawn()
    runtime.current.debugger = None
    launching.asks = lambda function: False
    np.testing.assert_array_equal(as_it_is, drawn())


def test_threads_that_wait_in_loops_for_others(as_python):
    @cuda.jit
    def relay(turn, order):
        t = cuda.threadIdx.x
        while cuda.atomic.add(turn, 0, 0) != cuda.blockDim.x - 1 - t:
            pass
        order[t] = turn[0]
        cuda.atomic.add(turn, 0, 1)

    order = np.zeros(8, np.int64)
    relay[1, 8](np.zeros(1, np.int64), order)
    assert order.tolist() == [7, 6, 5, 4, 3, 2, 1, 0]


def test_a_barrier_of_the_grid(as_python):
    @cuda.jit
    def shift(x, y):
        i = cuda.grid(1)
        x[i] = i
        cuda.cg.this_grid().sync()
        y[i] = x[(i + 5) % x.size]

    x, y = cuda.device_array(12), cuda.device_array(12)
    shift[3, 4](x, y)
    assert y.copy_to_host().tolist() == [(i + 5) % 12 for i in range(12)]


def test_words_of_roc(as_python):
    @roc.jit
    def turned(x, y):
        t, n = roc.get_local_id(0), roc.get_local_size(0)
        s = roc.shared.array(64, np.int64)
        s[t] = x[roc.get_global_id(0)]
        roc.barrier(roc.CLK_LOCAL_MEM_FENCE)
        y[roc.get_global_id(0)] = s[n - 1 - t]

    y = np.zeros(128, np.int64)
    turned[2, 64](np.arange(128), y)
    assert y.reshape(2, 64)[:, ::-1].ravel().tolist() == list(range(128))


def test_an_error_is_that_of_compiled_code(as_python):
    @cuda.jit
    def fails(x):
        if cuda.grid(1) == 5:
            raise ValueError("five")

    with pytest.raises(
        KernelError, match=r"ValueError: five; tid=\[1, 0, 0\] ctaid=\[1, 0, 0\]"
    ) as e:
        fails[2, 4](np.zeros(1))
    assert isinstance(e.value, ValueError)


def test_threads_that_never_meet(as_python):
    @cuda.jit
    def apart(x):
        if cuda.threadIdx.x < 3:
            cuda.syncwarp(0xF)
        else:
            cuda.syncthreads()

    with pytest.raises(BarrierError, match=r"0 to 2 .*waiting in syncwarp\(\)\n  3 .*syncthreads"):
        apart[1, 4](np.zeros(1))


def test_a_word_without_a_meaning_is_refused(as_python):
    from haulage.errors import LaunchError
    from haulage.lang.word import word

    @word("own")
    def own(tools):
        """`own()`: 3, int64."""
        return tools.types.int64(), lambda context, builder, sig, args: tools.I64(3)

    @cuda.jit
    def says(x):
        x[0] = own()

    with pytest.raises(LaunchError, match="own means nothing where a kernel runs as Python"):
        says[1, 1](np.zeros(1))


@pytest.mark.parametrize("block", [(0, 0, 0), (2, 1, 0), (1, 3, 0), (2, 4, 0)])
@pytest.mark.parametrize("transposed", [False, True])
def test_each_block_runs_once(stop_in, block, transposed):
    """The code's own order of the blocks is that of neighbours in memory."""

    @cuda.jit
    def count(x):
        i, j = cuda.grid(2)
        x[i, j] += 1

    x = np.zeros((20, 12), np.float32).T if transposed else np.zeros((12, 20), np.float32)
    stop_in(*block)
    count[(3, 5), (4, 4)](x)
    assert (x == 1).all()


@pytest.mark.parametrize("block", [0, 3])
def test_a_compiled_block_that_crashes_does_so_after_the_debugged_one(stop_in, block):
    if not pool.HAS_GUARD:
        pytest.skip("crashes of kernels end the process on this system")

    @cuda.jit
    def stray(x, far):
        i = cuda.grid(1)
        x[i] = 1
        if cuda.blockIdx.x == 1:
            x[i + far] = 1

    x = cuda.to_device(np.zeros(32, np.float32))
    stop_in(block, 0, 0)
    with pytest.raises(IllegalAddress, match=r"stray: a thread of block \[1, 0, 0\] accessed"):
        stray[4, 8](x, 1 << 40)
    assert x.copy_to_host()[block * 8] == 1


def test_what_a_compiled_block_raises_is_told(stop_in):
    @cuda.jit
    def fails(x):
        x[cuda.grid(1)] = 1
        if cuda.grid(1) == 5:
            raise ValueError("five")

    x = cuda.to_device(np.zeros(12, np.float32))
    stop_in(2, 0, 0)
    with pytest.raises(KernelError, match="ValueError: five"):
        fails[3, 4](x)
    assert (x.copy_to_host() == 1).all()
