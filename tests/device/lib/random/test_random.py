"""`cuda.random`: states and numbers are those of Numba, whose functions run on the host here."""

import functools
import importlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haulage import cuda, roc
from haulage.cuda import random
from haulage.errors import CompileError, LaunchError

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]

DRAWS = {
    "xoroshiro128p_next": np.uint64,
    "xoroshiro128p_uniform_float32": np.float32,
    "xoroshiro128p_uniform_float64": np.float64,
    "xoroshiro128p_normal_float32": np.float32,
    "xoroshiro128p_normal_float64": np.float64,
}


@functools.cache
def numbas():
    module = importlib.import_module("numba.cuda.random")
    assert module.__name__ == "numba.cuda.random"
    return module


def states_of_numba(n, seed, start=0):
    states = np.empty(n, random.xoroshiro128p_dtype)
    numbas().init_xoroshiro128p_states_cpu(states, np.uint64(seed % 2**64), np.uint64(start))
    return states


def drawn_by_numba(name, states, draws):
    """What Numba draws; `states` are moved on."""
    import numba

    draw = getattr(numbas(), name)

    @numba.njit
    def run(states, out):
        for i in range(out.shape[0]):
            for k in range(out.shape[1]):
                out[i, k] = draw(states, i)

    out = np.empty((states.size, draws), DRAWS[name])
    run(states, out)
    return out


def kernel_of_cuda(draw):
    @cuda.jit
    def kernel(states, out):
        i = cuda.grid(1)
        for k in range(out.shape[1]):
            out[i, k] = draw(states, i)

    return kernel


def kernel_of_roc(draw):
    @roc.jit
    def kernel(states, out):
        i = roc.get_global_id(0)
        for k in range(out.shape[1]):
            out[i, k] = draw(states, i)

    return kernel


@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1, -(2**63), 123_456_789_012_345])
@pytest.mark.parametrize(("n", "start"), [(0, 0), (1, 0), (1, 9), (2, 1), (777, 3), (9000, 0)])
def test_states_are_those_of_numba(seed, n, start):
    states = random.create_xoroshiro128p_states(n, seed, start)
    assert (states.shape, states.dtype) == ((n,), random.xoroshiro128p_dtype)
    np.testing.assert_array_equal(states.copy_to_host(), states_of_numba(n, seed, start))


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(
    seed=st.integers(-(2**63), 2**64 - 1),
    start=st.integers(0, 2**64 - 1),
    n=st.integers(1, 5000),
    place=st.integers(0, 4999),
)
def test_any_part_of_the_generators_of_a_seed_can_be_made_alone(seed, start, n, place):
    place %= n
    start = min(start, 2**64 - 1 - place)
    whole = random.create_xoroshiro128p_states(n, seed, start).copy_to_host()
    part = random.create_xoroshiro128p_states(n - place, seed, start + place).copy_to_host()
    np.testing.assert_array_equal(whole[place:], part)


def test_no_two_states_of_many_are_the_same():
    states = random.create_xoroshiro128p_states(100_000, seed=1).copy_to_host()
    assert np.unique(states).size == states.size


@pytest.mark.parametrize("make", [kernel_of_cuda, kernel_of_roc])
@pytest.mark.parametrize("name", DRAWS)
def test_numbers_are_those_of_numba(way, name, make):
    states = random.create_xoroshiro128p_states(128, seed=5)
    out = cuda.device_array((128, 30), DRAWS[name])
    make(getattr(random, name))[2, 64](states, out)
    expected_states = states_of_numba(128, 5)
    expected = drawn_by_numba(name, expected_states, 30)
    np.testing.assert_array_equal(states.copy_to_host(), expected_states)
    if "normal" in name:
        # The logarithm is a float32 in both, which may be off by one unit of its last place.
        pair = (each.astype(np.float32) for each in (out.copy_to_host(), expected))
        np.testing.assert_array_max_ulp(*pair, maxulp=4)
    else:
        np.testing.assert_array_equal(out.copy_to_host(), expected)


@pytest.mark.parametrize("name", [name for name in DRAWS if "float" in name])
def test_moments(name):
    out = cuda.device_array((512, 500), DRAWS[name])
    kernel_of_cuda(getattr(random, name))[4, 128](
        random.create_xoroshiro128p_states(512, seed=2), out
    )
    x = out.copy_to_host().astype(np.float64)
    # Four standard errors of each moment of 256000 numbers.
    if "uniform" in name:
        assert 0 <= x.min() < 1e-4 < 0.9999 < x.max() < 1
        assert abs(x.mean() - 0.5) < 0.0023
        assert abs(x.var() - 1 / 12) < 0.0006
    else:
        assert 4 < abs(x).max() < 7
        assert abs(x.mean()) < 0.008
        assert abs(x.var() - 1) < 0.0112
        assert abs((x**3).mean()) < 0.031
    # Neighbours in one sequence, and the same draw of neighbouring generators.
    assert abs(np.corrcoef(x[:, :-1].ravel(), x[:, 1:].ravel())[0, 1]) < 0.008
    assert abs(np.corrcoef(x[:-1].ravel(), x[1:].ravel())[0, 1]) < 0.008


def test_seeding_and_jumping_in_a_kernel(way):
    @cuda.jit
    def kernel(states, seeds, own):
        i = cuda.grid(1)
        random.init_xoroshiro128p_state(states, i, seeds[i])
        for _ in range(i):
            random.xoroshiro128p_jump(states, i)
        room = cuda.local.array(1, random.xoroshiro128p_dtype)
        random.init_xoroshiro128p_state(room, 0, seeds[i])
        own[i] = random.xoroshiro128p_next(room, 0)

    seeds = np.array([0, 1, -1, 2**62], np.int64)
    states, own = cuda.device_array(4, random.xoroshiro128p_dtype), cuda.device_array(4, np.uint64)
    kernel[1, 4](states, seeds, own)
    expected = [states_of_numba(1, int(seed), k)[0] for k, seed in enumerate(seeds)]
    assert states.copy_to_host().tolist() == [state.tolist() for state in expected]
    firsts = [states_of_numba(1, int(seed)) for seed in seeds]
    assert own.copy_to_host().tolist() == [
        drawn_by_numba("xoroshiro128p_next", first, 1).item() for first in firsts
    ]


def test_the_parts_of_the_draws(way):
    @cuda.jit
    def kernel(x, rotated, single, double):
        i = cuda.grid(1)
        rotated[i] = random.rotl(x[i], 5)
        single[i] = random.uint64_to_unit_float32(x[i])
        double[i] = random.uint64_to_unit_float64(x[i])

    x = np.array([0, 1, 2**11, 2**63, 2**64 - 1, 2**64 - 2**38], np.uint64)
    rotated, single, double = (cuda.device_array(6, kind) for kind in ("u8", "f4", "f8"))
    kernel[1, 6](x, rotated, single, double)
    assert rotated.copy_to_host().tolist() == [(int(v) << 5 | int(v) >> 59) % 2**64 for v in x]
    unit = [(int(v) >> 11) / 2**53 for v in x]
    assert double.copy_to_host().tolist() == unit
    # The last but one is the largest number below 1, which float32 rounds to 1.
    assert single.copy_to_host().tolist() == np.float32(unit).tolist()
    assert single.copy_to_host()[4] == 1


@pytest.mark.parametrize("index", [np.uint64(2), np.int8(2), np.uint32(2)], ids=type)
def test_an_index_of_any_int_type(index):
    @cuda.jit
    def kernel(states, index, out):
        out[0] = random.xoroshiro128p_next(states, index)

    states, out = random.create_xoroshiro128p_states(4, 1), cuda.device_array(1, np.uint64)
    kernel[1, 1](states, index, out)
    expected = drawn_by_numba("xoroshiro128p_next", states_of_numba(4, 1)[2:3], 1)
    assert out.copy_to_host()[0] == expected[0, 0]


def test_drawing_in_a_function_compiled_by_numba():
    import numba

    @numba.njit
    def twice(states, i):
        return 2 * random.xoroshiro128p_uniform_float64(states, i)

    states = random.create_xoroshiro128p_states(8, 3)
    out = cuda.device_array((8, 1))
    kernel_of_cuda(twice)[1, 8](states, out)
    expected = drawn_by_numba("xoroshiro128p_uniform_float64", states_of_numba(8, 3), 1)
    np.testing.assert_array_equal(out.copy_to_host(), 2 * expected)


def test_states_are_written_in_the_stream():
    stream = cuda.stream()
    states = random.create_xoroshiro128p_states(50, 1, stream=stream)
    assert states.stream is stream
    out = cuda.device_array((50, 1), np.uint64)
    kernel_of_cuda(random.xoroshiro128p_next)[1, 50, stream](states, out)
    random.init_xoroshiro128p_states(states, 4, 2, stream=stream)
    expected = drawn_by_numba("xoroshiro128p_next", states_of_numba(50, 1), 1)
    np.testing.assert_array_equal(out.copy_to_host(stream=stream), expected)
    np.testing.assert_array_equal(states.copy_to_host(stream=stream), states_of_numba(50, 4, 2))


def test_beginning_anew_in_an_array_that_is_there():
    every_other = cuda.to_device(np.zeros(20, random.xoroshiro128p_dtype))
    random.init_xoroshiro128p_states(every_other[::2], 6)
    expected = np.zeros(20, random.xoroshiro128p_dtype)
    expected[::2] = states_of_numba(10, 6)
    np.testing.assert_array_equal(every_other.copy_to_host(), expected)
    managed = cuda.managed_array(10, random.xoroshiro128p_dtype)
    random.init_xoroshiro128p_states(managed, 6)
    np.testing.assert_array_equal(managed, expected[::2])
    on_host = np.zeros(20, random.xoroshiro128p_dtype)
    random.init_xoroshiro128p_states_cpu(on_host[::2], 6)
    np.testing.assert_array_equal(on_host, expected)


def test_integrating_by_chance():
    """The example of Numba's documentation, in our own words: the integral of 1/x."""

    @cuda.jit(device=True)
    def integrand(x):
        return 1 / x

    @cuda.jit
    def sample(out, states, low, high):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = integrand(low + (high - low) * random.xoroshiro128p_uniform_float32(states, i))

    add = cuda.reduce(lambda a, b: a + b)
    samples = 200_000
    out = cuda.device_array(samples, np.float32)
    for low, high in ((1, 2), (2, 3)):
        states = random.create_xoroshiro128p_states(samples, seed=42)
        sample.forall(samples)(out, states, low, high)
        assert abs(add(out) / samples * (high - low) - math.log(high / low)) < 0.001


def test_the_ratio_of_a_circle_by_chance(way):
    @cuda.jit
    def inside(states, draws, counts):
        i = cuda.grid(1)
        count = 0
        for _ in range(draws):
            x = random.xoroshiro128p_uniform_float64(states, i)
            y = random.xoroshiro128p_uniform_float64(states, i)
            count += x * x + y * y < 1
        counts[i] = count

    counts = cuda.device_array(512, np.int64)
    inside[4, 128](random.create_xoroshiro128p_states(512, seed=3), 200, counts)
    # Three standard errors of 102400 points.
    assert abs(4 * counts.copy_to_host().sum() / (512 * 200) - math.pi) < 0.0155


def test_random_has_the_names_of_numba_in_both_vocabularies():
    theirs = {
        name
        for name, value in vars(numbas()).items()
        if "xoro" in name or getattr(value, "__module__", "") == "numba.cuda.random"
    }
    assert theirs - set(dir(random)) == {"xoroshiro128p_type"}
    assert random.xoroshiro128p_type == numbas().xoroshiro128p_type
    assert cuda.random is random
    assert roc.random.xoroshiro128p_type == random.xoroshiro128p_type
    assert {roc.random.__dict__[name] is random.__dict__[name] for name in random.__all__} == {True}
    with pytest.raises(AttributeError, match="have no 'mersenne_twister'"):
        random.mersenne_twister  # noqa: B018


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 0), "n=-1; expected 0 to"),
        ((1, 2**64), "seed=18446744073709551616; expected -9223372036854775808 to"),
        ((1, -(2**63) - 1), "seed=-9223372036854775809; expected"),
        ((1, 0, -1), "subsequence_start=-1; expected 0 to"),
        ((1, 0, 2**64), "subsequence_start=18446744073709551616; expected 0 to"),
    ],
)
def test_numbers_out_of_range(arguments, message):
    with pytest.raises(ValueError, match=message):
        random.create_xoroshiro128p_states(*arguments)


@pytest.mark.parametrize("arguments", [(2.0, 0), (2, np.nan), (2, "1"), (2, None), (2, 0, 0.5)])
def test_what_is_no_int(arguments):
    with pytest.raises(TypeError, match="expected an int"):
        random.create_xoroshiro128p_states(*arguments)


@pytest.mark.parametrize("seed", [1795268826.9, np.float32(2.5), -0.5, -7.9, 2.0**63])
def test_a_float_seeds_with_its_whole_part(seed):
    made = random.create_xoroshiro128p_states(3, seed=seed).copy_to_host()
    assert np.array_equal(made, random.create_xoroshiro128p_states(3, seed=int(seed)))
    again = np.empty(3, random.xoroshiro128p_dtype)
    random.init_xoroshiro128p_states_cpu(again, seed)
    assert np.array_equal(made, again)


def test_a_float_seed_is_numbas():
    made = random.create_xoroshiro128p_states(3, seed=1795268826.9).copy_to_host()
    theirs = np.empty(3, random.xoroshiro128p_dtype)
    numbas().init_xoroshiro128p_states_cpu(theirs, 1795268826.9, 0)
    assert np.array_equal(made, theirs)


def test_arrays_that_are_no_states():
    for array in (np.zeros(3, random.xoroshiro128p_dtype), 5, None):
        with pytest.raises(TypeError, match=r"expected a device array; got"):
            random.init_xoroshiro128p_states(array, 1)
    for array in (
        cuda.device_array(3, np.uint64),
        cuda.device_array((3, 2), random.xoroshiro128p_dtype),
        cuda.device_array(3, [("s0", np.uint64), ("s1", np.int64)]),
    ):
        with pytest.raises(TypeError, match="expected one axis and xoroshiro128p_dtype"):
            random.init_xoroshiro128p_states(array, 1)
    with pytest.raises(TypeError, match="expected a NumPy array"):
        random.init_xoroshiro128p_states_cpu(cuda.device_array(3, random.xoroshiro128p_dtype), 1)


def test_draws_are_for_kernels_and_from_states_only():
    states = random.create_xoroshiro128p_states(3, 1)
    with pytest.raises(LaunchError, match="only kernels can call it"):
        random.xoroshiro128p_next(states, 0)
    for wrong in (cuda.device_array(3, np.uint64), 5):
        with pytest.raises(CompileError):
            kernel_of_cuda(random.xoroshiro128p_next)[1, 1](wrong, cuda.device_array((3, 1)))
