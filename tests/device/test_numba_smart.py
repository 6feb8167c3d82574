"""SmartArray in functions that Numba compiles for the host: njit, jit, vectorize and the like."""

import gc
import subprocess
import sys
import threading
import weakref
from collections import namedtuple

import numba
import numpy as np
import pytest
from numba.core import types
from numba.core.errors import NumbaTypeSafetyWarning, TypingError
from numba.experimental import jitclass

from haulage import SmartArray, cuda, roc
from haulage.errors import KernelError

pytestmark = pytest.mark.usefixtures("device")

TABLE = SmartArray(np.arange(5.0))


@cuda.jit
def double(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] *= 2


@roc.jit
def double_roc(a):
    i = roc.get_global_id(0)
    if i < a.size:
        a[i] *= 2


@cuda.jit
def fail(a):
    a[0] = 0
    raise ValueError("no")


@numba.njit
def add_one(a):
    for i in range(a.size):
        a.flat[i] += 1


@numba.njit
def total(a):
    return a.sum()


@numba.njit("float64(float64[::1])")
def declared(a):
    return a.sum()


@numba.vectorize
def axpy(x, y):
    return x + 2 * y


@numba.vectorize(["float64(float64, float64)"])
def declared_axpy(x, y):
    return x + 2 * y


@numba.guvectorize(["(float64[:], float64[:])"], "(n)->(n)")
def running_sum(a, out):
    out[0] += a[0]
    for i in range(1, a.size):
        out[i] = out[i - 1] + a[i]


@numba.stencil
def neighbours(a):
    return a[-1] + a[1]


def numbers(n=8):
    return np.arange(float(n))


def targets(a):
    return [t.target for t in a.coherence.transfers]


def test_a_function_sees_what_the_kernel_before_it_left_and_the_next_kernel_sees_its_writes(device):
    for kernel, shape in ((double, (1, 32)), (double_roc, (1, 64))):
        a = SmartArray(numbers())
        kernel[shape](a)
        add_one(a)
        add_one(a)
        kernel[shape](a)
        np.testing.assert_array_equal(a, numbers() * 4 + 4)
        assert targets(a) == [str(device), "host", str(device), "host"]


def test_a_transfer_for_a_function_says_so():
    a = SmartArray(numbers(), where="gpu")
    a.mark_changed("gpu")
    add_one(a)
    assert a.coherence.transfers[-1].why == "a function compiled by Numba"
    assert a.coherence.current() == ["host"]


def test_a_function_that_only_reads_moves_nothing_if_given_the_view(device):
    a = SmartArray(numbers())
    double[1, 32](a)
    for _ in range(2):
        assert total(np.asarray(a)) == 56
        double[1, 1](a)
    assert targets(a) == [str(device), "host", "host"]


def test_a_new_array_is_filled_by_a_function():
    a = SmartArray(shape=4, where="gpu")
    fill = numba.njit(lambda a, value: a.fill(value))
    fill(a, 3)
    double[1, 32](a)
    np.testing.assert_array_equal(a, [6, 6, 6, 6])


def test_what_was_compiled_for_numpy_arrays_before_takes_smart_arrays():
    function = numba.njit(lambda a: a[1:].sum())
    assert function(numbers()) == 28
    assert function(SmartArray(numbers())) == 28
    assert function(numbers()) == 28
    assert len(function.signatures) == 2


@pytest.mark.parametrize("options", [{"parallel": True}, {"nogil": True}, {"fastmath": True}])
def test_options_of_the_compiler_make_no_difference(options):
    @numba.njit(**options)
    def function(a, b):
        for i in numba.prange(a.shape[0]):
            a[i] += b[i] * 2
        return (a * b).sum()

    a, b = SmartArray(numbers()), SmartArray(numbers())
    assert function(a, b) == (numbers() ** 2 * 3).sum()
    np.testing.assert_array_equal(a, numbers() * 3)


def test_object_mode_gets_the_smart_array_itself():
    assert numba.jit(forceobj=True)(lambda a: type(a))(TABLE) is SmartArray


Pair = namedtuple("Pair", "x y")


@pytest.mark.parametrize("pack", [lambda x, y: (x, y), Pair])
def test_functions_take_it_within_tuples(pack):
    function = numba.njit(lambda pair: add_one(pair[0]) or pair[1].sum())
    a = SmartArray(numbers())
    double[1, 32](a)
    assert function(pack(a, SmartArray(np.ones((2, 2))))) == 4
    np.testing.assert_array_equal(a, numbers() * 2 + 1)


def test_the_same_array_twice_is_one_memory():
    function = numba.njit(lambda a, b: add_one(a) or b.sum())
    a = SmartArray(numbers())
    assert function(a, SmartArray(a, copy=False)) == 36


def test_inside_it_becomes_an_array_wherever_one_is_asked_for():
    @numba.njit
    def choose(a, given):
        b = a if given else np.zeros(2)
        for _ in range(3):
            a = a + 1
        return b, a, declared(a)

    for given in (True, False):
        b, a, sum_ = choose(SmartArray(numbers()), given)
        np.testing.assert_array_equal(b, numbers() if given else np.zeros(2))
        np.testing.assert_array_equal(a, numbers() + 3)
        assert sum_ == 28 + 24


def test_what_a_function_returns_is_the_memory_of_the_host_and_keeps_it():
    a = SmartArray(numbers())
    back, tail = numba.njit(lambda a: (a, a[5:]))(a)
    assert type(back) is np.ndarray
    assert np.shares_memory(back, a.get())
    del a, back
    gc.collect()
    np.testing.assert_array_equal(tail, [5, 6, 7])


def test_calls_keep_nothing_alive():
    a = SmartArray(numbers())
    host = a.get()
    for _ in range(3):
        total(a)
    with pytest.raises(ZeroDivisionError):
        numba.njit(lambda a: 1 // int(a[0]))(a)
    base = host
    while base.base is not None and isinstance(base.base, np.ndarray):
        base = base.base
    seen = weakref.ref(a), weakref.ref(base)
    del a, host, base
    gc.collect()
    assert [ref() for ref in seen] == [None, None]


def test_what_a_function_wrote_before_it_failed_counts():
    @numba.njit
    def start(a):
        a[0] = 50
        raise ValueError("no more")

    a = SmartArray(numbers())
    double[1, 32](a)
    with pytest.raises(ValueError, match="no more"):
        start(a)
    double[1, 32](a)
    assert a[0] == 100


def test_a_kernel_that_failed_before_is_reported_by_the_call():
    a, b = SmartArray(numbers()), SmartArray(numbers())
    stream = cuda.stream()
    fail[1, 1, stream](b)
    with pytest.raises(KernelError, match="no"):
        numba.njit(lambda a, b: a.sum() + b.sum())(a, b)
    assert total(a) == 28


def test_memory_orders_and_axes():
    corner = numba.njit(lambda a: a[1, 0])
    values = np.arange(6.0).reshape(2, 3)
    assert [corner(SmartArray(values, order=order)) for order in "CF"] == [3, 3]
    assert [repr(*types) for types in corner.signatures] == [
        "SmartArray(float64, 2d, C)",
        "SmartArray(float64, 2d, F)",
    ]
    turned = np.arange(24).reshape(2, 3, 4).transpose(1, 2, 0)
    assert numba.typeof(SmartArray(turned)).layout == "A"
    assert numba.njit(lambda a: a[1, 2, 1])(SmartArray(turned)) == turned[1, 2, 1]
    assert numba.njit(lambda a: a[()])(SmartArray(5.0)) == 5
    assert numba.njit(lambda a: a.shape)(SmartArray(shape=(0, 3))) == (0, 3)


def test_memory_that_is_not_aligned_is_known_to_be():
    values = np.zeros(25, np.uint8)[1:].view(np.float64)
    values[:] = [1, 2, 3]
    a = SmartArray(values, copy=False)
    assert not numba.typeof(a).aligned
    assert not numba.typeof(SmartArray(a, copy=False)).aligned
    assert numba.typeof(SmartArray(values)).aligned
    assert (total(a), a.flags.aligned) == (6, False)


@pytest.mark.parametrize(
    "values",
    [
        np.array([True, False]),
        np.array([1, 2], np.int8),
        np.array([1.5, 2.5], np.float32),
        np.array([1 + 2j, 3]),
        np.array(["ab", "c"]),
        np.array([b"ab", b"c"]),
        np.array([1, 5], "M8[s]"),
        np.array([(1, 2.5), (3, 4.5)], "i4,f8"),
        np.array([(1, 2.5), (3, 4.5)], np.dtype("i4,f8", align=True)),
    ],
    ids=lambda values: str(values.dtype),
)
def test_elements_of_each_kind(values):
    swap = numba.njit(lambda a: a[::-1].copy())
    np.testing.assert_array_equal(swap(SmartArray(values)), values[::-1])


def test_fields_of_records_are_written():
    @numba.njit
    def write(a):
        a[1].f0 = 9

    a = SmartArray(np.zeros(2, "i4,f8"))
    write(a)
    assert a[1]["f0"] == 9


def test_elements_that_numba_has_no_type_for_are_refused():
    a = SmartArray(np.zeros(2, np.longdouble))
    with pytest.raises(AttributeError, match=r"no type for the dtype (longdouble|float128)"):
        a._numba_type_  # noqa: B018
    with pytest.raises(ValueError, match=r"Cannot determine Numba type of .*SmartArray"):
        numba.typeof(a)
    with pytest.raises(TypingError):
        numba.njit(lambda a: a[0])(a)


def test_a_function_with_declared_signatures_takes_the_array_that_get_gives():
    a = SmartArray(numbers())
    with pytest.raises(TypeError, match="can't unbox array"):
        declared(a)
    assert declared(a.get()) == 28


def test_an_array_outside_of_the_function_is_a_constant_as_numpys_are():
    assert numba.njit(lambda: TABLE.sum())() == 10

    @cuda.jit
    def look_up(out):
        out[0] = TABLE[3]

    out = np.zeros(1)
    look_up[1, 1](out)
    assert out[0] == 3
    with pytest.raises(TypingError, match="readonly"):

        @numba.njit("void()")
        def write():
            TABLE[0] = 1


def test_ufuncs_of_numba():
    a, b = SmartArray(numbers()), SmartArray(numbers())
    double[1, 32](b)
    for ufunc in (axpy, declared_axpy):
        np.testing.assert_array_equal(ufunc(a, b), numbers() * 5)
        np.testing.assert_array_equal(ufunc(numbers(), b), numbers() * 5)
        np.testing.assert_array_equal(ufunc(a, 1.0), numbers() + 2)
        for call in (lambda out: ufunc(a, b, out=out), lambda out: ufunc(a, b, out)):  # noqa: B023
            out = SmartArray(shape=8, where="gpu")
            assert call(out) is out
            double[1, 32](out)
            np.testing.assert_array_equal(out, numbers() * 10)
    assert targets(b)[1:] == ["host"]


def test_a_ufunc_over_axes_finds_what_its_result_held_before():
    a, out = SmartArray(numbers()), SmartArray(np.ones(8))
    double[1, 32](out)
    running_sum(a, out)
    np.testing.assert_array_equal(out, np.cumsum(numbers()) + 2)
    assert running_sum(a, np.zeros(8))[-1] == 28


def test_stencils():
    expected = [0, 2, 4, 6, 8, 10, 12, 0]
    a = SmartArray(numbers())
    np.testing.assert_array_equal(neighbours(a), expected)
    np.testing.assert_array_equal(numba.njit(lambda a: neighbours(a))(a), expected)


def test_generators_default_arguments_and_object_mode_within():
    a = SmartArray(numbers(3))

    @numba.njit
    def each(x):
        for element in x:  # noqa: UP028
            yield element

    @numba.njit
    def with_default(x, y=a):
        return x.sum() + y.sum()

    @numba.njit
    def leave(x):
        with numba.objmode(result="float64"):
            result = x.sum()
        return result

    assert list(each(a)) == [0, 1, 2]
    assert with_default(x=a) == 6
    assert with_default(a, y=SmartArray(numbers(4))) == 9
    assert leave(a) == 3


@jitclass([("x", types.float64[::1])])
class Holder:
    def __init__(self, x):
        self.x = x

    def total(self):
        return self.x.sum()


def test_containers_hold_the_array_of_the_host():
    a = SmartArray(numbers())
    held = numba.typed.List()
    held.append(a)
    assert np.shares_memory(held[0], a.get())
    assert Holder(a).total() == 28


def test_arrays_of_numpy_go_where_one_of_these_was_first():
    a, b = SmartArray(numbers()), numbers()
    some = numba.typed.List()
    some.append(a)
    some.append(b)
    named = numba.typed.Dict()
    named["a"] = a
    named["b"] = b
    assert np.shares_memory(some[1], b)
    assert np.shares_memory(named["b"], b)
    total_of_its_type = numba.njit(types.float64(numba.typeof(a)))(lambda x: x.sum())
    assert [total_of_its_type(x) for x in (a, b)] == [28, 28]
    assert numba.njit(lambda x: total_of_its_type(x))(b) == 28
    with pytest.raises(TypeError):
        total_of_its_type(3)


def test_arrays_that_lie_otherwise_go_nowhere():
    a, rows = SmartArray(np.ones((2, 3))), np.arange(12.0).reshape(2, 6)
    of_numpy, of_its_type = numba.typed.List(), numba.typed.List()
    of_numpy.append(np.ones((2, 3)))
    of_its_type.append(a)
    for held, other in (
        (of_numpy, SmartArray(np.ones((3, 2))).T),
        (of_its_type, rows[:, ::2]),
        (of_its_type, np.asarray(a)),
    ):
        with (
            pytest.warns(NumbaTypeSafetyWarning),
            pytest.raises(TypingError, match="cannot be used as"),
        ):
            held.append(other)
        assert len(held) == 1


def test_either_kind_is_taken_on_each_path_of_a_function():
    @numba.njit
    def choose(a, b, first):
        if first:
            return a
        return b

    a, b = SmartArray(numbers()), numbers() + 1
    assert np.shares_memory(choose(a, b, True), a.get())
    assert np.shares_memory(choose(a, b, False), b)
    with a.host("r"), pytest.raises(TypingError):
        numba.njit(lambda a: a.fill(1))(a)


def test_many_threads_call_at_once():
    arrays = [SmartArray(np.zeros(50)) for _ in range(4)]
    add_one(arrays[0])
    problems = []

    def work(a):
        try:
            for _ in range(30):
                add_one(a)
                double[1, 64](a)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(a,)) for a in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    once = 2.0**31 - 2
    for n, a in enumerate(arrays):
        np.testing.assert_array_equal(a, np.full(50, once + (2.0**30 if n == 0 else 0)))


def run(code, *arguments, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_functions_kept_on_disk_are_found_again(tmp_path):
    (tmp_path / "kept.py").write_text(
        "import numba\n"
        "@numba.njit(cache=True)\n"
        "def add_one(a):\n"
        "    for i in range(a.size):\n"
        "        a[i] += 1\n"
        "    return a.sum()\n"
    )
    code = (
        "import sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "import numpy, kept, haulage\n"
        "a = haulage.SmartArray(numpy.arange(3.0))\n"
        "assert kept.add_one(a) == 6\n"
        "assert a[2] == 3\n"
        "print(sum(kept.add_one.stats.cache_hits.values()))\n"
    )
    assert [run(code, str(tmp_path)).strip() for _ in range(2)] == ["0", "1"]


@pytest.mark.parametrize("first", ["import numba", "import haulage; haulage.SmartArray"])
def test_neither_has_to_be_imported_first(first):
    code = (
        "import numpy, sys\n"
        f"{first}\n"
        "import haulage\n"
        "a = haulage.SmartArray(numpy.arange(3.0))\n"
        "a += 1; a.sum(); a.get('gpu'); a.mark_changed('gpu')\n"
        f"assert ('numba' in sys.modules) == {first == 'import numba'}\n"
        "assert 'haulage.numba_smart' not in sys.modules\n"
        "import numba\n"
        "print(numba.njit(lambda a: a.sum())(a))\n"
    )
    assert run(code).strip() == "6.0"
