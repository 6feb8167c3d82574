"""Records and structured dtypes on a device: fields, elements, assignment and copies."""

import copy
import gc
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from haulage import cuda
from haulage.errors import ShapeMismatch
from haulage.runtime.arrays.array import DeviceNDArray, DeviceRecord

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]

quick = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

INNER = np.dtype([("p", "u2"), ("q", "c8")])
BODY = np.dtype([("mass", "f8"), ("place", "f4", (3,)), ("inner", INNER), ("born", "M8[s]")])
FIELDS = "mass, place, inner, born"


def bodies(count=3):
    host = np.zeros(count, BODY)
    host["mass"] = np.arange(count) + 0.5
    host["place"] = np.arange(3 * count).reshape(count, 3)
    host["inner"]["p"] = 7
    host["inner"]["q"] = 1 - 2j
    host["born"] = "2020-02-02"
    return host


def on_device(host):
    """A writable copy of a host record."""
    record = DeviceRecord(host.dtype)
    record.copy_to_device(host)
    return record


# ---- reading fields -----------------------------------------------------------------------------


def test_an_element_with_fields_is_a_record_over_the_same_memory():
    there = cuda.to_device(bodies())
    record = there[1]
    assert type(record) is DeviceRecord
    assert record.block is there.block
    assert record.device_pointer == there.device_pointer + BODY.itemsize
    assert (record.shape, record.dtype, record.nbytes) == ((), BODY, BODY.itemsize)
    assert record.is_c_contiguous()
    there["mass"] = 9
    assert record["mass"] == 9


def test_a_number_of_a_record_is_copied_as_a_numpy_scalar():
    record = cuda.to_device(bodies())[2]
    expected = bodies()[2]
    for name in ("mass", "born"):
        assert type(record[name]) is type(expected[name])
        assert record[name] == expected[name]
    assert record["inner"]["q"] == np.complex64(1 - 2j)


def test_sub_arrays_and_nested_records_are_views():
    there = cuda.to_device(bodies())
    place, inner = there[1]["place"], there[1]["inner"]
    assert type(place) is DeviceNDArray
    assert (place.shape, place.dtype) == ((3,), np.float32)
    assert type(inner) is DeviceRecord
    place[1:] = -1
    inner["p"] = 3
    back = there.copy_to_host()
    assert back["place"].tolist() == [[0, 1, 2], [3, -1, -1], [6, 7, 8]]
    assert back["inner"]["p"].tolist() == [7, 3, 7]


def test_fields_are_found_by_number_as_in_a_numpy_record():
    record, expected = cuda.to_device(bodies())[1], bodies()[1]
    assert record[0] == expected[0]
    assert record[np.int8(-1)] == expected[-1]
    assert record[1].copy_to_host().tolist() == expected[1].tolist()
    assert len(record) == len(expected)
    assert [type(part) for part in record][1:3] == [DeviceNDArray, DeviceRecord]
    record[0] = 4
    assert record["mass"] == 4
    with pytest.raises(IndexError, match="invalid index \\(4\\) for a record of 4 fields"):
        record[4]


def test_fields_are_attributes():
    record = cuda.to_device(bodies())[0]
    assert record.mass == 0.5
    assert record.inner.p == 7
    record.mass = 3
    record.inner.q = 5j
    record.place = [1, 2, 3]
    record.place[0] = 8
    expected = np.array((3, [8, 2, 3], (7, 5j), "2020-02-02"), BODY)
    assert record.copy_to_host() == expected
    assert "mass" in dir(record)


def test_what_every_record_has_goes_before_a_field_of_that_name():
    record = on_device(np.void((3, 4), [("size", "i4"), ("close", "i4")]))
    assert record.size == 1
    assert callable(record.close)
    with pytest.raises(AttributeError, match=r"the field is record\['size'\]"):
        record.size = 5
    record["size"] = 5
    assert (record["size"], record["close"], record.size) == (5, 4, 1)


def test_an_attribute_that_is_not_there_is_an_error():
    record = cuda.to_device(bodies())[0]
    with pytest.raises(AttributeError, match="no attribute or field 'weight'"):
        _ = record.weight
    with pytest.raises(AttributeError, match=f"the fields are {FIELDS}"):
        record.weight = 3


@pytest.mark.parametrize("made", [lambda there: there, lambda there: there[0]])
def test_a_field_that_is_not_there_is_an_error_that_lists_them(made):
    thing = made(cuda.to_device(bodies()))
    message = f"no field of name 'weight'; the fields are {FIELDS}"
    with pytest.raises(ValueError, match=message):
        thing["weight"]
    with pytest.raises(ValueError, match=message):
        thing["weight"] = 3
    with pytest.raises(KeyError, match=message):
        thing[["mass", "weight"]]


def test_arrays_without_fields_have_no_field():
    there = cuda.to_device(np.zeros(3))
    with pytest.raises(ValueError, match="no field of name 'x'; dtype float64 has no fields"):
        there["x"]


@pytest.mark.parametrize("key", [1.5, None, slice(None), ("mass",), (0,), True, [0], []])
def test_a_record_has_no_other_keys(key):
    record = cuda.to_device(bodies())[0]
    with pytest.raises(IndexError, match="the name or number of a field"):
        record[key]
    with pytest.raises(IndexError, match="the name or number of a field"):
        record[key] = 1


def test_names_do_not_mix_with_numbers_in_one_key():
    with pytest.raises(IndexError, match="index 'mass' is a str"):
        cuda.to_device(bodies().reshape(1, 3))[0, "mass"]


def test_titles_are_names_too():
    dtype = np.dtype([(("weight in kg", "mass"), "f8"), ("n", "i4")])
    there = cuda.to_device(np.zeros(2, dtype))
    there["weight in kg"] = 3
    assert there["mass"].copy_to_host().tolist() == [3, 3]
    assert there[0]["weight in kg"] == 3


# ---- fields of arrays ---------------------------------------------------------------------------


def test_a_field_of_an_array_is_a_strided_view():
    there = cuda.to_device(bodies().reshape(3, 1))
    place = there["place"]
    assert (place.shape, place.strides) == ((3, 1, 3), (BODY.itemsize, BODY.itemsize, 4))
    place[:, 0, 1] = 11
    there["mass"][1:] = there["mass"][:2]
    expected = bodies().reshape(3, 1)
    expected["place"][:, 0, 1] = 11
    expected["mass"][1:] = expected["mass"][:2].copy()
    np.testing.assert_array_equal(there.copy_to_host(), expected)


def test_assigning_to_a_field_leaves_the_others():
    there, expected = cuda.to_device(bodies()), bodies()
    for name, value in (
        ("mass", [3, 2, 1]),
        ("place", 5),
        ("inner", (1, 2)),
        ("born", "1999-01-01"),
    ):
        there[name] = value
        expected[name] = value
    np.testing.assert_array_equal(there.copy_to_host(), expected)


def test_some_fields_are_a_view_that_leaves_the_others_alone():
    host = np.arange(12, dtype=np.int32).view("i4,i4,i4")
    there = cuda.to_device(host)
    some = there[["f0", "f2"]]
    assert some.dtype == host[["f0", "f2"]].dtype
    other = np.zeros(4, "i4,i4,i4")[["f0", "f2"]]
    for write in (
        lambda: some.copy_to_device(other),
        lambda: some.setitem(slice(1, 3), other[:2]),
        lambda: some.fill((0, 0)),
        lambda: there.setitem(["f0", "f2"], (0, 0)),
        lambda: there[1].setitem(["f0", "f2"], (0, 0)),
        lambda: some[0].copy_to_device(other[0]),
        lambda: some.copy_to_device(cuda.to_device(other)),
    ):
        write()
        assert there["f1"].copy_to_host().tolist() == [1, 4, 7, 10]
    assert there["f0"].copy_to_host().tolist() == [0, 0, 0, 0]


def test_a_copy_to_some_fields_of_a_host_array_leaves_the_others_alone():
    host = np.arange(6, dtype=np.int32).view("i4,i4,i4")
    there = cuda.to_device(np.zeros(2, "i4,i4,i4"))
    there[["f0", "f2"]].copy_to_host(host[["f0", "f2"]])
    assert host.tolist() == [(0, 1, 0), (0, 4, 0)]


def test_dtypes_with_fields_can_be_seen_as_others_and_back():
    host = np.arange(12, dtype=np.float32)
    there = cuda.to_device(host)
    points = there.view([("x", "f4"), ("y", "f4", (2,))])
    assert points.shape == (4,)
    assert points[1].x == 3
    assert points.view("f4").copy_to_host().tolist() == host.tolist()
    assert points.view(("f4", (3,))).copy_to_host().tolist() == host.reshape(4, 3).tolist()
    with pytest.raises(ValueError, match="must have the size of the elements, 12 bytes"):
        points.view(("f4", (2,)))
    record = points[2]
    assert record.view(("f4", 3)).copy_to_host().tolist() == [6, 7, 8]
    assert type(record.view([("a", "V12")])) is DeviceRecord
    with pytest.raises(ValueError, match="cannot view"):
        record.view("f8")


def test_a_sub_array_dtype_gives_its_axes_to_the_array():
    there = cuda.device_array((2, 3), ("i2", (4,)))
    assert (there.shape, there.dtype, there.strides) == ((2, 3, 4), np.int16, (24, 8, 2))
    there[...] = 3
    assert there.copy_to_host().sum() == 72


# ---- writing elements ---------------------------------------------------------------------------

VALUES = [
    (2, [1, 2, 3], (4, 5j), "2001-01-01"),
    np.void((2, [1, 2, 3], (4, 5j), "2001-01-01"), BODY),
    np.array((2, [1, 2, 3], (4, 5j), "2001-01-01"), BODY),
    np.void(
        (2, [1, 2, 3], (4, 5j), 0), [("a", "i1"), ("b", "f8", 3), ("c", INNER), ("d", "M8[s]")]
    ),
]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("key", [1, slice(1, None), Ellipsis])
def test_elements_are_written_as_numpy_writes_them(key, value):
    there, expected = cuda.to_device(bodies()), bodies()
    there[key] = value
    expected[key] = value
    np.testing.assert_array_equal(there.copy_to_host(), expected)


def test_a_record_is_written_as_a_whole():
    record = cuda.to_device(bodies())[0]
    for value in VALUES:
        record["mass"] = 0
        record[...] = value
        assert record["mass"] == 2
    record[()] = VALUES[0]
    assert record[...].copy_to_host() == np.array(VALUES[0], BODY)


def test_a_record_of_the_device_is_written_to_elements():
    there = cuda.to_device(bodies())
    there[1:] = there[0]
    assert there.copy_to_host()["mass"].tolist() == [0.5, 0.5, 0.5]
    other = on_device(bodies()[2])
    there[0] = other
    there[1]["inner"] = on_device(np.void((1, 2), INNER))
    back = there.copy_to_host()
    assert back["mass"].tolist() == [2.5, 0.5, 0.5]
    assert back[1]["inner"] == np.void((1, 2), INNER)
    with pytest.raises(TypeError, match="incompatible dtype"):
        there[0] = on_device(np.void((1, 2), INNER))


def test_values_that_do_not_fit_change_nothing():
    there = cuda.to_device(bodies())
    for write in (
        lambda: there.setitem(0, (1, 2)),
        lambda: there[0].setitem("place", [1, 2]),
        lambda: there.setitem("mass", [1, 2]),
        lambda: there[0].setitem("inner", (1, 2, 3)),
        lambda: there[0].copy_to_device(np.zeros(2, BODY)),
    ):
        with pytest.raises(ValueError, match=r"shape|broadcast|size|length|assign"):
            write()
    with pytest.raises(TypeError, match="incompatible dtype"):
        there[0].copy_to_device(np.zeros((), INNER))
    np.testing.assert_array_equal(there.copy_to_host(), bodies())


def test_read_only_memory_is_not_written_to_by_way_of_fields():
    there = cuda.to_device(bodies())
    there.readonly = True
    for write in (
        lambda: there.setitem("mass", 1),
        lambda: there[0].setitem("mass", 1),
        lambda: there[0]["place"].setitem(0, 1),
        lambda: setattr(there[0].inner, "p", 1),
        lambda: there[0].copy_to_device(bodies()[1]),
        lambda: there[["mass"]].fill((1,)),
    ):
        with pytest.raises(ValueError, match="read-only"):
            write()
    np.testing.assert_array_equal(there.copy_to_host(), bodies())


# ---- records themselves -------------------------------------------------------------------------


def test_a_new_record_has_memory_of_its_own(device):
    record = DeviceRecord(BODY)
    assert record.device is device
    assert record.alloc_size == BODY.itemsize
    record.copy_to_device(bodies()[1])
    assert record.copy_to_host() == bodies()[1]
    with pytest.raises(TypeError, match="dtype float64 has no fields"):
        DeviceRecord(np.float64)


def test_a_record_can_stand_on_given_memory():
    there = cuda.to_device(bodies())
    record = DeviceRecord(BODY, 0, there[1:].gpu_data)
    assert record["mass"] == 1.5
    with pytest.raises(ValueError, match="the memory given has"):
        DeviceRecord(BODY, 0, there["mass"][:1].gpu_data)


def test_a_record_goes_to_arrays_and_records_of_the_host():
    record = cuda.to_device(bodies())[1]
    back = record.copy_to_host()
    assert (type(back), back.shape, back.dtype) == (np.ndarray, (), BODY)
    host = bodies()
    assert record.copy_to_host(host[2]) is not None
    assert record.copy_to_host(host[:1]).shape == (1,)
    assert host["mass"].tolist() == [1.5, 1.5, 1.5]
    own = np.void(host[0], BODY)
    assert cuda.to_device(bodies())[2].copy_to_host(own) is own
    assert own["mass"] == 2.5
    assert np.asarray(record) == bodies()[1]
    with pytest.raises(ShapeMismatch):
        record.copy_to_host(host)
    host.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        record.copy_to_host(host[0])


def test_copies_of_a_record_run_in_streams(hold_up):
    stream = cuda.stream()
    record = DeviceRecord(BODY, stream)
    target = cuda.pinned_array((), BODY)
    record.copy_to_device(bodies()[0])
    stream.synchronize()
    with hold_up(stream):
        record.copy_to_host(target, stream)
    stream.synchronize()
    assert target == bodies()[0]
    record.setitem("mass", 7, stream)
    assert record.getitem("mass", stream) == 7


def test_other_libraries_take_records_as_the_protocols_allow(device):
    record = cuda.to_device(bodies())[0]
    assert cuda.is_cuda_array(record)
    with pytest.raises(BufferError, match="dtype"):
        np.from_dlpack(record)
    assert hasattr(record, "__cuda_array_interface__") == (device.kind == "nvidia")


def test_other_shapes_of_a_record_are_arrays():
    record = cuda.to_device(bodies())[1]
    assert type(record.reshape(1)) is DeviceNDArray
    assert record.reshape(1)[0].mass == 1.5
    assert type(record.bind(cuda.stream())) is DeviceRecord
    assert type(record[...]) is DeviceNDArray


def test_the_repr_shows_the_fields(device):
    record = cuda.to_device(bodies())[0]
    fields = "mass: float64, place: float32 (3,), inner: (p: uint16, q: complex64), born:"
    assert repr(record) == f"<DeviceRecord {fields} datetime64[s] on {device}>"


def test_equality_is_identity():
    record = cuda.to_device(bodies())[0]
    assert record == record
    assert record != record.bind()
    assert len({record, record}) == 1


def test_a_record_keeps_its_memory_until_closed():
    record = cuda.to_device(bodies())[1]
    gc.collect()
    assert record.mass == 1.5
    with record:
        place = record.place
    with pytest.raises(ValueError, match="given back"):
        _ = record.mass
    with pytest.raises(ValueError, match="given back"):
        place.copy_to_host()


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))]
)
def test_records_are_copied_and_pickled_by_value(copied):
    there = cuda.to_device(bodies())
    record = copied(there[1])
    assert type(record) is DeviceRecord
    assert record.block is not there.block
    assert record.nbytes == record.block.nbytes
    record.mass = 0
    assert there[1].mass == 1.5
    np.testing.assert_array_equal(record.inner.copy_to_host(), bodies()[1]["inner"])


def test_a_pickled_record_stays_read_only():
    there = cuda.to_device(bodies())
    there.readonly = True
    assert pickle.loads(pickle.dumps(there[0])).readonly


# ---- against NumPy ------------------------------------------------------------------------------

LEAVES = ["i1", "u2", "f2", "f4", "f8", "c16", "?", "S3", "U2", "M8[D]", "m8[s]", ">i4", "V3"]


@st.composite
def structures(draw, depth=2):
    """Structured dtypes: nested, with sub-arrays, packed, aligned and with gaps."""
    inner = st.sampled_from([np.dtype(leaf) for leaf in LEAVES])
    if depth:
        inner = inner | structures(depth - 1)
    kinds = draw(st.lists(inner, min_size=1, max_size=4))
    shapes = [draw(st.sampled_from([(), (), (2,), (2, 3), (1, 0)])) for _ in kinds]
    names = [f"{'xyzw'[n]}{depth}" for n in range(len(kinds))]
    dtype = np.dtype(list(zip(names, kinds, shapes, strict=True)), align=draw(st.booleans()))
    return dtype[draw(st.permutations(names))[: draw(st.integers(1, len(names)))]]


def filled(shape, dtype, seed):
    """Random bytes where the fields are, zeros between them."""
    made = np.zeros(shape, dtype)
    rng = np.random.default_rng(seed)
    _fill(made, rng)
    return made


def _fill(array, rng):
    if array.dtype.names is not None:
        for name in array.dtype.names:
            _fill(array[name], rng)
    elif array.dtype.kind in "SU":
        array[...] = rng.choice(["a", "bc", ""], array.shape)
    elif array.dtype.kind == "V":
        array[...] = np.void(rng.bytes(array.itemsize))
    else:
        array[...] = rng.integers(0, 100, array.shape).astype(
            "i1" if array.dtype.kind != "b" else "?"
        )


def same(got, expected):
    """Whether a thing of the device is what NumPy gives: kind, shape, dtype and bytes."""
    if isinstance(got, (DeviceNDArray, DeviceRecord)):
        assert isinstance(got, DeviceRecord) == isinstance(expected, np.void)
        host = got.copy_to_host()
    else:
        assert type(got) is type(expected)
        host = np.asarray(got)
    expected = np.asarray(expected)
    assert (host.shape, host.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(host, expected)


def draw_key(data, array):
    """A key for `array` (an ndarray or np.void): a field, some fields, or basic indexing."""
    names = array.dtype.names
    if isinstance(array, np.void):
        return data.draw(st.sampled_from(names) | st.integers(-len(names), len(names) - 1))
    keys = hnp.basic_indices(array.shape, allow_newaxis=True, allow_ellipsis=True, max_dims=8)
    if names is not None:
        some = st.lists(st.sampled_from(names), min_size=1, unique=True)
        keys = keys | st.sampled_from(names) | some
    return data.draw(keys)


@quick
@given(structures(), hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3), st.data())
def test_any_chain_of_keys_reads_what_numpy_reads(dtype, shape, data):
    host = filled(shape, dtype, 1)
    there = cuda.to_device(host)
    for _ in range(3):
        key = draw_key(data, host)
        host, there = host[key], there[key]
        same(there, host)
        if not isinstance(there, (DeviceNDArray, DeviceRecord)):
            break


@quick
@given(structures(), hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=3), st.data())
def test_any_chain_of_keys_writes_what_numpy_writes(dtype, shape, data):
    host = filled(shape, dtype, 2)
    there = cuda.to_device(host)
    part, view = host, there
    while data.draw(st.booleans()):
        key = draw_key(data, part)
        if not isinstance(view[key], (DeviceNDArray, DeviceRecord)):
            break
        part, view = part[key], view[key]
    key = draw_key(data, part)
    target = part[key]
    if isinstance(target, (np.ndarray, np.void)):
        value = filled(target.shape, target.dtype, 3)
        value = value[data.draw(st.sampled_from([(), ...]))]
    else:
        value = filled((), np.asarray(target).dtype, 3)[()]
    if isinstance(target, np.void) and target.dtype.names is not None:
        # Where one record is assigned, NumPy writes to the bytes between its fields as well.
        np.asarray(target)[...] = value
    else:
        part[key] = value
    view[key] = value
    same(there, host)


@quick
@given(structures())
def test_any_record_is_pickled_and_copied(dtype):
    host = filled((2,), dtype, 4)
    there = cuda.to_device(host)
    same(pickle.loads(pickle.dumps(there[1])), host[1])
    same(copy.copy(there[1]), host[1])
    same(pickle.loads(pickle.dumps(there[::-1])), host[::-1])
