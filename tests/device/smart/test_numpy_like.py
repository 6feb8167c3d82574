"""SmartArray in the place of a NumPy array: operators, methods, functions, and what moves."""

import copy
import operator
import pickle

import numba
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from haulage import SmartArray, cuda, roc

pytestmark = pytest.mark.usefixtures("device")


@cuda.jit
def double(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] *= 2


@roc.jit
def increment(a):
    i = roc.get_global_id(0)
    if i < a.size:
        a[i] += 1


@numba.njit
def add_in_place(a, n):
    for i in range(a.size):
        a[i] += n


@numba.njit
def total(a):
    return a.sum()


def numbers(n=20):
    return np.arange(n, dtype=np.int32)


def on_device(values):
    """A SmartArray of `values` that is current on the device only; and how often it moved."""
    a = SmartArray(values, where="gpu")
    a.mark_changed("gpu")
    return a, len(a.coherence.transfers)


def equal(one, two):
    np.testing.assert_array_equal(one, two)
    assert np.asarray(one).dtype == np.asarray(two).dtype


# ---- the same as NumPy's -------------------------------------------------------------------------

READS = {
    "index": lambda a: a[3],
    "slice": lambda a: a[2:7],
    "mask": lambda a: a[a > 4],
    "a + 1": lambda a: a + 1,
    "1 - a": lambda a: 1 - a,
    "a * a": lambda a: a * a,
    "a / 3": lambda a: a / 3,
    "a // 3": lambda a: a // 3,
    "a % 3": lambda a: a % 3,
    "divmod": lambda a: divmod(a, 3),
    "a ** 2": lambda a: a**2,
    "a @ a": lambda a: a @ a,
    "-a": lambda a: -a,
    "abs": lambda a: abs(a),
    "~a": lambda a: ~a,
    "a & 3 | 1 ^ a": lambda a: a & 3 | 1 ^ a,
    "a << 1 >> 2": lambda a: a << 1 >> 2,
    "a == a": lambda a: a == a,
    "a != 3": lambda a: a != 3,
    "a == 'x'": lambda a: a == "x",
    "a != strings": lambda a: a != np.full(20, "x"),
    "(a > 4) ** 2": lambda a: SmartArray(a > 4) ** 2,
    "bytes": lambda a: np.frombuffer(bytes(a), np.int32),
    "a == None": lambda a: a == None,  # noqa: E711
    "3 < a": lambda a: 3 < a,  # noqa: SIM300
    "a >= a": lambda a: a >= a[::-1],
    "list + a": lambda a: list(range(20)) + a,
    "ndarray + a": lambda a: np.ones(20) + a,
    "scalar * a": lambda a: np.int32(2) * a,
    "iterate": list,
    "in": lambda a: (3 in a, 1000 in a),
    "int": lambda a: int(a[3:4].item()),
    "str": str,
    "format": lambda a: f"{a}",
    "np.sqrt": np.sqrt,
    "np.modf": np.modf,
    "np.add.reduce": np.add.reduce,
    "np.add.outer": lambda a: np.add.outer(a, a),
    "np.add to an ndarray": lambda a: np.add(a, 1, where=a > 3, out=np.zeros(20, np.int32)),
    "np.sum": np.sum,
    "np.mean": np.mean,
    "np.concatenate": lambda a: np.concatenate([a, a]),
    "np.where": lambda a: np.where(a > 3, a, 0),
    "np.stack": lambda a: np.stack((a, a), axis=1),
    "np.unstack": np.unstack,
    "np.dot": lambda a: np.dot(a, a),
    "np.einsum": lambda a: np.einsum("i,i", a, a),
    "np.linalg.norm": np.linalg.norm,
    "np.histogram": lambda a: np.histogram(a, 4)[0],
    "np.broadcast_to": lambda a: np.broadcast_to(a, (2, 20)),
    "np.array_equal": lambda a: np.array_equal(a, numbers()),
    "np.shares_memory": lambda a: np.shares_memory(a, np.asarray(a)),
    "np.cumsum to an ndarray": lambda a: np.cumsum(a, 0, np.int64, np.zeros(20, np.int64)),
    "np.nan_to_num": np.nan_to_num,
    "index of arrays": lambda a: a.reshape(4, 5)[SmartArray([1, 2]), SmartArray(np.array([3, 3]))],
    "index of none": lambda a: a.reshape(4, 5)[SmartArray(np.zeros(0, np.int64)), 1],
    "row of a number": lambda a: a.reshape(4, 5)[SmartArray(1)],
    "ravel of a transpose": lambda a: a.reshape(4, 5).T.ravel(),
    "dumps": lambda a: pickle.loads(a.dumps()),
    "flat by steps": lambda a: a.reshape(4, 5).T.flat[1:7:2],
    "flat as a whole": lambda a: np.asarray(a.flat) * list(a.flat),
    "flat compared": lambda a: a.flat == a.flat,
    "flat, one by one": lambda a: (len(a.flat), next(a.flat), a.flat.index, a.flat.coords),
    "np.full_like with a": lambda a: np.full_like(numbers(), a),
    "all": lambda a: a.all(),
    "any": lambda a: a.any(),
    "argmax": lambda a: a.argmax(),
    "argmin": lambda a: a.argmin(),
    "argpartition": lambda a: a.argpartition(3)[3],
    "argsort": lambda a: a.argsort(),
    "astype": lambda a: a.astype(np.float64),
    "astype to its own": lambda a: a.astype(np.int32, copy=False),
    "np.atleast_2d": np.atleast_2d,
    "np.squeeze by name": lambda a: np.squeeze(a=a),
    "np.real": np.real,
    "byteswap": lambda a: a.byteswap(),
    "choose": lambda a: (a % 2).choose([a, -a]),
    "clip": lambda a: a.clip(3, 9),
    "compress": lambda a: a.compress([True, False, True]),
    "conj": lambda a: a.conj(),
    "conjugate": lambda a: a.conjugate(),
    "copy": lambda a: a.copy(),
    "cumprod": lambda a: a.cumprod(),
    "cumsum": lambda a: a.cumsum(),
    "diagonal": lambda a: a.reshape(4, 5).diagonal(),
    "dot": lambda a: a.dot(a),
    "flat": lambda a: a.flat[3],
    "flatten": lambda a: a.flatten(),
    "getfield": lambda a: a.getfield(np.int16),
    "imag": lambda a: a.imag,
    "item": lambda a: a.item(3),
    "max": lambda a: a.max(),
    "mean": lambda a: a.mean(),
    "min": lambda a: a.min(),
    "nonzero": lambda a: a.nonzero()[0],
    "prod": lambda a: a.prod(),
    "ravel": lambda a: a.ravel(),
    "real": lambda a: a.real,
    "repeat": lambda a: a.repeat(2),
    "reshape": lambda a: a.reshape(4, 5),
    "round": lambda a: a.round(),
    "searchsorted": lambda a: a.searchsorted(4),
    "squeeze": lambda a: a.squeeze(),
    "std": lambda a: a.std(),
    "sum": lambda a: a.sum(axis=0, keepdims=True),
    "swapaxes": lambda a: a.swapaxes(0, 0),
    "T": lambda a: a.T,
    "take": lambda a: a.take([1, 2]),
    "tobytes": lambda a: np.frombuffer(a.tobytes(), np.uint8),
    "tolist": lambda a: a.tolist(),
    "trace": lambda a: a.reshape(4, 5).trace(),
    "transpose": lambda a: a.transpose(),
    "var": lambda a: a.var(),
    "view": lambda a: a.view(np.uint8),
}

# Of these, what NumPy gives as a view is a SmartArray.
VIEWS = [
    "slice",
    "ravel",
    "astype to its own",
    "np.atleast_2d",
    "np.squeeze by name",
    "np.real",
    "real",
    "reshape",
    "squeeze",
    "swapaxes",
    "T",
    "transpose",
    "view",
]

WRITES = {
    "a[mask] = 7": lambda a: operator.setitem(a, a > 4, 7),
    "a[a % 3] = a": lambda a: operator.setitem(a, a % 3, a),
    "a += 3": lambda a: operator.iadd(a, 3),
    "a -= a": lambda a: operator.isub(a, a),
    "a *= list": lambda a: operator.imul(a, list(range(20))),
    "a //= 2": lambda a: operator.ifloordiv(a, 2),
    "a ^= 5": lambda a: operator.ixor(a, 5),
    "a <<= 1": lambda a: operator.ilshift(a, 1),
    "a.flat": lambda a: setattr(a, "flat", [1, 2]),
    "a.flat[...]": lambda a: operator.setitem(a.flat, slice(1, None, 3), range(7)),
    "a.flat[array]": lambda a: operator.setitem(a.flat, SmartArray([3, 1]), 8),
    "np.dot, out by position": lambda a: np.dot(np.eye(20, dtype=np.int32), numbers() + 1, a),
    "np.cumsum, out by position": lambda a: np.cumsum(a, 0, np.int32, a),
    "cumsum, out by position": lambda a: a.cumsum(0, np.int32, a),
    "np.nan_to_num in place": lambda a: np.nan_to_num(a, copy=False),
    "views of one that is seen": lambda a: np.atleast_1d(a).put([1], 9),
    "a.real": lambda a: setattr(a, "real", 4),
    "byteswap in place": lambda a: a.byteswap(inplace=True),
    "partition": lambda a: a.partition(5),
    "put": lambda a: a.put([1, 3], 9),
    "setfield": lambda a: a.setfield(1, np.int16),
    "sort": lambda a: a.sort(),
    "np.add.at": lambda a: np.add.at(a, [1, 1, 2], a[[0, 1, 2]]),
    "np.negative where": lambda a: np.negative(a, out=a, where=a > 3),
    "np.add where": lambda a: np.add(numbers(), 1, out=a, where=numbers() > 3),
    "np.multiply out": lambda a: np.multiply(a, 2, out=a),
    "np.multiply out, by position": lambda a: np.multiply(a, 2, a),
    "np.divmod": lambda a: np.divmod(a, 3, out=(a, np.zeros(20, np.int32))),
    "np.take out": lambda a: np.take(numbers(), a % 20, out=a, mode="clip"),
    "np.clip out": lambda a: np.clip(a, 3, 9, out=a),
    "clip out": lambda a: a.clip(3, 9, out=a),
    "cumsum out": lambda a: a.cumsum(dtype=np.int32, out=a),
    "np.copyto": lambda a: np.copyto(a, a[::-1]),
    "np.copyto by name": lambda a: np.copyto(dst=a, src=3, where=a > 3),
    "np.put": lambda a: np.put(a, [0, 1], [8, 9]),
    "np.place": lambda a: np.place(a, a > 5, [1, 2]),
    "np.putmask": lambda a: np.putmask(a, a > 5, a * 2),
    "np.put_along_axis": lambda a: np.put_along_axis(a, np.array([1, 2]), 5, 0),
    "njit that writes": lambda a: add_in_place(a, 3),
    "njit that reads": total,
}

OVERWRITES = {
    "a[...] = 7": lambda a: operator.setitem(a, ..., 7),
    "a[:] = list": lambda a: operator.setitem(a, slice(None), list(range(20))),
    "fill": lambda a: a.fill(6),
    "np.add out": lambda a: np.add(numbers(), numbers(), out=a),
}

LOOKS_AT_NOTHING = {
    "repr": lambda a: repr(a)[:0],
    "shape": lambda a: (a.shape, a.strides, a.dtype, a.ndim, a.size, a.nbytes, a.itemsize, len(a)),
    "flags": lambda a: (a.flags.c_contiguous, a.flags["F_CONTIGUOUS"], a.flags.writeable),
    "np.shape": lambda a: (np.shape(a), np.ndim(a), np.size(a)),
    "np.iscomplexobj": lambda a: (np.iscomplexobj(a), np.isrealobj(a)),
    "np.result_type": lambda a: (np.result_type(a, np.float32), np.can_cast(a.dtype, "i8")),
    "np.zeros_like": np.zeros_like,
    "np.ones_like": np.ones_like,
    "np.full_like": lambda a: np.full_like(a, 3, dtype=np.float32),
    "np.empty_like": lambda a: np.empty_like(prototype=a).shape,
    "no hash": lambda a: a.__hash__,
}


def parts(result):
    return result if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize("name", READS)
def test_what_reads_gives_what_numpy_gives_and_brings_the_array_once(name):
    read = READS[name]
    a, moved = on_device(numbers())
    results = parts(read(a)), parts(read(numbers()))
    assert len(results[0]) == len(results[1])
    for mine, theirs in zip(*results, strict=True):
        equal(mine, theirs)
        assert type(mine) is (SmartArray if name in VIEWS else type(theirs))
    assert [t.target for t in list(a.coherence.transfers)[moved:]] == ["host"]
    assert a.coherence.is_current(cuda.get_current_device())


@pytest.mark.parametrize("name", [*WRITES, *OVERWRITES])
def test_what_writes_leaves_what_numpy_leaves_and_is_seen_by_the_next_kernel(name, device):
    write = (WRITES | OVERWRITES)[name]
    a, moved = on_device(numbers())
    b = numbers()
    result, theirs = write(a), write(b)
    assert [t.target for t in list(a.coherence.transfers)[moved:]] == ["host"] * (name in WRITES)
    assert a.coherence.current() == ["host"]
    # Where NumPy gives back the array itself, so it is here.
    for mine, other in zip(parts(result), parts(theirs), strict=True):
        assert (mine is a) == (other is b)
    double[1, 32](a)
    b *= 2
    equal(a, b)


@pytest.mark.parametrize("name", LOOKS_AT_NOTHING)
def test_what_looks_at_no_element_moves_nothing(name):
    ask = LOOKS_AT_NOTHING[name]
    a, moved = on_device(numbers())
    for mine, theirs in zip(parts(ask(a)), parts(ask(numbers())), strict=True):
        equal(mine, theirs)
    assert len(a.coherence.transfers) == moved
    assert not a.coherence.is_current("host")


KERNELS = {"cuda": lambda a: double[1, 32](a), "roc": lambda a: increment[1, 64](a)}
ON_NUMPY = {"cuda": lambda a: operator.imul(a, 2), "roc": lambda a: operator.iadd(a, 1)}
USES = {
    **dict.fromkeys(READS, "read"),
    **dict.fromkeys(WRITES, "write"),
    **dict.fromkeys(OVERWRITES, "overwrite"),
    **dict.fromkeys(LOOKS_AT_NOTHING, "nothing"),
    **dict.fromkeys(KERNELS, "kernel"),
}
assert len(USES) == sum(map(len, (READS, WRITES, OVERWRITES, LOOKS_AT_NOTHING, KERNELS)))
DO = {**READS, **WRITES, **OVERWRITES, **LOOKS_AT_NOTHING}
# Who looks at a part brings that alone, so that the others bring what is left around it.
OF_WHOLES = [name for name in USES if name not in ("slice", "int")]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.one_of(st.sampled_from([*KERNELS]), st.sampled_from(OF_WHOLES)), max_size=12))
def test_any_sequence_gives_what_numpy_gives_and_moves_only_what_is_needed(device, names):
    a, oracle = SmartArray(numbers()), numbers()
    on_host, there, expected = True, False, []
    with np.errstate(all="ignore"):
        for name in names:
            kind = USES[name]
            if kind == "kernel":
                KERNELS[name](a)
                ON_NUMPY[name](oracle)
                expected += [] if there else [str(device)]
                on_host, there = False, True
                continue
            for mine, theirs in zip(parts(DO[name](a)), parts(DO[name](oracle)), strict=True):
                if kind != "overwrite":
                    equal(mine, theirs)
            if kind in ("read", "write") and not on_host:
                expected.append("host")
            on_host = on_host or kind != "nothing"
            there = there and kind not in ("write", "overwrite")
            assert [t.target for t in a.coherence.transfers] == expected
    equal(a, oracle)


# ---- one by one ----------------------------------------------------------------------------------


def test_an_operator_in_place_keeps_the_array_and_its_coherence():
    a = before = SmartArray(numbers())
    shared = SmartArray(a, copy=False)
    double[1, 32](a)
    a += 1
    assert a is before
    equal(shared, numbers() * 2 + 1)


def test_two_results_go_to_two_smart_arrays():
    whole, rest = SmartArray(shape=20, dtype="i4"), SmartArray(shape=20, dtype="i4")
    result = np.divmod(SmartArray(numbers()), 3, out=(whole, rest))
    assert result[0] is whole
    assert result[1] is rest
    equal(whole, numbers() // 3)
    equal(rest, numbers() % 3)
    result = np.divmod(numbers(), 4, out=(None, rest))
    assert result[1] is rest
    equal(result[0], numbers() // 4)


def test_functions_that_leave_out_alone_give_what_they_made():
    values, out = np.arange(6.0).reshape(2, 3), np.zeros((2, 3), complex)
    taken = SmartArray(out)
    equal(np.fft.ifft2(values, out=taken), np.fft.ifft2(values, out=out))
    equal(taken, out)


def test_pillow_takes_it():
    image = pytest.importorskip("PIL.Image")
    values = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    a = SmartArray(values)
    equal(np.asarray(image.fromarray(a)), values)
    equal(np.asarray(image.fromarray(a[:, ::2, 1])), values[:, ::2, 1])


def test_what_is_unstacked_can_be_written():
    a = SmartArray(numbers().reshape(4, 5))
    np.unstack(a, axis=1)[2][:] = 9
    double[1, 32](a.reshape(-1))
    assert a[:, 2].tolist() == [18] * 4
    assert a[3, 4] == 38


def test_an_element_of_an_array_without_axes_and_a_strided_one_are_copied_as_numpy_does():
    a = SmartArray(numbers())
    assert np.flip(a[3, ...]) == 3
    assert type(np.flip(a[3, ...])) is np.int32
    a[::2].ravel()[:] = 7
    equal(a, numbers())


def test_arrays_of_either_kind_meet_device_arrays():
    a, there = SmartArray(numbers()), cuda.to_device(numbers())
    equal(a + there, numbers() * 2)
    equal(there + a, numbers() * 2)


@pytest.mark.parametrize(
    "write",
    [
        lambda a: operator.iadd(a, "x"),
        lambda a: operator.itruediv(a, 2),
        lambda a: np.add(numbers(3), 1, out=a),
        lambda a: a.fill("x"),
        lambda a: a.put([100], 1),
        lambda a: np.copyto(a, np.ones(3)),
    ],
)
def test_a_write_that_fails_loses_nothing_of_the_device(write):
    a, _ = on_device(numbers())
    with pytest.raises((TypeError, ValueError, IndexError)):
        write(a)
    double[1, 32](a)
    equal(a, numbers() * 2)


def test_what_numpy_allows_by_an_address_is_not_there():
    a = SmartArray(numbers())
    with pytest.raises((AttributeError, ValueError)):
        a.flags.writeable = False
    for name in ("shape", "dtype", "strides", "T"):
        with pytest.raises(AttributeError):
            setattr(a, name, getattr(a, name))
    for name in ("resize", "setflags", "ctypes", "data", "base"):
        assert not hasattr(a, name)
    equal(a, numbers())


def test_an_array_without_axes_is_a_number():
    a = SmartArray(np.array(7))
    double[1, 1](SmartArray(a, copy=False).get("gpu").reshape(1))
    a.mark_changed("gpu")
    assert (int(a), float(a), complex(a), operator.index(a), f"{a:4}") == (14, 14, 14, 14, "  14")
    assert [10, 20, 30][SmartArray(1)] == 20
    for convert in (int, float, complex):
        with pytest.raises(TypeError):
            convert(SmartArray(numbers()))
    with pytest.raises(TypeError, match="without axes"):
        list(a)


def test_a_smart_array_cannot_be_a_key():
    with pytest.raises(TypeError, match="unhashable"):
        hash(SmartArray(numbers()))


def test_iterating_sees_what_a_kernel_changes_meanwhile():
    a, seen = SmartArray(np.ones(3, np.int32)), []
    for element in a:
        seen.append(int(element))
        double[1, 32](a)
    assert seen == [1, 2, 4]


def test_showing_the_elements_is_for_str_and_copies_of_the_object_are_smart():
    a, moved = on_device(numbers(3))
    assert "SmartArray" in repr(a)
    assert len(a.coherence.transfers) == moved
    assert str(a) == "[0 1 2]"
    assert type(copy.copy(a)) is SmartArray
    assert type(a.copy()) is np.ndarray
    assert a.copy().flags.writeable


def test_a_matrix_keeps_its_order():
    values = np.arange(12.0).reshape(3, 4)
    a = SmartArray(values, order="F")
    assert (a.flags.f_contiguous, a.flags.c_contiguous, a.flags.aligned) == (True, False, True)
    assert np.empty_like(a).strides == a.strides
    equal(a.mT, values.T)
    equal(a @ a.T, values @ values.T)
    a @= np.eye(4) * 2
    equal(a, values * 2)
    square = SmartArray(np.zeros((3, 3)))
    np.fill_diagonal(square, 4)
    assert np.dot(values, values.T, out=square) is square
    equal(square, values @ values.T)


def refused(call):
    with pytest.raises(Exception) as caught:  # noqa: PT011
        call()
    return caught.type


@pytest.mark.parametrize(
    "write",
    [
        lambda a: operator.imatmul(a, np.ones(20, np.int32)),
        lambda a: operator.setitem(a, 3, np.ones(2)),
        lambda a: operator.setitem(a, 3, [1, 2]),
        lambda a: a.ravel(3),
        lambda a: a.reshape(4, 5, order="Q"),
        lambda a: bytes(
            a.astype("M8[s]") if type(a) is np.ndarray else SmartArray(a.astype("M8[s]"))
        ),
        lambda a: a[np.zeros(2)],
        lambda a: a == np.zeros(20, "i4,f8"),
        lambda a: pow(a, 2, 3),
        lambda a: np.astype(a, np.float32, device="gpu"),
    ],
)
def test_what_numpy_refuses_is_refused_with_the_same_class_of_error(write):
    a = SmartArray(numbers())
    assert refused(lambda: write(a)) is refused(lambda: write(numbers()))
    equal(a, numbers())


def test_a_matrix_is_multiplied_in_place_by_matrices_only():
    matrix, vector = np.arange(9.0).reshape(3, 3), np.arange(3.0)
    a = SmartArray(matrix)
    assert refused(lambda: operator.imatmul(a, vector)) is refused(
        lambda: operator.imatmul(matrix.copy(), vector)
    )
    a @= matrix
    equal(a, matrix @ matrix)


PADDED = np.dtype({"names": ["y", "x"], "formats": ["f4", "i4"], "offsets": [12, 4]})


def test_records_are_compared_and_keep_the_places_of_their_fields():
    values = np.zeros(3, PADDED)
    values["x"] = [1, 2, 3]
    a = SmartArray(values)
    a[1] = (4.5, 9)
    equal(a == values, np.array([True, False, True]))
    equal(a != a, np.zeros(3, bool))
    assert values[2] in a
    assert np.asarray(a).dtype == PADDED
    assert np.array(a[["x"]]).dtype == np.array(values[["x"]]).dtype
    with pytest.raises(AttributeError, match="cannot tell the dtype"):
        a.__array_interface__  # noqa: B018
    assert SmartArray(np.zeros(3, "i4,f8")).__array_interface__["descr"] == [
        ("f0", "<i4"),
        ("f1", "<f8"),
    ]


class Named(SmartArray):
    """What a program makes of it."""

    def __init__(self, values, name):
        super().__init__(values)
        self.name = name


@pytest.mark.parametrize(
    "again", [lambda a: pickle.loads(pickle.dumps(a)), copy.copy, copy.deepcopy]
)
def test_copies_are_of_the_class_and_have_what_it_added(again):
    a = Named(np.asfortranarray(np.arange(6.0).reshape(2, 3)), "six")
    made = again(a)
    assert (type(made), made.name, made.strides) == (Named, "six", a.strides)
    a[0, 0] = 7
    equal(made, np.arange(6.0).reshape(2, 3))


def test_large_arrays_are_pickled_out_of_band():
    a, buffers = SmartArray(np.arange(10_000.0)), []
    told = pickle.dumps(a, 5, buffer_callback=buffers.append)
    assert len(told) < 1000
    equal(pickle.loads(told, buffers=buffers), np.arange(10_000.0))


def test_complex_parts_can_be_assigned():
    a = SmartArray(np.zeros(3, np.complex64))
    a.imag = [1, 2, 3]
    a.real = a.imag
    equal(a, np.array([1 + 1j, 2 + 2j, 3 + 3j], np.complex64))


class Foreign:
    """An array of another library, which takes NumPy's calls over."""

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return "ufunc", [type(value) for value in inputs]

    def __array_function__(self, func, types, args, kwargs):
        return "function"


def test_arrays_of_other_libraries_have_their_say():
    a = SmartArray(numbers())
    assert a + Foreign() == ("ufunc", [np.ndarray, Foreign])
    assert np.concatenate([a, Foreign()]) == "function"


def test_the_namespace_of_the_array_api_is_numpys():
    a = SmartArray(np.arange(6.0).reshape(2, 3))
    xp = a.__array_namespace__()
    assert xp is np
    assert a.__array_namespace__(api_version="2023.12") is np
    with pytest.raises(ValueError, match="1999"):
        a.__array_namespace__(api_version="1999.12")
    assert xp.sum(a, axis=0).tolist() == [3, 5, 7]
    assert xp.permute_dims(a, (1, 0)).shape == (3, 2)
    assert xp.zeros(2, device=a.device).tolist() == [0, 0]
    assert xp.astype(a, np.int64, device=a.device).dtype == np.int64


def test_the_only_device_of_that_namespace_is_the_host():
    a = SmartArray(np.arange(3.0))
    assert a.device == "cpu"
    assert a.to_device(a.device) is a
    with pytest.raises(ValueError, match=r"to_device\('gpu'\).*get\(device\)"):
        a.to_device("gpu")
    with pytest.raises(ValueError, match="stream=1"):
        a.to_device("cpu", stream=1)


def test_types_of_other_packages_stay_what_they_are():
    # As bfloat16 of ml_dtypes: NumPy's array interface would call its elements bytes.
    rational = pytest.importorskip("numpy._core._rational_tests").rational
    host = np.array([rational(1, 2), rational(3)])
    a = SmartArray(host)
    assert not hasattr(a, "__array_interface__")
    assert np.asarray(a).dtype == host.dtype
    assert np.array_equal(np.asarray(a), host)
