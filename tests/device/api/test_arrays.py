"""Arrays that the host makes on a device, or moves there: those of `api.arrays`."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from haulage import cuda, roc
from haulage.api.arrays import check_array, to_device_of
from haulage.errors import DeviceMismatch

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


@pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
def test_no_dtype_is_numpys(name):
    assert getattr(cuda, name)(3, dtype=None).dtype == getattr(np, name)(3, dtype=None).dtype


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


def test_a_device_can_be_named_for_what_is_moved(devices):
    here, other = devices
    host = np.arange(6.0).reshape(2, 3)
    for value in (host, [1, 2], np.ones(2, "i4,f8")[0]):
        assert to_device_of(other, value).device is other
        assert to_device_of(None, value).device is here
    there = to_device_of(other, host)
    np.testing.assert_array_equal(there.copy_to_host(), host)
    # What is there already is given back, and is not moved to a device that it is not on.
    assert to_device_of(other, there) is there
    for options in ({"obj": there}, {"obj": host, "to": there}):
        with pytest.raises(DeviceMismatch, match="copy it by way of the host"):
            to_device_of(here, **options)
    np.testing.assert_array_equal(there.copy_to_host(), host)


def test_without_a_copy_there_is_memory_alone():
    host = np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3))
    made = cuda.to_device(host, copy=False)
    assert (made.shape, made.strides, made.dtype) == (host.shape, host.strides, host.dtype)
    target = cuda.zeros((2, 3), np.int16, "F")
    assert cuda.to_device(host, copy=False, to=target) is target
    assert not target.copy_to_host().any()
    assert cuda.to_device(host, to=target) is target
    np.testing.assert_array_equal(target.copy_to_host(), host)
    with pytest.raises(TypeError, match=r"to_device\(to=ndarray\): expected an array or record"):
        cuda.to_device(host, to=np.zeros((2, 3)))


def test_what_is_on_a_device_is_told_from_what_is_not():
    for made in (cuda.zeros(3), cuda.mapped_array(3), cuda.managed_array(3)):
        assert cuda.is_cuda_array(made)
        assert cuda.to_device(made) is made
    # A view of mapped memory is mapped, a copy of it is the host's.
    mapped = cuda.mapped_array(4)
    assert cuda.is_cuda_array(mapped[1:])
    assert not cuda.is_cuda_array(mapped.copy())
    for other in (np.zeros(3), [1, 2], 3, None, cuda.pinned_array(3)):
        assert not cuda.is_cuda_array(other)


@pytest.mark.parametrize("wrong", [3, [1, 2], None, np.ndarray, cuda.DeviceNDArray])
def test_like_forms_want_an_array(wrong):
    for call in (check_array, cuda.device_array_like, cuda.zeros_like, cuda.mapped_array_like):
        with pytest.raises(TypeError, match="expected an array, of the host or a device"):
            call(wrong)
