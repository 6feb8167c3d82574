"""Versions of code by unit strides and signs of integers: results are NumPy's whatever a launch
finds, and launches take the version that suits them."""

import enum
import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import haulage
from haulage import SmartArray, cuda
from haulage.kernel.overload import MOST_VERSIONS

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]
WAYS = ("regions", "coroutines", "scalar")
PAIR = np.dtype([("a", "f8"), ("b", "i4"), ("c", "i4")])


def combined(x, y, out):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = 2 * x[i, j] + y[i - 1, j] - y[i, j - 1]


@cuda.jit(device=True)
def sum_of(row):
    total = row[0] - row[0]
    for k in range(row.size):
        total += row[k]
    return total


def summed(x, y, out):
    i, k = cuda.grid(2)
    if i < x.shape[0] and k < x.shape[2]:
        out[i, k] = sum_of(x[i, :, k]) + sum_of(y[i::2, k])


def strides_of(x, out):
    i = cuda.grid(1)
    if i < x.ndim:
        out[i] = x.strides[i]


@pytest.fixture(scope="module")
def kernels():
    """Kernels that are compiled once for all examples."""
    return {
        "summed": cuda.jit("void(float64[:,:,:], float64[:,:], float64[:,:])")(summed),
        "strides": cuda.jit("void(float32[:,:], int64[:])")(strides_of),
        **{
            dtype: cuda.jit(f"void({dtype}[:,:], {dtype}[:,:], {dtype}[:,:])")(combined)
            for dtype in ("float64", "int32", "complex64")
        },
    }


@st.composite
def views(draw, axes):
    """The shape of an array, and a function that gives a view of it with these axes."""
    order = draw(st.permutations(range(len(axes))))
    wide, index = [], []
    for size in axes:
        step, start = draw(st.sampled_from((1, 1, 1, 2, -1, -3))), draw(st.integers(0, 1))
        reach = max(0, size - 1) * abs(step)
        wide.append(start + reach + 1 + draw(st.sampled_from((0, 0, 3))))
        if not size:
            index.append(slice(start, start))
        elif step > 0:
            index.append(slice(start, start + reach + 1, step))
        else:
            index.append(slice(start + reach, start - 1 if start else None, step))
    shape = [0] * len(axes)
    for axis, place in enumerate(order):
        shape[place] = wide[axis]
    return tuple(shape), lambda array: array.transpose(order)[tuple(index)]


def numbers(shape, dtype):
    return (np.arange(np.prod(shape)).reshape(shape) % 251).astype(dtype)


def given_as(how, shape, dtype, view):
    """The view of an array of numbers as an argument, and a function that reads it then."""
    host = numbers(shape, dtype)
    if how == "host":
        return view(host), lambda: view(host)
    array = cuda.to_device(host) if how == "device" else SmartArray(host)
    seen = view(array)
    return seen, lambda: seen.copy_to_host() if how == "device" else np.asarray(seen)


SIZES = st.sampled_from((0, 1, 2, 7, 20))
OFTEN = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.mark.parametrize("how", ["host", "device", "smart"])
@pytest.mark.parametrize("dtype", ["float64", "int32", "complex64"])
@OFTEN
@given(data=st.data())
def test_results_are_those_of_numpy_whatever_the_strides(kernels, dtype, how, data):
    axes = data.draw(st.tuples(SIZES, SIZES))
    made = [data.draw(views(axes)) for _ in range(3)]
    x, y = (view(numbers(shape, dtype)) for shape, view in made[:2])
    args, read = zip(*(given_as(how, shape, dtype, view) for shape, view in made), strict=True)
    kernels[dtype][(3, 3), (8, 8)](*args)
    wanted = 2 * x + np.roll(y, 1, 0) - np.roll(y, 1, 1)
    np.testing.assert_array_equal(read[2](), wanted)


@OFTEN
@given(data=st.data())
def test_functions_take_rows_of_arrays_with_any_strides(kernels, way, data):
    axes = data.draw(st.tuples(*[st.sampled_from((1, 2, 5))] * 3))
    made = [data.draw(views(each)) for each in (axes, axes[::2], axes[::2])]
    args = [view(numbers(shape, "float64")) for shape, view in made]
    kernels["summed"][(1, 1), (8, 8)](*args)
    x, y, out = args
    rows = [y[i::2].sum(0) for i in range(len(y))]
    np.testing.assert_array_equal(out, x.sum(1) + rows)


def doubled(x, out):
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[i, j] + x[i, j]


TWO = "void(float64[:,:], float64[:,:])"
OF_ROWS, OF_COLUMNS = {"x": "last", "out": "last"}, {"x": "first", "out": "first"}
PLAIN = np.arange(30.0 * 40).reshape(30, 40)

VIEWS = {
    "rows": (lambda x: x, OF_ROWS),
    "a part of the rows": (lambda x: x[1:-1, 2:], OF_ROWS),
    "every other row": (lambda x: x[::2], OF_ROWS),
    "rows from the last one": (lambda x: x[::-1], OF_ROWS),
    "columns": (lambda x: x.T, OF_COLUMNS),
    "a part of the columns": (lambda x: x.T[3:, 1:-1], OF_COLUMNS),
    "every other element": (lambda x: x[:, ::2], {}),
    "rows backwards": (lambda x: x[:, ::-1], {}),
}


def launched(kernel, x, out):
    kernel[(5, 5), (8, 8)](x, out)
    return np.asarray(out.copy_to_host() if hasattr(out, "copy_to_host") else out)


def versions(kernel):
    """The unit strides of the codes that were loaded, in order."""
    (overload,) = kernel.overloads.values()
    return [loaded.code.metadata["unit_strides"] for loaded in overload.loaded.values()]


@pytest.fixture
def has_versions(device):
    if not device.properties.code_in_versions:
        pytest.skip("there is the general code alone")


@pytest.mark.usefixtures("has_versions")
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(np.array, marks=pytest.mark.in_order),  # else of copies without gaps
        cuda.to_device,
        SmartArray,
        cuda.mapped_array,
    ],
)
@pytest.mark.parametrize(("view", "wanted"), VIEWS.values(), ids=VIEWS)
def test_launches_take_the_version_for_their_arrays(way, view, wanted, make):
    if make is cuda.mapped_array:
        x, out = cuda.mapped_array(PLAIN.shape), cuda.mapped_array(PLAIN.shape)
        x[:], out[:] = PLAIN, 0
    else:
        x, out = make(PLAIN), make(np.zeros_like(PLAIN))
    kernel = cuda.jit(TWO)(doubled)
    np.testing.assert_array_equal(launched(kernel, view(x), view(out)), 2 * view(PLAIN))
    assert versions(kernel) == [wanted]


@pytest.mark.usefixtures("has_versions")
def test_other_strides_take_another_version_and_each_is_right():
    kernel = cuda.jit(TWO)(doubled)
    seen = (VIEWS[each] for each in ("rows", "columns", "every other element", "rows", "columns"))
    for view, _ in seen:
        x, out = (view(cuda.to_device(each)) for each in (PLAIN, np.zeros_like(PLAIN)))
        np.testing.assert_array_equal(launched(kernel, x, out), 2 * view(PLAIN))
    assert versions(kernel) == [OF_ROWS, OF_COLUMNS, {}]


@pytest.mark.usefixtures("has_versions")
def test_kernels_without_signatures_have_versions_for_views():
    kernel = cuda.jit(doubled)
    x, out = cuda.to_device(PLAIN)[1:-1, 2:], cuda.to_device(np.zeros((28, 38)))
    np.testing.assert_array_equal(launched(kernel, x, out), 2 * PLAIN[1:-1, 2:])
    assert versions(kernel) == [{"x": "last"}]


@pytest.mark.usefixtures("has_versions")
def test_an_array_of_one_column_has_the_stride_that_it_has():
    kernel = cuda.jit(TWO)(doubled)
    for x in (PLAIN[:, :1], np.ascontiguousarray(PLAIN[:, :1]), np.arange(30.0)[:, None]):
        out = np.zeros_like(x)
        np.testing.assert_array_equal(launched(kernel, x.copy(order="K"), out), 2 * x)
        np.testing.assert_array_equal(launched(kernel, np.array(x)[:, :], out), 2 * x)


@OFTEN
@given(data=st.data())
def test_a_kernel_is_told_the_strides_that_there_are(kernels, data):
    shape, view = data.draw(views(data.draw(st.tuples(SIZES, SIZES))))
    x, out = view(cuda.to_device(numbers(shape, "float32"))), np.zeros(2, np.int64)
    kernels["strides"][1, 2](x, out)
    assert tuple(out) == x.strides


def added(x, y, z, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + 10 * y[i] + 100 * z[i]


def test_there_are_no_more_versions_than_some(device):
    kernel = cuda.jit("void(f8[:], f8[:], f8[:], f8[:])")(added)
    for steps in itertools.product((1, 2), repeat=4):
        x, y, z, out = (np.arange(40.0)[::step][:20] for step in steps)
        wanted = x + 10 * y + 100 * z
        kernel[1, 32](x, y, z, out)
        np.testing.assert_array_equal(out, wanted)
    found = versions(kernel) if device.properties.code_in_versions else []
    assert len(found) <= MOST_VERSIONS + 1


def of_pairs(pairs, rows, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = pairs[0][i].a + pairs[1][i].b + rows[0, i]


def test_arrays_in_tuples_and_of_records():
    kernel = cuda.jit(of_pairs)
    wide = np.zeros(40, PAIR)
    wide["a"], wide["b"] = np.arange(40), np.arange(40) * 3
    rows = np.arange(120.0).reshape(3, 40)[:, 2:22]
    for first, second in ((wide[:20], wide[::2]), (wide[::2], wide[20:]), (wide[::2], wide[1::2])):
        out = np.zeros(20)
        kernel[1, 32]((first, second), rows, out)
        np.testing.assert_array_equal(out, first["a"] + second["b"] + rows[0])


@pytest.mark.usefixtures("has_versions")
def test_arrays_in_tuples_are_named_by_their_places():
    def of_tuple(pair, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = pair[0][i] + pair[1][i]

    kernel = cuda.jit("void(UniTuple(float64[:], 2), float64[:])")(of_tuple)
    x, out = np.arange(20.0), np.zeros(10)
    there = cuda.to_device(x)
    kernel[1, 32]((there[:10], there[::2]), out)
    np.testing.assert_array_equal(out, x[:10] + x[::2])
    assert versions(kernel) == [{"pair[0]": "last", "out": "last"}]


# ---- integers that are not negative -------------------------------------------------------------


def at_places(x, j, k, out):
    i = cuda.grid(1)
    if i == 0:
        out[0], out[1], out[2] = j, k, k - 1
        out[3] = 1 if k >= 0 else 2
        if -x.size <= j < x.size and -x.size <= k < x.size:
            out[4] = x[j] + x[k]


def wanted_at(x, j, k):
    places = j in range(-x.size, x.size) and k in range(-x.size, x.size)
    return [j, k, k - 1, 1 if k >= 0 else 2, x[j] + x[k] if places else 0]


NUMBERS = st.sampled_from((-(2**31), -20, -1, 0, 1, 19, 20, 2**31 - 1))
WIDE_NUMBERS = NUMBERS | st.sampled_from((2**31, 2**32, 2**32 - 1, 1 - 2**63, 2**63 - 1))
MAKERS = st.sampled_from((int, np.int64, np.longlong))


@pytest.fixture(scope="module")
def of_integers():
    return {
        "i8": cuda.jit("void(int64[::1], int64, int64, int64[::1])")(at_places),
        "i4": cuda.jit("void(int64[::1], int32, int32, int64[::1])")(at_places),
        "lazy": cuda.jit(at_places),
    }


@pytest.mark.parametrize("declared", ["i8", "i4", "lazy"])
@OFTEN
@given(data=st.data())
def test_integers_are_what_they_are_whatever_their_sign(of_integers, declared, data):
    numbers = NUMBERS if declared == "i4" else WIDE_NUMBERS
    j, k = data.draw(numbers), data.draw(numbers)
    x, out = np.arange(20) * 7, np.zeros(5, np.int64)
    make = data.draw(MAKERS)
    of_integers[declared][1, 32](x, make(j), make(k), out)
    assert list(out) == wanted_at(x, j, k)


def nonnegative(kernel):
    """The integers that the codes which were loaded take for not negative, in order."""
    return [
        tuple(loaded.code.metadata["nonnegative"])
        for overload in kernel.overloads.values()
        for loaded in overload.loaded.values()
    ]


@pytest.mark.usefixtures("has_versions")
def test_launches_take_the_version_for_their_integers(way):
    kernel = cuda.jit("void(int64[::1], int64, int64, int64[::1])")(at_places)
    x = np.arange(20) * 7
    for j, k in ((3, -1), (3, 2), (0, -20), (-1, -1), (2**31, 5), (3, 4)):
        out = np.zeros(5, np.int64)
        kernel[1, 32](x, j, k, out)
        assert list(out) == wanted_at(x, j, k)
    assert nonnegative(kernel) == [("j",), ("j", "k"), (), ("k",)]


class Place(enum.IntEnum):
    LAST = -1
    SECOND = 1


def of_entries(x, places, out):
    if cuda.grid(1) == 0:
        out[0] = x[places[0]] + 100 * x[places[1][0]]


def of_one(x, place, out):
    if cuda.grid(1) == 0:
        out[0] = x[place]


def test_integers_in_tuples():
    kernel, x = cuda.jit(of_entries), np.arange(20)
    for first, second in itertools.product((-2, 3), repeat=2):
        out = np.zeros(1, np.int64)
        kernel[1, 32](x, (first, (second, 1.5)), out)
        assert out[0] == x[first] + 100 * x[second]


@pytest.mark.parametrize("declared", ["int64", "int32", "int16", "int8", None])
def test_any_integer_can_be_the_sign_of_another_one(declared):
    signature = f"void(int64[::1], {declared}, int64[::1])" if declared else None
    kernel, x = cuda.jit(signature)(of_one), np.arange(300)
    given_as = [Place.SECOND, Place.LAST, Place.SECOND, np.int8(-1), np.uint8(7), -2, 5, -3, 4]
    if declared is not None:
        given_as.append(True)
    if declared == "int8":
        given_as.append(200)  # the same bits as -56
    for place in given_as:
        out = np.zeros(1, np.int64)
        kernel[1, 32](x, place, out)
        assert out[0] == x[int(np.array(place).astype(declared or "int64"))], place


def test_graphs_keep_the_integers_that_were_captured():
    kernel = cuda.jit("void(int64[::1], int64, int64[::1])")(of_one)
    x, out = cuda.to_device(np.arange(20)), cuda.to_device(np.zeros(1, np.int64))
    for place in (-1, 3):
        with cuda.graph() as graph:
            kernel[1, 32](x, place, out)
        kernel[1, 32](x, -5 - place, out)
        graph.launch()
        assert out.copy_to_host()[0] == place % 20


def behind(x, k, n, out):
    i = k + 1 + cuda.grid(1)
    if i < n:
        out[i, k] = x[i]


BEHIND = "void(float64[::1], int64, int32, float64[:, ::1])"


def test_code_for_integers_that_are_not_negative_has_no_wraparound():
    general = haulage.compile(behind, BEHIND)
    assert general.metadata["nonnegative"] == ()
    assert "select" in general.stages["clean"]
    for asked, wanted in ((True, ("k", "n")), (["k"], ("k",))):
        code = haulage.compile(behind, BEHIND, nonnegative=asked)
        assert code.metadata["nonnegative"] == wanted
        assert "select" not in code.stages["clean"]


def test_sizes_of_arrays_are_known_not_to_be_negative():
    def middle(x, out):
        out[x.shape[0] // 2] = x[out.size // 2, x.shape[1] // 3]

    code = haulage.compile(middle, "void(float64[:, ::1], float64[::1])")
    assert "select" not in code.stages["clean"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"nonnegative": ["x"]}, "'x' is no signed integer .* these are: k, n"),
        ({"unit_strides": {"x": "last"}}, "'x' is no array .* these are: none"),
        ({"unit_strides": "middle"}, "'last' or 'first', got 'middle'"),
        ({"nonnegative": True, "target": "sm_90"}, "only code for the CPU"),
    ],
)
def test_versions_that_there_are_not(asked, message):
    with pytest.raises(ValueError, match=message):
        haulage.compile(behind, BEHIND, **asked)


def over_the_grid(x, total):
    grid = cuda.cg.this_grid()
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        cuda.atomic.add(total, 0, x[i, j])
    grid.sync()
    if i < x.shape[0] and j < x.shape[1]:
        x[i, j] = total[0]


@pytest.mark.parametrize("view", [each for each, _ in VIEWS.values()], ids=VIEWS)
def test_cooperative_kernels(view):
    kernel = cuda.jit("void(float64[:,:], float64[:])")(over_the_grid)
    x, total = view(PLAIN[:8, :8].copy()), np.zeros(1)
    wanted = x.sum()
    kernel[(2, 2), (4, 4)](x, total)
    assert (x == wanted).all()
    assert total[0] == wanted


@pytest.mark.parametrize("view", [each for each, _ in VIEWS.values()], ids=VIEWS)
def test_graphs_keep_the_version_that_was_captured(view):
    kernel = cuda.jit(TWO)(doubled)
    x, out = cuda.to_device(PLAIN), cuda.to_device(np.zeros_like(PLAIN))
    with cuda.graph() as graph:
        kernel[(5, 5), (8, 8)](view(x), view(out))
    kernel[(5, 5), (8, 8)](x.T, out.T)  # as another version
    out.copy_to_device(np.zeros_like(PLAIN))
    graph.launch()
    np.testing.assert_array_equal(view(out).copy_to_host(), 2 * view(PLAIN))


def test_copies_of_host_arrays_take_the_version_for_what_they_are(by_copies):
    kernel = cuda.jit(TWO)(doubled)
    with by_copies():
        for view, _ in VIEWS.values():
            for wrap in (lambda x: x, cuda.In):
                x, out = view(PLAIN.copy()), view(np.zeros_like(PLAIN))
                kernel[(5, 5), (8, 8)](wrap(x), cuda.Out(out))
                np.testing.assert_array_equal(out, 2 * view(PLAIN))


@pytest.mark.usefixtures("has_versions")
def test_each_version_is_kept_on_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("HAULAGE_CACHE_DIR", str(tmp_path / "kernels"))
    seen = [VIEWS[each] for each in ("rows", "columns", "every other element")]
    for hits in (0, 1):
        kernel = cuda.jit(TWO, cache=True)(doubled)
        for view, _ in seen:
            x, out = (view(cuda.to_device(each)) for each in (PLAIN, np.zeros_like(PLAIN)))
            np.testing.assert_array_equal(launched(kernel, x, out), 2 * view(PLAIN))
        assert versions(kernel) == [wanted for _, wanted in seen]
        assert sum(kernel.stats.cache_hits.values()) == hits
    assert len(list((tmp_path / "kernels").glob("*-8x8x1-*.code"))) == 3


@pytest.mark.usefixtures("has_versions")
def test_what_is_inspected_is_the_version_that_was_loaded_last():
    kernel = cuda.jit(TWO)(doubled)
    general = haulage.compile(kernel, TWO, block=(8, 8))
    assert general.metadata["unit_strides"] == {}
    launched(kernel, PLAIN.copy(), np.zeros_like(PLAIN))
    (texts,) = kernel.inspect_asm().values()
    wanted = haulage.compile(kernel, TWO, block=(8, 8), unit_strides="last")
    assert texts == wanted.asm != general.asm
    assert kernel.overloads[next(iter(kernel.overloads))].code.metadata["unit_strides"] == OF_ROWS
