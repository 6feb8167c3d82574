"""Small words of kernels: bits, choices, single functions; results compared with plain Python."""

import math
from fractions import Fraction

import numba
import numpy as np
import pytest

from haulage import cuda
from haulage.errors import BarrierError, CompileError
from haulage.lang.word import word

INTS = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]
FLOATS = ["f4", "f8"]

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]


def refused(call, message, **arguments):
    """Check that a kernel `x[0] = call` is not compiled, for a reason."""
    names = {"cuda": cuda, "np": np, **arguments}
    exec(f"def kernel(x):\n    x[0] = cuda.{call}\n", names)
    with pytest.raises(CompileError, match=message):
        cuda.jit(names["kernel"])[1, 1](cuda.to_device(np.zeros(2)))


# ---- bits ---------------------------------------------------------------------------------------


@cuda.jit
def bits(x, counted, leading, lowest, back, magnitude):
    i = cuda.grid(1)
    counted[i] = cuda.popc(x[i])
    leading[i] = cuda.clz(x[i])
    lowest[i] = cuda.ffs(x[i])
    back[i] = cuda.brev(x[i])
    magnitude[i] = x[i].bit_count()


@pytest.mark.ptx_always
@pytest.mark.parametrize("kind", INTS)
def test_bits_of_ints(way, kind):
    limits = np.iinfo(kind)
    random = np.random.default_rng(1)
    x = random.integers(limits.min, limits.max, 64, kind, endpoint=True)
    x[:6] = [0, 1, limits.max, limits.min, limits.max - 1, 8]
    out = [cuda.device_array(64, np.int64) for _ in range(3)]
    back = cuda.device_array(64, np.uint64)
    magnitude = cuda.device_array(64, np.int64)
    bits[2, 32](cuda.to_device(x), *out, back, magnitude)
    width, wide = limits.bits, max(limits.bits, 32)
    patterns = [f"{int(value) % 2**width:0{width}b}" for value in x]
    whole = [f"{int(value) % 2**wide:0{wide}b}" for value in x]
    counted, leading, lowest = (each.copy_to_host().tolist() for each in out)
    assert counted == [pattern.count("1") for pattern in patterns]
    assert leading == [len(pattern) - len(pattern.lstrip("0")) for pattern in patterns]
    assert lowest == [len(p) - p.rfind("1") if "1" in p else 0 for p in patterns]
    assert back.copy_to_host().tolist() == [int(pattern[::-1], 2) for pattern in whole]
    assert magnitude.copy_to_host().tolist() == [int(value).bit_count() for value in x]


def test_words_about_bits_have_the_types_of_numba():
    @cuda.jit
    def kinds(a, b, out):
        # An unsigned difference of 32 or 64 bits wraps where one of another type does not.
        out[0] = cuda.popc(a[0]) - np.uint8(9)
        out[1] = cuda.ffs(a[0])
        out[2] = cuda.clz(b[0])
        out[3] = cuda.brev(a[0]) >> np.uint32(24)
        out[4] = cuda.brev(b[0]) >> np.uint64(56)

    signature = numba.void(numba.int8[::1], numba.int64[::1], numba.int64[::1])
    out = cuda.to_device(np.zeros(5, np.int64))
    cuda.jit(signature)(kinds.py_func)[1, 1](
        cuda.to_device(np.array([-1], np.int8)), cuda.to_device(np.array([1])), out
    )
    assert out.copy_to_host().tolist() == [-1, 1, 63, 255, 128]


def test_words_about_bits_take_constants(way):
    @cuda.jit
    def constants(out):
        out[0] = cuda.popc(0b1011)
        out[1] = cuda.clz(1)
        out[2] = cuda.ffs(40)
        out[3] = cuda.brev(np.uint32(1))
        out[4] = (-7).bit_count()

    out = cuda.device_array(5, np.int64)
    constants[1, 1](out)
    assert out.copy_to_host().tolist() == [3, 63, 4, 2**31, 3]


@pytest.mark.parametrize("word", ["popc", "clz", "ffs", "brev"])
def test_words_about_bits_take_no_floats(word):
    refused(f"{word}(x[0])", rf"{word}\(x\): x: expected an int; got float64")


# ---- choice -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*INTS, *FLOATS, "?", "c8", "c16"])
def test_selp_chooses_one_of_two(way, kind):
    @cuda.jit
    def choose(test, a, b, out):
        i = cuda.grid(1)
        out[i, 0] = cuda.selp(test[i] > 1, a[i], b[i])
        out[i, 1] = cuda.selp(test[i], a[i], b[i])

    test = np.arange(32) % 3
    a, b = np.arange(32).astype(kind), np.arange(50, 18, -1).astype(kind)
    out = cuda.device_array((32, 2), kind)
    choose[2, 16](cuda.to_device(test), cuda.to_device(a), cuda.to_device(b), out)
    expected = [np.where(test > 1, a, b), np.where(test, a, b)]
    np.testing.assert_array_equal(out.copy_to_host().T, expected)


def test_selp_refuses_values_of_two_types():
    refused("selp(x[0] > 1, x[0], np.float32(1))", "a and b: expected numbers of one type; got flo")
    refused("selp(x[0], x[0], x[0])", r"selp\(test, a, b\): test: expected a bool; got float64")
    refused("selp(True, x, x)", "a and b: expected numbers of one type; got array")


# ---- functions ----------------------------------------------------------------------------------


@cuda.jit
def fused(a, b, c, out):
    i = cuda.grid(1)
    out[i] = cuda.fma(a[i], b[i], c[i])


@pytest.mark.ptx_always
@pytest.mark.parametrize("kind", FLOATS)
def test_fma_rounds_once(way, kind):
    random = np.random.default_rng(2)
    a, b = random.standard_normal((2, 64)).astype(kind)
    # So near to the product that little more than its rounding is left.
    c = -(a * b)
    out = cuda.device_array(64, kind)
    fused[2, 32](cuda.to_device(a), cuda.to_device(b), cuda.to_device(c), out)
    exact = [
        Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        for x, y, z in zip(a, b, c, strict=True)
    ]
    expected = np.array([float(value) for value in exact], kind)
    assert expected.any()
    np.testing.assert_array_equal(out.copy_to_host(), expected)


@pytest.mark.skipif(not hasattr(math, "fma"), reason="math.fma came with Python 3.13")
def test_fma_of_pythons_own_module(way):
    @cuda.jit
    def of_math(a, out):
        out[0] = math.fma(a[0], a[0], -a[1])

    out = cuda.device_array(1)
    of_math[1, 1](cuda.to_device(np.array([1 + 2.0**-40, 1.0])), out)
    assert out[0] == 2.0**-39 + 2.0**-80


def test_fma_of_mixed_numbers_is_one_of_doubles(way):
    @cuda.jit
    def mixed(a, out):
        out[0] = cuda.fma(a[0], 3, np.float64(0.1))

    out = cuda.device_array(1)
    mixed[1, 1](cuda.to_device(np.array([2], np.float32)), out)
    assert out[0] == 6.1


@cuda.jit
def cube_roots(x, out):
    i = cuda.grid(1)
    out[i] = cuda.cbrt(x[i])


@pytest.mark.parametrize("kind", FLOATS)
def test_cbrt(way, kind):
    x = np.array([0.0, -0.0, 1, -8, 27, 1e-30, np.inf, -np.inf, np.nan, 2.5], kind)
    out = cuda.device_array(10, kind)
    cube_roots[1, 10](cuda.to_device(x), out)
    result = out.copy_to_host()
    np.testing.assert_allclose(result, np.cbrt(x), rtol=2 * np.finfo(kind).eps)
    np.testing.assert_array_equal(np.signbit(result[:2]), [False, True])


def test_functions_of_real_numbers_refuse_others():
    refused(
        "fma(1j, x[0], x[0])", r"fma\(x, y, z\): expected real numbers; got complex128, float64"
    )
    refused("cbrt(x)", r"cbrt\(x\): expected real numbers; got array")


# ---- barriers that gather -----------------------------------------------------------------------


@cuda.jit
def gathered(x, out):
    i = cuda.grid(1)
    out[i, 0] = cuda.syncthreads_count(x[i])
    out[i, 1] = cuda.syncthreads_and(x[i] > 0)
    out[i, 2] = cuda.syncthreads_or(x[i] > 8)


@pytest.mark.ptx_always
def test_barriers_gather_from_each_block(way):
    x = np.random.default_rng(3).integers(0, 4, (6, 48))
    x[1], x[2], x[3, 5], x[4] = 0, 3, 9, 2**32
    out = cuda.device_array((288, 3), np.int64)
    gathered[6, 48](cuda.to_device(x.ravel()), out)
    expected = np.stack([(x != 0).sum(axis=1), (x > 0).all(axis=1), (x > 8).any(axis=1)], axis=1)
    np.testing.assert_array_equal(out.copy_to_host(), np.repeat(expected, 48, axis=0))


@cuda.jit
def sorted_in_turns(x):
    """Sort each block's numbers by swapping neighbours, until no thread had to."""
    room = cuda.shared.array(64, np.int32)
    t = cuda.threadIdx.x
    room[t] = x[cuda.blockIdx.x, t]
    cuda.syncthreads()
    turn, quiet = 0, 0
    while quiet < 2:
        left = 2 * t + turn % 2
        swap = left + 1 < 64 and room[left] > room[left + 1]
        if swap:
            room[left], room[left + 1] = room[left + 1], room[left]
        quiet = 0 if cuda.syncthreads_or(swap) else quiet + 1
        turn += 1
    x[cuda.blockIdx.x, t] = room[t]


@pytest.mark.ptx_always
def test_loops_end_when_all_threads_say_so(way):
    x = np.random.default_rng(4).integers(-99, 99, (3, 64)).astype(np.int32)
    there = cuda.to_device(x)
    sorted_in_turns[3, 64](there)
    np.testing.assert_array_equal(there.copy_to_host(), np.sort(x, axis=1))


def test_barriers_that_gather_work_in_functions_and_on_many_axes(way):
    @cuda.jit(device=True)
    def larger_than(value, limit):
        return cuda.syncthreads_count(value > limit)

    @cuda.jit
    def ranks(x, out):
        i, j, k = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
        for n in range(5):
            count = larger_than(x[i, j, k], n)
            if i == j == k == 0:
                out[n] = count + larger_than(True, 0)
            else:
                larger_than(True, 0)

    x = np.random.default_rng(5).integers(0, 6, (4, 3, 2))
    out = cuda.device_array(5, np.int64)
    if way == "regions":
        with pytest.raises(CompileError, match="cannot be cut at its barriers"):
            ranks[1, (4, 3, 2)](cuda.to_device(x), out)
    else:
        ranks[1, (4, 3, 2)](cuda.to_device(x), out)
        assert out.copy_to_host().tolist() == [(x > n).sum() + 24 for n in range(5)]


def test_a_gathering_barrier_that_some_threads_never_reach_is_an_error():
    @cuda.jit
    def missed(out):
        if cuda.threadIdx.x < 5:
            out[0] = cuda.syncthreads_or(True)
        out[1] = 1

    missed[1, 8](cuda.device_array(2))
    with pytest.raises(BarrierError, match=r"missed.*test_small_words\.py"):
        cuda.synchronize()


@pytest.mark.parametrize("name", ["syncthreads_count", "syncthreads_and", "syncthreads_or"])
def test_gathering_barriers_refuse_floats(name):
    refused(f"{name}(x[0])", rf"{name}\(predicate\): predicate: expected a bool or an int; got fl")


# ---- time ---------------------------------------------------------------------------------------


@pytest.mark.ptx_always
def test_a_block_waits_for_another_one_with_nanosleep():
    @cuda.jit
    def relay(flags, out):
        b = cuda.blockIdx.x
        if b > 0:
            while cuda.ldcv(flags, b - 1) == 0:
                cuda.nanosleep(100)
        out[b] = b + (out[b - 1] if b > 0 else 0)
        cuda.threadfence()
        cuda.stwt(flags, b, 1)

    flags, out = cuda.to_device(np.zeros(8, np.int32)), cuda.to_device(np.zeros(8))
    # Blocks are begun in the order of their numbers, so that each finds the one before it begun.
    relay[8, 1](flags, out)
    np.testing.assert_array_equal(out.copy_to_host(), np.cumsum(np.arange(8)))
    refused("nanosleep(x[0])", r"nanosleep\(ns\): ns: expected an int; got float64")


# ---- hints for caches ---------------------------------------------------------------------------


@cuda.jit
def hinted(x, grid, out, back):
    i = cuda.grid(1)
    out[i, 0] = cuda.ldca(x, i)
    out[i, 1] = cuda.ldcg(x, -1 - i)
    out[i, 2] = cuda.ldcs(grid, (i // 4, i % 4))
    out[i, 3] = cuda.ldlu(x, np.uint8(i))
    out[i, 4] = cuda.ldcv(grid, (-1, 0))
    cuda.stcg(back, (0, i), out[i, 0])
    cuda.stcs(back, (1, i), out[i, 1])
    cuda.stwb(back, (2, i), 7)
    cuda.stwt(back, (-1, i), True)


@pytest.mark.ptx_always
@pytest.mark.parametrize("kind", [*INTS, *FLOATS])
def test_loads_and_stores_with_hints(way, kind):
    x = np.arange(8).astype(kind)
    out, back = cuda.device_array((8, 5), kind), cuda.device_array((4, 8), kind)
    hinted[2, 4](cuda.to_device(x), cuda.to_device(x.reshape(2, 4)), out, back)
    four = np.full(8, 4, kind)
    np.testing.assert_array_equal(out.copy_to_host().T, [x, x[::-1], x, x, four])
    np.testing.assert_array_equal(back.copy_to_host(), [x, x[::-1], four + 3, four - 3])


@pytest.mark.parametrize("kind", [*INTS, *FLOATS])
def test_neighbours_are_each_fetched_again(way, kind):
    @cuda.jit
    def copy(x, out):
        i = cuda.grid(1)
        out[i] += cuda.ldcv(x, i)

    x = np.arange(128).astype(kind) % 100
    out = cuda.to_device(np.ones(128, kind))
    copy[2, 64](cuda.to_device(x), out)
    np.testing.assert_array_equal(out.copy_to_host(), x + np.ones(1, kind))


def test_hints_are_for_fields_of_packed_records_and_strided_arrays_too(way):
    @cuda.jit
    def copy(records, out):
        i = cuda.grid(1)
        cuda.stcs(records["n"], i, cuda.ldca(records["x"], i))
        cuda.stwt(out, i, cuda.ldcv(records["n"], i))

    records = np.zeros(5, [("a", "i1"), ("x", "f8"), ("n", "f4")])
    records["x"] = np.arange(5)
    out = cuda.to_device(np.zeros(10))
    copy[1, 5](cuda.to_device(records), out[::2])
    np.testing.assert_array_equal(out.copy_to_host()[::2], np.arange(5))
    assert not out.copy_to_host()[1::2].any()


def test_hints_take_pointers():
    pointer = numba.types.CPointer(numba.types.int16)

    @cuda.jit(numba.types.void(pointer, pointer))
    def turn(x, out):
        i = cuda.grid(1)
        cuda.stcs(out, 7 - i, cuda.ldca(x, np.uint8(i)))

    x, out = cuda.to_device(np.arange(8, dtype=np.int16)), cuda.device_array(8, np.int16)
    turn[1, 8](x.device_ctypes_pointer.value, out.device_ctypes_pointer.value)
    np.testing.assert_array_equal(out.copy_to_host(), np.arange(8)[::-1])


def test_hints_say_what_they_do_not_take():
    refused("ldca(5, 0)", "ldca: expected an array; got")
    refused("ldcg(x, 1j)", "ldcg: expected int indices; got complex128")
    refused("stcg(x, (0, 0), 1)", "stcg: 2 indices for an array of 1 dimensions")
    refused("stwt(x, 0, 1j)", "stwt: value: expected a real number; got complex128")
    refused(
        "ldcs(C, 0)", "ldcs: array: expected elements that are ints or floats; got c", C=1j * ONE
    )
    refused("stcs(ONE, 0, 1)", "stcs: the array is read-only", ONE=ONE)


ONE = np.ones(1)

# ---- constant memory ----------------------------------------------------------------------------

CONSTANTS = {
    "ints": np.arange(12, dtype=np.int16)[::-1].copy(),
    "floats of order F": np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4)),
    "complex": np.arange(12).reshape(3, 2, 2) * (1 + 2j),
    "strided": np.arange(24)[::2],
    "bools": np.arange(12) % 3 == 0,
    "dates": np.arange(12).astype("M8[s]"),
    "none": np.zeros((0, 3)),
}


@pytest.mark.ptx_always
@pytest.mark.parametrize("name", CONSTANTS)
def test_const_holds_an_array_of_the_program(way, name):
    table = CONSTANTS[name]

    @cuda.jit
    def copy(out, sizes):
        there = cuda.const.array_like(table)
        i = cuda.grid(1)
        sizes[0], sizes[1] = there.size, there.ndim
        if i < there.size:
            out[i] = there.flat[i]

    out = cuda.to_device(np.zeros(12, table.dtype))
    sizes = cuda.device_array(2, np.int64)
    copy[3, 4](out, sizes)
    np.testing.assert_array_equal(out.copy_to_host()[: table.size], table.ravel())
    assert sizes.copy_to_host().tolist() == [table.size, table.ndim]


def test_const_holds_records_and_is_as_it_was_when_compiled(way):
    table = np.array([(1, 2.5), (3, 4.5)], np.dtype([("n", "i4"), ("x", "f8")], align=True))

    @cuda.jit
    def sums(out):
        there = cuda.const.array_like(table)
        i = cuda.grid(1)
        out[i] = there[i].n + there[i].x

    out = cuda.device_array(2)
    sums[1, 2](out)
    table["n"] = 100
    again = cuda.device_array(2)
    sums[1, 2](again)
    assert out.copy_to_host().tolist() == again.copy_to_host().tolist() == [3.5, 7.5]


def test_const_is_read_only_and_of_arrays():
    refused("const.array_like(ONE)[0] = x[0]", "is a readonly array", ONE=ONE)
    refused("const.array_like(5)", "expected an array; got")


# ---- alignment ----------------------------------------------------------------------------------


@word("address")
def address(tools, array):
    """`address(array)`: where an array begins, int64."""

    def generate(context, builder, sig, args):
        data = context.make_array(array)(context, builder, args[0]).data
        return builder.ptrtoint(data, tools.I64)

    return tools.types.int64(array), generate


RECORD = np.dtype([("a", "f8"), ("b", "i4"), ("c", "f8")], align=True)


@pytest.mark.ptx_always
@pytest.mark.parametrize("kind", ["u1", "f4", "c16", RECORD], ids=str)
@pytest.mark.parametrize("alignment", [1, 32, 256])
@pytest.mark.parametrize("count", [3, 1000])
def test_arrays_of_a_kernel_begin_where_they_are_asked_to(way, kind, alignment, count):
    element = numba.from_dtype(np.dtype(kind))

    @cuda.jit
    def places(out):
        first = cuda.shared.array(3, np.uint8, alignment=alignment)
        shared = cuda.shared.array(3, element, alignment)
        small = cuda.local.array(1, np.uint8, alignment=2)
        local = cuda.local.array((count, 2), element, alignment=alignment)
        t = cuda.threadIdx.x
        out[t, 0] = address(shared)
        out[t, 1] = address(local)
        # So that none of them is left out.
        first[t % 3] = small[0] = t
        shared[t % 3] = local[t % 3, 1] = shared[0]
        out[t, 2] = first[0] + small[0]

    out = cuda.device_array((8, 3), np.int64)
    places[1, 8](out)
    shared, local, _ = out.copy_to_host().T
    assert not (shared % alignment).any()
    assert not (local % alignment).any()
    assert len(set(shared)) == 1
    if cuda.get_current_device().kind == "cpu":
        # On a GPU each thread has its own memory at the same addresses.
        assert (np.diff(np.sort(local)) >= 2 * count * np.dtype(kind).itemsize).all()


def test_alignments_are_powers_of_two():
    refused(
        "shared.array(3, np.float64, 24)", "shared.array: alignment must be a positive power of"
    )
    refused("local.array(3, np.float64, alignment=0)", "local.array: alignment must be a positive")
    refused("local.array(3, np.float64, alignment=x.size)", "alignment must be a constant int; got")
    refused(
        "shared.array(0, np.float64, alignment=128)", "starts at a multiple of 64 bytes; got 128"
    )
