"""Records and structured arrays as arguments of kernels, and dtypes beyond int and float."""

import pickle

import numba
import numpy as np
import pytest
from numba.core.errors import TypingError

from haulage import cuda
from haulage.errors import CompileError, LaunchError, LaunchTypeError
from haulage.runtime.arrays.array import DeviceRecord

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]

PLAIN = [
    ("kind", "i1"),
    ("x", "f8"),
    ("v", "f4", (2, 3)),
    ("pair", [("p", "u2"), ("q", "c8")]),
    ("many", [("p", "u1"), ("q", "i4", (2,))], (2,)),
    ("when", "M8[s]"),
    ("on", "?"),
]
dtypes = pytest.mark.parametrize(
    "dtype", [np.dtype(PLAIN), np.dtype(PLAIN, align=True)], ids=["packed", "aligned"]
)


def records(dtype, count=4):
    host = np.zeros(count, dtype)
    host["x"] = np.arange(count)
    host["v"] = np.arange(6 * count).reshape(count, 2, 3)
    return host


@cuda.jit
def by_attribute(array):
    i = cuda.grid(1)
    array[i].kind = i
    array[i].x += 0.5
    array[i].v[1, 2] = array[i].v[0, 1] + 100
    array[i].pair.p = 9
    array[i].pair.q = 1 + 2j
    array[i].many[1].q[0] = i
    array[i].on = True
    array.v[i, 0, 0] = -1


@cuda.jit
def by_item(array):
    i = cuda.grid(1)
    array[i]["kind"] = i
    array["x"][i] += 0.5
    array[i]["v"][1, 2] = array["v"][i, 0, 1] + 100
    array[i]["pair"]["p"] = 9
    array["pair"][i]["q"] = 1 + 2j
    array[i]["many"][1]["q"][0] = i
    array[i]["on"] = True
    array["v"][i, 0, 0] = -1


def expected_of_both(host):
    numbers = np.arange(host.size)
    host["kind"] = numbers
    host["x"] += 0.5
    host["v"][:, 1, 2] = host["v"][:, 0, 1] + 100
    host["pair"] = (9, 1 + 2j)
    host["many"]["q"][:, 1, 0] = numbers
    host["on"] = True
    host["v"][:, 0, 0] = -1
    return host


# ---- arrays of records --------------------------------------------------------------------------


@dtypes
@pytest.mark.parametrize("kernel", [by_attribute, by_item], ids=lambda k: k.__name__)
def test_kernels_read_and_write_fields_of_device_arrays(kernel, dtype):
    there = cuda.to_device(records(dtype))
    kernel[1, 4](there)
    np.testing.assert_array_equal(there.copy_to_host(), expected_of_both(records(dtype)))


@dtypes
@pytest.mark.parametrize("kernel", [by_attribute, by_item], ids=lambda k: k.__name__)
def test_kernels_read_and_write_fields_of_host_arrays(kernel, dtype):
    host = records(dtype)
    kernel[1, 4](host[::-1])
    expected = records(dtype)
    expected_of_both(expected[::-1])
    np.testing.assert_array_equal(host, expected)


def test_recarrays_are_arrays_of_records():
    host = records(np.dtype(PLAIN)).view(np.recarray)
    by_attribute[1, 4](host)
    np.testing.assert_array_equal(host, expected_of_both(records(np.dtype(PLAIN))))
    there = cuda.to_device(records(np.dtype(PLAIN)).view(np.recarray))
    by_attribute[1, 4](there)
    np.testing.assert_array_equal(there.copy_to_host(), host)


def test_a_field_of_a_packed_record_is_an_argument():
    @cuda.jit
    def double(numbers):
        numbers[cuda.grid(1)] *= 2

    there = cuda.to_device(records(np.dtype(PLAIN)))
    double[1, 4](there["x"])
    assert there["x"].copy_to_host().tolist() == [0, 2, 4, 6]
    double[1, 4](there["v"][:, 1, 2])
    assert there["v"].copy_to_host()[:, 1, 2].tolist() == [10, 22, 34, 46]


def test_atomics_work_on_fields():
    @cuda.jit
    def count(array):
        cuda.atomic.add(array["n"], 0, 1)

    there = cuda.to_device(np.zeros(2, np.dtype([("x", "f8"), ("n", "i4")], align=True)))
    count[3, 64](there)
    assert there["n"].copy_to_host().tolist() == [192, 0]


def test_records_are_copied_between_arrays():
    @cuda.jit
    def turn_round(target, source):
        i = cuda.grid(1)
        target[i] = source[source.size - 1 - i]

    host = records(np.dtype(PLAIN))
    there = cuda.device_array_like(host)
    turn_round[1, 4](there, cuda.to_device(host))
    np.testing.assert_array_equal(there.copy_to_host(), host[::-1])


def test_an_array_without_axes_holds_a_record():
    @cuda.jit
    def write(array):
        array[()].x = 5.0

    there = cuda.to_device(np.zeros((), PLAIN))
    write[1, 1](there)
    assert there["x"].copy_to_host() == 5


# ---- records as arguments -----------------------------------------------------------------------


@cuda.jit
def change(record, out):
    record.x = record.x + 1
    record["v"][0, 1] = 8
    record["pair"].p = 3
    record.many[0].q[1] = 6
    record[0] = 2
    out[0] = record[1]


def changed(host):
    host["x"] += 1
    host["v"][0, 1] = 8
    host["pair"]["p"] = 3
    host["many"]["q"][0, 1] = 6
    host["kind"] = 2
    return host


@dtypes
def test_kernels_take_records_of_the_device(dtype):
    there, out = cuda.to_device(records(dtype)), cuda.device_array(1)
    change[1, 1](there[2], out)
    expected = records(dtype)
    changed(expected[2])
    np.testing.assert_array_equal(there.copy_to_host(), expected)
    assert out[0] == 3
    alone = DeviceRecord(dtype)
    alone.copy_to_device(records(dtype)[3])
    change[1, 1](alone, out)
    assert alone.copy_to_host() == changed(records(dtype)[3])


@dtypes
def test_kernels_write_to_records_of_the_host(dtype):
    host, out = records(dtype), np.zeros(1)
    change[1, 1](host[2], out)
    expected = records(dtype)
    changed(expected[2])
    np.testing.assert_array_equal(host, expected)
    own = np.void(records(dtype)[1], dtype)
    change[1, 1](own, out)
    assert own == changed(records(dtype)[1])


def test_records_in_tuples_are_arguments():
    @cuda.jit
    def write(pair, number):
        pair[0].x = number
        pair[1].x = number + 1

    there, host = cuda.to_device(records(np.dtype(PLAIN))), records(np.dtype(PLAIN))
    write[1, 1]((there[0], there[1]), 7)
    assert there["x"].copy_to_host().tolist() == [7, 8, 2, 3]
    write[1, 1]((host[0], host[1]), 7)
    assert host["x"].tolist() == [7, 8, 2, 3]


def test_a_nested_record_is_an_argument():
    @cuda.jit
    def write(pair):
        pair.p = 4

    there = cuda.to_device(records(np.dtype(PLAIN)))
    write[1, 1](there[1]["pair"])
    assert there["pair"]["p"].copy_to_host().tolist() == [0, 4, 0, 0]


def test_a_kernel_is_compiled_once_for_records_of_one_dtype():
    @cuda.jit
    def write(record):
        record.n = 1

    dtype = np.dtype([("n", "i4")], align=True)
    there = cuda.to_device(np.zeros(3, dtype))
    write[1, 1](there[0])
    write[1, 1](there[1])
    write[1, 1](np.zeros(1, dtype)[0])
    assert len(write.signatures) == 1


def test_records_of_the_host_are_copied_where_kernels_cannot_work_in_place(by_copies):
    host = records(np.dtype(PLAIN))
    by_way_of = records(np.dtype([*PLAIN, ("readonly", "i1"), ("size", "i1")]))
    out = np.zeros(1)
    with by_copies():
        change[1, 1](host[2], out)
        change[1, 1](by_way_of[1], out)
    assert host[2] == changed(records(np.dtype(PLAIN))[2])

    @cuda.jit
    def read(record, out):
        out[0] = record.x

    by_way_of.flags.writeable = False
    with by_copies():
        read[1, 1](by_way_of[1], out)
        with pytest.raises(CompileError, match=r"read-?only"):
            change[1, 1](by_way_of[1], out)
    assert out[0] == by_way_of["x"][1]


def test_a_closed_record_is_no_argument():
    record = DeviceRecord(np.dtype(PLAIN))
    record.close()
    with pytest.raises(ValueError, match="given back"):
        change[1, 1](record, cuda.device_array(1))


def test_a_device_function_takes_a_record():
    @cuda.jit(device=True)
    def energy(body):
        return body.mass * body.speed**2 / 2

    @cuda.jit
    def energies(bodies, out):
        i = cuda.grid(1)
        out[i] = energy(bodies[i])

    bodies = np.array([(2, 3), (4, 5)], [("mass", "f8"), ("speed", "f8")])
    out = cuda.device_array(2)
    energies[1, 2](cuda.to_device(bodies), out)
    assert out.copy_to_host().tolist() == [9, 50]


# ---- signatures ---------------------------------------------------------------------------------


@dtypes
def test_signatures_name_records(dtype):
    kind = numba.from_dtype(dtype)
    signature = numba.void(kind[:], kind)

    @cuda.jit(signature)
    def copy(array, record):
        array[cuda.grid(1)].x = record.x

    there = cuda.to_device(records(dtype))
    copy[1, 4](there, there[3])
    assert there["x"].copy_to_host().tolist() == [3, 3, 3, 3]
    host = records(dtype)
    copy[1, 4](host, host[2])
    assert host["x"].tolist() == [2, 2, 2, 2]
    with pytest.raises(LaunchError, match="was compiled for"):
        copy[1, 4](there, np.zeros(1, "i4,i4")[0])


def test_a_signature_that_writes_takes_no_read_only_record():
    dtype = np.dtype([("n", "i4")])

    @cuda.jit(numba.void(numba.from_dtype(dtype)))
    def write(record):
        record.n = 1

    host = np.zeros(1, dtype)
    write[1, 1](host[0])
    host.flags.writeable = False
    with pytest.raises(LaunchError, match="was compiled for"):
        write[1, 1](host[0])
    there = cuda.to_device(host)
    there.readonly = True
    with pytest.raises(LaunchError, match="was compiled for"):
        write[1, 1](there[0])


# ---- read-only ----------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["device", "host"])
def test_kernels_read_read_only_records_and_do_not_write_them(place):
    @cuda.jit
    def read(array, record, out):
        out[0] = array[1].x + array[1].v[0, 2] + array["pair"][1].p + record.x + record["many"][0].p

    def make():
        host = records(np.dtype(PLAIN))
        if place == "device":
            host = cuda.to_device(host)
            host.readonly = True
        else:
            host.flags.writeable = False
        return host

    out = np.zeros(1)
    fixed = make()
    read[1, 1](fixed, fixed[3], out)
    assert out[0] == 1 + 8 + 3
    local = cuda.to_device(records(np.dtype(PLAIN)))
    for write in (write_number, write_item, write_sub_array, write_nested, write_field):
        with pytest.raises(CompileError, match=r"read-?only"):
            write[1, 1](fixed)
        write[1, 1](local)


@cuda.jit
def write_number(array):
    array[0].x = 1


@cuda.jit
def write_item(array):
    array[0]["x"] = 1


@cuda.jit
def write_sub_array(array):
    array[0].v[0, 0] = 1


@cuda.jit
def write_nested(array):
    array[0].many[1].p = 1


@cuda.jit
def write_field(array):
    array["x"][0] = 1


def test_records_of_a_read_only_array_are_copied_to_others():
    @cuda.jit
    def copy(target, source):
        i = cuda.grid(1)
        target[i] = source[i]

    fixed = cuda.to_device(records(np.dtype(PLAIN)))
    fixed.readonly = True
    target = cuda.device_array_like(fixed)
    copy[1, 4](target, fixed)
    np.testing.assert_array_equal(target.copy_to_host(), records(np.dtype(PLAIN)))


# ---- dtypes -------------------------------------------------------------------------------------

KINDS = ["c8", "c16", "f2", "?", "M8[s]", "M8[ns]", "m8[us]", "S5", "U3", ">f4", "V7", "f4,i2"]


def of_kind(dtype, shape):
    count = int(np.prod(shape))
    dtype = np.dtype(dtype)
    numbers = np.arange(1, count + 1)
    if dtype.kind == "V":
        return np.arange(count * dtype.itemsize, dtype=np.uint8).view(dtype).reshape(shape)
    if dtype.kind in "Mm":
        return numbers.astype("i8").view(dtype).reshape(shape)
    return numbers.astype(dtype).reshape(shape)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (5,), (2, 3)])
@pytest.mark.parametrize("kind", KINDS)
def test_every_dtype_is_copied_read_and_written(kind, shape):
    host = of_kind(kind, shape)
    there = cuda.to_device(host)
    np.testing.assert_array_equal(there.copy_to_host(), host)
    assert (there.dtype, there.shape, there.nbytes) == (host.dtype, host.shape, host.nbytes)
    other = cuda.device_array_like(host)
    other[...] = there
    np.testing.assert_array_equal(np.asarray(other), host)
    value = of_kind(kind, (1,))[0]
    other[...] = value
    host[...] = value
    np.testing.assert_array_equal(other.copy_to_host(), host)
    if host.size:
        last = tuple(n - 1 for n in shape)
        element = there[last]
        if host.dtype.names is not None:
            element = element.copy_to_host()[()]
        assert type(element) is type(of_kind(kind, shape)[last])
        assert element == of_kind(kind, shape)[last]


@pytest.mark.parametrize("kind", ["c8", "c16", "?", "M8[s]", "m8[us]", "S5", "f4,i2"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_kernels_move_elements_of_every_dtype_that_numba_types(kind, shape):
    host = of_kind(kind, shape)
    there = cuda.device_array_like(host)
    {0: move_0, 1: move_1, 2: move_2}[len(shape)][1, (2, 3)](there, cuda.to_device(host))
    np.testing.assert_array_equal(there.copy_to_host(), host)


@cuda.jit
def move_0(target, source):
    target[()] = source[()]


@cuda.jit
def move_1(target, source):
    i = cuda.grid(1)
    if i < source.size:
        target[i] = source[i]


@cuda.jit
def move_2(target, source):
    i, j = cuda.grid(2)
    if i < source.shape[0] and j < source.shape[1]:
        target[i, j] = source[i, j]


def test_kernels_work_out_dates_and_complex_numbers():
    @cuda.jit
    def later(dates, by, numbers):
        i = cuda.grid(1)
        dates[i] = dates[i] + by
        numbers[i] = numbers[i] * 2j

    dates = cuda.to_device(np.array(["2020-02-28", "1969-12-31"], "M8[D]"))
    numbers = cuda.to_device(np.array([1, 1j], np.complex64))
    later[1, 2](dates, np.timedelta64(2, "D"), numbers)
    assert [str(day) for day in dates.copy_to_host()] == ["2020-03-01", "1970-01-02"]
    assert numbers.copy_to_host().tolist() == [2j, -2]


def test_signatures_name_dates():
    day = numba.types.NPDatetime("D")

    @cuda.jit(numba.void(day[:], day))
    def write(dates, value):
        dates[0] = value

    dates = cuda.to_device(np.zeros(1, "M8[D]"))
    write[1, 1](dates, np.datetime64("2001-02-03"))
    assert dates[0] == np.datetime64("2001-02-03")


@pytest.mark.parametrize("kind", [">f4", "V7", [("x", ">i4")], [("x", "V3")]])
def test_dtypes_without_a_numba_type_are_refused_by_name(kind):
    there = cuda.device_array(1, kind)
    with pytest.raises(
        LaunchTypeError, match=r"Unsupported array dtype: .*no type for it"
    ) as caught:
        move_1[1, 1](there, there)
    assert isinstance(caught.value, TypingError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again)) == (type(caught.value), str(caught.value))


def test_void_without_fields_is_no_record():
    with pytest.raises(LaunchError, match="cannot take a NumPy scalar of dtype"):
        change[1, 1](np.void(b"abc"), np.zeros(1))
