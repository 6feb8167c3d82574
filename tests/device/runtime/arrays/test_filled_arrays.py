"""zeros, ones, full, empty and their _like forms, fill, pinned_zeros, close and `with`."""

import gc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from haulage import cuda, roc
from haulage.runtime import memory

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]
ALSO_FAR = True

words = pytest.mark.parametrize("words", [cuda, roc], ids=["cuda", "roc"])
quick = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
dtypes = st.sampled_from(
    ["i1", "?", "f2", "f4", "f8", "c8", "c16", ">i4", "M8[s]", "m8[ms]", "S3", "U2", "i4,f8"]
)
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@words
@pytest.mark.parametrize("name", ["zeros", "ones"])
@pytest.mark.parametrize("dtype", ["i2", "f4", "c16", "f2", "?"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_filled_arrays_are_numpys(words, name, dtype, order):
    expected = getattr(np, name)((3, 4), dtype, order)
    made = getattr(words, name)((3, 4), dtype, order)
    assert (made.shape, made.dtype, made.strides) == ((3, 4), expected.dtype, expected.strides)
    np.testing.assert_array_equal(made.copy_to_host(), expected)
    default = getattr(words, name)(5)
    assert default.dtype == np.float64
    np.testing.assert_array_equal(default.copy_to_host(), getattr(np, name)(5))


@words
def test_full_takes_the_dtype_of_its_value(words):
    for value in (3, 2.5, 1j, True, np.float32(1), np.datetime64("2020-01-01", "D")):
        made = words.full((2, 3), value)
        assert made.dtype == np.full((2, 3), value).dtype
        np.testing.assert_array_equal(made.copy_to_host(), np.full((2, 3), value))
    assert words.full(3, 2.9, np.int32).copy_to_host().tolist() == [2, 2, 2]
    np.testing.assert_array_equal(words.full((2, 3), [1, 2, 3]).copy_to_host(), [[1, 2, 3]] * 2)


@words
def test_empty_is_device_array_with_numpys_order_of_arguments(words):
    made = words.empty((2, 3), np.int16, "F")
    assert (made.shape, made.dtype) == ((2, 3), np.int16)
    assert made.is_f_contiguous()


@quick
@given(st.data(), shapes, dtypes)
def test_like_forms_are_numpys(data, shape, dtype):
    like = np.zeros(shape, dtype).transpose(data.draw(st.permutations(range(len(shape)))))
    source = data.draw(st.sampled_from([like, cuda.to_device(like)]))
    order = data.draw(st.sampled_from("KACF"))
    other = data.draw(st.sampled_from([None, "f4", "i8"]))
    for name in ("empty_like", "zeros_like", "ones_like"):
        if np.dtype(other or dtype).kind in "VSUM" and name == "ones_like":
            continue
        expected = getattr(np, name)(like, other, order)
        made = getattr(cuda, name)(source, other, order)
        assert (made.shape, made.dtype) == (expected.shape, expected.dtype)
        if made.size > 1:
            assert made.is_c_contiguous() == expected.flags.c_contiguous
            assert made.is_f_contiguous() == expected.flags.f_contiguous
        if name != "empty_like":
            np.testing.assert_array_equal(made.copy_to_host(), expected)
    if np.dtype(other or dtype).kind in "ifc":
        np.testing.assert_array_equal(
            cuda.full_like(source, 3, other, order).copy_to_host(),
            np.full_like(like, 3, other, order),
        )


@quick
@given(st.data(), shapes, dtypes)
def test_fill_is_numpys_on_any_view(data, shape, dtype):
    expected = np.zeros(shape, dtype)
    array = cuda.to_device(expected)
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    if not isinstance(expected[key], np.ndarray):
        return
    values = {"V": (1, 2.0), "S": b"ab", "U": "x", "M": 5, "m": 5, "b": True}
    value = values.get(np.dtype(dtype).kind, 3)
    if np.dtype(dtype).kind in "Mm":
        value = np.array(value, "i8").view(dtype)[()]
    expected[key].fill(value)
    array[key].fill(value)
    np.testing.assert_array_equal(array.copy_to_host(), expected)


@pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
def test_no_dtype_is_numpys(name):
    assert getattr(cuda, name)(3, dtype=None).dtype == getattr(np, name)(3, dtype=None).dtype


def test_fill_in_a_stream_is_ordered_there(hold_up):
    stream = cuda.stream()
    array = cuda.zeros(100, stream=stream)
    target = cuda.pinned_zeros(100)
    with hold_up(stream):
        array.fill(3, stream)
        array.copy_to_host(target, stream)
        assert (target == 0).all()
    stream.synchronize()
    assert (target == 3).all()


def test_fill_refuses_several_values_and_read_only_arrays():
    array = cuda.zeros(3)
    with pytest.raises(ValueError, match=r"shape \(3,\); expected a single element"):
        array.fill([1, 2, 3])
    with pytest.raises(ValueError, match="could not convert"):
        array.fill("text")
    fixed = np.zeros(3)
    fixed.flags.writeable = False
    with cuda.mapped(fixed) as there, pytest.raises(ValueError, match="read-only"):
        there.fill(1)
    assert (array.copy_to_host() == 0).all()


@words
def test_pinned_zeros_are_pinned_and_zero(words):
    for shape, dtype in ((5, np.float32), ((2, 3), "i4,f8"), (3, "M8[s]"), ((), np.bool_)):
        made = words.pinned_zeros(shape, dtype)
        np.testing.assert_array_equal(made, np.zeros(shape, dtype))
        assert made.dtype == np.dtype(dtype)
    assert words.pinned_zeros((3, 4), order="F").flags.f_contiguous


@words
def test_a_with_statement_closes_the_array(words, device):
    gc.collect()
    before = memory.stats()[str(device)]["device"].in_use
    with words.zeros(1000) as array:
        view = array[::2]
        assert memory.stats()[str(device)]["device"].in_use == before + 8000
    assert memory.stats()[str(device)]["device"].in_use == before
    for closed in (array, view):
        with pytest.raises(ValueError, match="given back by close"):
            closed.copy_to_host()
    array.close()  # a second time is nothing


def test_what_a_closed_array_refuses():
    array, other = cuda.zeros(10), np.zeros(10)
    array.close()
    kernel = cuda.jit(lambda a: None)
    uses = [
        lambda: array.copy_to_host(),
        lambda: array.copy_to_device(other),
        lambda: array[0],
        lambda: array.__setitem__(0, 1),
        lambda: array.fill(1),
        lambda: np.asarray(array),
        lambda: np.from_dlpack(array),
        lambda: cuda.zeros(10).copy_to_device(array),
        lambda: kernel[1, 1](array),
        lambda: array.get_ipc_handle(),
        lambda: array.device_ctypes_pointer,
        lambda: 0 in array,
    ]
    for use in uses:
        with pytest.raises(ValueError, match="given back by close"):
            use()
