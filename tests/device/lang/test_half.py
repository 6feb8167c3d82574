"""float16 in kernels, and the words of `cuda.fp16`: compared with NumPy on every half there is."""

import math

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haulage import compile, cuda, roc
from haulage.errors import CompileError, KernelError, LaunchError
from haulage.lang.word import word

HALF = np.float16
ALL = np.arange(65536, dtype=np.uint16).view(HALF)
# Those with themselves and, each twice, with others.
FIRST = np.tile(ALL, 3)
SECOND = np.concatenate([ALL, *(np.random.default_rng(n).permutation(ALL) for n in (1, 2))])

pytestmark = [pytest.mark.ptx, pytest.mark.ptx_always, pytest.mark.usefixtures("device")]


def same(result, expected, what=""):
    """Check that halves are equal bit by bit, any NaN for any other."""
    expected = np.asarray(expected, HALF)
    with np.errstate(invalid="ignore"):
        bits = result.view(np.uint16) == expected.view(np.uint16)
    wrong = np.flatnonzero(~(bits | (np.isnan(result) & np.isnan(expected))))
    given, wanted = result.ravel()[wrong[:5]], expected.ravel()[wrong[:5]]
    assert not wrong.size, (what, wrong[:5], given, wanted)


def each(function, *arrays, dtype=HALF, **options):
    """What a function of kernels makes of the elements of arrays."""

    @cuda.jit(**options)
    def one(x, out):
        i = cuda.grid(1)
        out[i] = function(x[i])

    @cuda.jit(**options)
    def two(x, y, out):
        i = cuda.grid(1)
        out[i] = function(x[i], y[i])

    @cuda.jit(**options)
    def three(x, y, z, out):
        i = cuda.grid(1)
        out[i] = function(x[i], y[i], z[i])

    out = cuda.device_array(arrays[0].size, dtype)
    there = [cuda.to_device(array) for array in arrays]
    (one, two, three)[len(arrays) - 1][arrays[0].size // 256, 256](*there, out)
    return out.copy_to_host()


def in_double(function):
    """NumPy's function of doubles, for halves."""
    return lambda x: function(x.astype(np.float64))


# ---- words --------------------------------------------------------------------------------------

UNARY = {
    "hsin": in_double(np.sin),
    "hcos": in_double(np.cos),
    "hlog": in_double(np.log),
    "hlog2": in_double(np.log2),
    "hlog10": in_double(np.log10),
    "hexp": in_double(np.exp),
    "hexp2": in_double(np.exp2),
    "hexp10": in_double(lambda x: np.power(10.0, x)),
    "hsqrt": in_double(np.sqrt),
    "hrsqrt": in_double(lambda x: 1 / np.sqrt(x)),
    "hrcp": in_double(lambda x: 1 / x),
    "hfloor": np.floor,
    "hceil": np.ceil,
    "htrunc": np.trunc,
    "hrint": np.rint,
    "hneg": np.negative,
    "habs": np.abs,
}


BINARY = {
    "hadd": np.add,
    "hsub": np.subtract,
    "hmul": np.multiply,
    "hdiv": np.divide,
    "hmax": np.fmax,
    "hmin": np.fmin,
    "heq": np.equal,
    "hge": np.greater_equal,
    "hgt": np.greater,
    "hle": np.less_equal,
    "hlt": np.less,
    # Unlike `!=`, as CUDA has it.
    "hne": lambda x, y: (x < y) | (x > y),
}


def check_words(expected, *arrays):
    """Check words of halves against NumPy's functions, all of them in one kernel."""
    places = ", ".join(f"x[{n}][i]" for n in range(len(arrays)))
    lines = [f"    out[{n}, i] = cuda.fp16.{name}({places})" for n, name in enumerate(expected)]
    names = {"cuda": cuda}
    exec("\n".join(["def kernel(x, out):", "    i = cuda.grid(1)", *lines]), names)
    out = cuda.device_array((len(expected), arrays[0].size), HALF)
    there = tuple(cuda.to_device(array) for array in arrays)
    cuda.jit(names["kernel"])[arrays[0].size // 256, 256](there, out)
    for name, result in zip(expected, out.copy_to_host(), strict=True):
        with np.errstate(all="ignore"):
            wanted = expected[name](*arrays).astype(HALF)
            if name in ("hmax", "hmin"):
                # NumPy leaves the sign of a zero open.
                result, wanted = result + HALF(0), wanted + HALF(0)
        same(result, wanted, name)


def test_words_of_one_half_round_once(way):
    check_words(UNARY, ALL)


def test_words_of_two_halves_round_once(way):
    check_words(BINARY, FIRST, SECOND)


def test_extremes_know_the_signs_of_zeros(way):
    plus, minus = np.zeros(256, HALF), -np.zeros(256, HALF)
    for a, b in ((plus, minus), (minus, plus)):
        assert not np.signbit(each(cuda.fp16.hmax, a, b)).any()
        assert np.signbit(each(cuda.fp16.hmin, a, b)).all()


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_a_fused_product_and_sum_round_once(way):
    third = np.random.default_rng(3).permutation(FIRST)
    # Sums that fall on the middle of two halves, or just beside it.
    third[::3] = (SECOND[::3].astype(np.float64) * FIRST[::3] * 2.0**11).astype(HALF)
    # A double holds the product; so does a long double the sums that decide.
    product = FIRST.astype(np.float64) * SECOND
    exact = product.astype(np.longdouble) + third
    same(each(cuda.fp16.hfma, FIRST, SECOND, third), exact.astype(np.float64).astype(HALF))


def test_words_of_halves_take_other_numbers(way):
    @cuda.jit
    def mixed(x, out):
        out[0] = cuda.fp16.hadd(x[0], 1)
        out[1] = cuda.fp16.hmul(2.5, x[0])
        out[2] = cuda.fp16.hfma(x[0], True, np.float32(0.1))
        out[3] = cuda.fp16.hsqrt(np.int64(4))
        out[4] = cuda.fp16.hgt(x[0], 1)

    out = cuda.device_array(5)
    mixed[1, 1](cuda.to_device(np.array([1.5], HALF)), out)
    assert out.copy_to_host().tolist() == [2.5, 3.75, float(HALF(1.5) + HALF(0.1)), 2, 1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("hadd(x, 1)", r"fp16.hadd\(a, b\): a: expected a real number; got array"),
        ("hsin(1j)", r"fp16.hsin\(a\): a: expected a real number; got complex128"),
        ("hfma(1, 2, (3,))", r"fp16.hfma\(a, b, c\): c: expected a real number"),
        ("htan(1)", "htan"),
    ],
)
def test_what_words_of_halves_refuse(call, message):
    names = {"cuda": cuda}
    exec(f"def kernel(x):\n    x[0] = cuda.fp16.{call}\n", names)
    with pytest.raises(CompileError, match=message):
        cuda.jit(names["kernel"])[1, 1](cuda.to_device(np.zeros(1, HALF)))


# ---- operators ----------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_arithmetic_and_comparisons_are_those_of_numpy(way):
    @cuda.jit
    def kernel(x, y, out, compared):
        i = cuda.grid(1)
        a, b = x[i], y[i]
        out[0, i], out[1, i], out[2, i], out[3, i] = a + b, a - b, a * b, a / b
        out[4, i], out[5, i], out[6, i], out[7, i] = -a, +a, abs(a), float(a)
        compared[0, i], compared[1, i], compared[2, i] = a == b, a != b, a < b
        compared[3, i], compared[4, i], compared[5, i] = a <= b, a > b, a >= b
        compared[6, i] = not a

    x, y = FIRST, SECOND
    out, compared = cuda.device_array((8, x.size), HALF), cuda.device_array((7, x.size), "?")
    kernel[x.size // 256, 256](cuda.to_device(x), cuda.to_device(y), out, compared)
    same(out.copy_to_host(), [x + y, x - y, x * y, x / y, -x, x, abs(x), x])
    expected = [x == y, x != y, x < y, x <= y, x > y, x >= y, x == 0]
    np.testing.assert_array_equal(compared.copy_to_host(), expected)


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@pytest.mark.parametrize("options", [{}, {"fastmath": {"contract"}}])
def test_a_product_and_a_sum_are_rounded_one_after_the_other(way, options):
    result = each(lambda x, y: x * y + x, FIRST, SECOND, **options)
    same(result, FIRST * SECOND + FIRST)
    result = each(lambda x, y: x - y * x, FIRST, SECOND, **options)
    same(result, FIRST - SECOND * FIRST)


def test_no_operation_on_halves_may_be_fused():
    def kernel(x, y):
        x[0] = x[0] * x[1] + x[2]
        y[0] = y[0] * y[1] + y[2]

    code = compile(kernel, "void(float16[::1], float32[::1])")
    lowered = code.stages["lowered"].splitlines()
    assert any("fmul contract float" in line for line in lowered)
    assert any("fmul half" in line for line in lowered)
    assert any("fadd half" in line for line in lowered)


def test_operators_that_change_an_element(way):
    @cuda.jit
    def change(x, y):
        i = cuda.grid(1)
        x[0, i] += y[i]
        x[1, i] -= y[i]
        x[2, i] *= y[i]
        x[3, i] /= y[i]

    random = np.random.default_rng(5)
    x, y = (random.standard_normal(shape).astype(HALF) for shape in ((4, 64), 64))
    there = cuda.to_device(x)
    change[2, 32](there, cuda.to_device(y))
    same(there.copy_to_host(), [x[0] + y, x[1] - y, x[2] * y, x[3] / y])


# What is done, and the type of its result.
TYPES = [
    ("x + x", "f2"),
    ("x / np.int8(3)", "f2"),
    ("x * True", "f2"),
    ("-x", "f2"),
    ("+x", "f2"),
    ("abs(x)", "f2"),
    ("float(x)", "f2"),
    ("min(x, x)", "f2"),
    ("np.float16(0.1)", "f2"),
    ("math.sqrt(x)", "f2"),
    ("math.exp(x)", "f2"),
    ("cuda.fp16.hadd(x, 1)", "f2"),
    ("cuda.selp(True, x, x)", "f2"),
    ("x + np.float32(0.1)", "f4"),
    ("x + np.int16(1)", "f4"),
    ("x % x", "f4"),
    ("x // x", "f4"),
    ("x ** x", "f4"),
    ("x ** 2", "f4"),
    ("math.tan(x)", "f4"),
    ("math.fmod(x, x)", "f4"),
    ("math.hypot(x, x)", "f4"),
    ("np.sin(x)", "f4"),
    ("np.add(x, x)", "f4"),
    ("cuda.fma(x, x, x)", "f4"),
    ("cuda.cbrt(x)", "f4"),
    ("cuda.shfl_sync(0xFFFFFFFF, x, 0)", "f4"),
    ("x + 0.1", "f8"),
    ("x + np.int32(1)", "f8"),
    ("int(x)", "i8"),
    ("math.floor(x)", "f2"),
    ("complex(x)", "c8"),
]


def test_results_have_the_types_of_numba():
    seen = {}

    @word("see")
    def see(tools, number, value):
        seen[number.literal_value] = tools.dtype_of(tools.types.unliteral(value))
        return tools.types.none(number, value), lambda context, *_: context.get_dummy_value()

    names = {"cuda": cuda, "math": math, "np": np, "see": see}
    lines = [f"    see({n}, {expression})" for n, (expression, _) in enumerate(TYPES)]
    exec("\n".join(["def kernel(x):", *lines]), names)
    cuda.jit(names["kernel"])[1, 32](HALF(1.5))
    found = [(expression, seen[n].str[1:]) for n, (expression, _) in enumerate(TYPES)]
    assert found == TYPES


# ---- conversions --------------------------------------------------------------------------------


def numbers_of(kind):
    """Numbers of a dtype that are hard to round to halves, and random ones."""
    random = np.random.default_rng(7)
    if kind == "?":
        return np.array([True, False])
    if kind[0] in "iu":
        limits = np.iinfo(kind)
        numbers = random.integers(limits.min, limits.max, 1024, kind, endpoint=True)
        numbers[:4] = [limits.min, limits.max, 0, 1]
        return np.append(numbers, np.clip(np.arange(-70000, 70000), limits.min, limits.max))
    size = f"u{kind[1]}"
    patterns = random.integers(0, np.iinfo(size).max, 1 << 15, size, endpoint=True).view(kind)
    # Near the middle of two halves, where a rounding before the last one would show.
    middles = (ALL[:31743].astype(kind) + ALL[1:31744].astype(kind)) / 2
    beside = [np.nextafter(middles, np.array(to, kind)) for to in (-1, np.inf)]
    ends = [65519.99, 65520, np.finfo(kind).max, np.inf, -np.inf, -0.0]
    return np.concatenate([patterns, middles, *beside, -middles, ends])


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@pytest.mark.parametrize("kind", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "?"])
def test_conversions_are_those_of_numpy(way, kind):
    @cuda.jit
    def convert(x, to_half, halves, from_half):
        i = cuda.grid(1)
        if i < x.size:
            to_half[i] = x[i]
        if i < halves.size:
            from_half[i] = halves[i]

    numbers, halves = numbers_of(kind).astype(kind), ALL
    if kind[0] in "iu":
        limits = np.iinfo(kind)
        whole = np.trunc(ALL.astype(np.float64))
        halves = ALL[(whole >= limits.min) & (whole <= float(limits.max))]
    to_half, from_half = cuda.device_array(numbers.size, HALF), cuda.device_array(halves.size, kind)
    convert[1 << 10, 256](cuda.to_device(numbers), to_half, cuda.to_device(halves), from_half)
    same(to_half.copy_to_host(), numbers.astype(HALF))
    np.testing.assert_array_equal(from_half.copy_to_host(), halves.astype(kind))


def test_constants_of_the_program_are_halves(way):
    third, table = HALF(1) / HALF(3), np.array([1.5, np.inf, np.nan, -0.0], HALF)

    @cuda.jit
    def constants(out):
        for i in range(4):
            out[i] = table[i]
            out[4 + i] = cuda.const.array_like(table)[i]
        out[8] = third
        out[9] = np.float16(1e9)
        out[10] = np.float16(0.1)

    out = cuda.device_array(11, HALF)
    constants[1, 1](out)
    same(out.copy_to_host(), [*table, *table, third, np.inf, 0.1])


def test_a_scalar_becomes_a_half_where_the_signature_says_so(way):
    @cuda.jit("void(float16[::1], float16)")
    def put(x, value):
        x[0] = value

    x = cuda.to_device(np.zeros(1, HALF))
    for value in (HALF(1.5), 3, 0.1, True):
        put[1, 1](x, value)
        assert x.copy_to_host()[0] == HALF(value)
    with pytest.raises(LaunchError, match="does not fit its declared type"):
        put[1, 1](x, 1e6)


# ---- where halves can be ------------------------------------------------------------------------


def test_halves_in_shared_dynamic_and_local_memory(way):
    @cuda.jit
    def turn(x, out):
        t = cuda.threadIdx.x
        room = cuda.shared.array(64, np.float16)
        launch = cuda.shared.array(0, numba.types.float16)
        own = cuda.local.array((2, 2), "f2")
        own[1, 1] = x[t] + x[t]
        kept = x[t] * x[t]
        room[t], launch[t] = x[t], -x[t]
        cuda.syncthreads()
        other = room[63 - t] + launch[t]
        cuda.syncthreads()
        out[0, t], out[1, t], out[2, t] = other, own[1, 1], kept

    x = np.random.default_rng(9).standard_normal(64).astype(HALF)
    out = cuda.device_array((3, 64), HALF)
    turn[1, 64, 0, 128](cuda.to_device(x), out)
    same(out.copy_to_host(), [x[::-1] - x, x + x, x * x])


def test_arrays_of_halves_of_any_layout(way):
    @cuda.jit
    def double(x, out):
        i, j = cuda.grid(2)
        out[i, j] = x[i, j] + x[-1, -1]

    x = np.arange(48).astype(HALF).reshape(6, 8)
    for source in (x, np.asfortranarray(x), x[::2, 1:], x[::-1, ::-3]):
        out = np.zeros(source.shape, HALF)
        double[1, source.shape](cuda.to_device(source), out)
        same(out, source + source[-1, -1])


@pytest.mark.parametrize("align", [False, True])
def test_halves_in_records(way, align):
    dtype = np.dtype([("n", "i1"), ("h", "f2"), ("v", "f2", (3,))], align=align)

    @cuda.jit
    def change(records):
        record = records[cuda.grid(1)]
        record.h += record.v[1]
        record["v"][2] = record.n

    host = np.zeros(4, dtype)
    host["n"], host["h"], host["v"] = np.arange(4), 0.5, np.arange(12).reshape(4, 3)
    there = cuda.to_device(host)
    change[1, 4](there)
    result = there.copy_to_host()
    assert result["h"].tolist() == [1.5, 4.5, 7.5, 10.5]
    assert result["v"][:, 2].tolist() == [0, 1, 2, 3]


def test_halves_in_tuples_and_device_functions(way):
    @cuda.jit(device=True)
    def both(a, b):
        return a + b, a * b

    @cuda.jit
    def kernel(pair, out):
        total, product = both(*pair)
        out[0], out[1] = total, product

    out = cuda.device_array(2, HALF)
    kernel[1, 1]((HALF(0.1), HALF(3)), out)
    same(out.copy_to_host(), [HALF(0.1) + HALF(3), HALF(0.1) * HALF(3)])


def test_halves_go_through_words_of_warps_and_caches(way):
    @cuda.jit
    def kernel(x, out):
        t = cuda.threadIdx.x
        cuda.stcg(out, (0, t), cuda.ldca(x, t))
        cuda.stwt(out, (1, t), cuda.shfl_xor_sync(0xFFFFFFFF, cuda.ldcv(x, t), 1))
        out[2, t] = cuda.popc(cuda.match_any_sync(0xFFFFFFFF, x[t & ~3]))

    x = np.random.default_rng(11).permutation(ALL[:1024])[:32]
    out = cuda.device_array((3, 32), HALF)
    kernel[1, 32](cuda.to_device(x), out)
    same(out.copy_to_host(), [x, x.reshape(16, 2)[:, ::-1].ravel(), np.full(32, 4)])


def test_halves_in_kernels_of_roc(way):
    @roc.jit
    def scale(x, factor):
        i = roc.get_global_id(0)
        x[i] = x[i] * factor + cuda.fp16.hsqrt(x[i])

    x = np.arange(128).astype(HALF)
    there = roc.to_device(x)
    scale[2, 64](there, HALF(1.5))
    same(there.copy_to_host(), x * HALF(1.5) + np.sqrt(x))


def test_a_half_can_be_printed(device, capsys):
    @cuda.jit
    def show(x):
        print("half", x, -x)

    show[1, 1](HALF(0.1))
    cuda.synchronize()
    assert capsys.readouterr().out == "half 0.1 -0.1\n"


def test_halves_are_summed_up():
    numbers = np.arange(-20, 40).astype(HALF)
    total = cuda.reduce(lambda a, b: a + b)(numbers)
    assert total == numbers.sum()


def test_a_division_by_zero_is_an_error_in_debug_kernels():
    @cuda.jit(debug=True)
    def divide(x):
        x[0] = x[0] / x[1]

    with pytest.raises(KernelError, match="division by zero"):
        divide[1, 1](cuda.to_device(np.zeros(2, HALF)))


def test_what_the_device_says_of_floats(device):
    assert cuda.is_float16_supported() is True
    assert device.supports_float16


# ---- mathematics --------------------------------------------------------------------------------

MATH = {
    math.sin: np.sin,
    math.cos: np.cos,
    math.log: np.log,
    math.log2: np.log2,
    math.log10: np.log10,
    math.exp: np.exp,
    math.sqrt: np.sqrt,
    math.fabs: np.abs,
}


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_functions_of_math_give_halves():
    lines = [f"    out[{n}, i] = math.{function.__name__}(x[i])" for n, function in enumerate(MATH)]
    names = {"cuda": cuda, "math": math}
    exec("\n".join(["def kernel(x, out):", "    i = cuda.grid(1)", *lines]), names)
    out = cuda.device_array((len(MATH), ALL.size), HALF)
    cuda.jit(names["kernel"])[256, 256](cuda.to_device(ALL), out)
    for function, result in zip(MATH, out.copy_to_host(), strict=True):
        same(result, in_double(MATH[function])(ALL).astype(HALF), function)


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_other_functions_work_in_float32():
    x = ALL[np.isfinite(ALL)]
    x = np.resize(x[abs(x) < 100], 1 << 15)
    single = x.astype(np.float32)
    for function, expected in [
        (lambda v: math.tan(v), np.tan),
        (lambda v: math.atan2(v, v), lambda v: np.arctan2(v, v)),
        (lambda v: v**2, np.square),
        (lambda v: np.exp(v), np.exp),
    ]:
        result = each(function, x, dtype=np.float32)
        np.testing.assert_allclose(result, expected(single), rtol=1e-6)
    for function, expected in [
        (lambda v: math.isnan(v), np.isnan),
        (lambda v: math.isinf(v), np.isinf),
        (lambda v: np.isfinite(v), np.isfinite),
    ]:
        np.testing.assert_array_equal(each(function, ALL, dtype=np.bool_), expected(ALL))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(width=16), min_size=4, max_size=4))
def test_chains_of_operations_round_at_each_step(numbers):
    a, b, c, d = (HALF(number) for number in numbers)
    out = cuda.device_array(1, HALF)
    _chain[1, 1](a, b, c, d, out)
    with np.errstate(all="ignore"):
        same(out.copy_to_host(), [(a * b + c) / (a - d) * c - b * d])


@cuda.jit
def _chain(a, b, c, d, out):
    out[0] = (a * b + c) / (a - d) * c - b * d
