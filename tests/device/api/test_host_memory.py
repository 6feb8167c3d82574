"""Host memory that a device reaches: what `api.host_memory` makes, pins and maps."""

import numpy as np
import pytest

import haulage
from haulage import cuda, roc
from haulage.runtime.buffers import pinned_memory

pytestmark = pytest.mark.usefixtures("device")

words = pytest.mark.parametrize("words", [cuda, roc], ids=["cuda", "roc"])


def is_pinned(array):
    return pinned_memory.note_pinned(array, cuda.default_stream())


@words
def test_pinned_zeros_are_pinned_and_zero(words):
    for shape, dtype in ((5, np.float32), ((2, 3), "i4,f8"), (3, "M8[s]"), ((), np.bool_)):
        made = words.pinned_zeros(shape, dtype)
        np.testing.assert_array_equal(made, np.zeros(shape, dtype))
        assert made.dtype == np.dtype(dtype)
    assert words.pinned_zeros((3, 4), order="F").flags.f_contiguous


def test_it_is_of_the_current_device(devices):
    like = np.zeros((2, 3), np.float32)
    with haulage.use(devices[1]):
        for made in (
            cuda.pinned_array(4),
            cuda.pinned_array_like(like),
            cuda.mapped_array(4),
            cuda.mapped_array_like(like),
            cuda.managed_array(4),
        ):
            assert pinned_memory.block_of(made).device is devices[1]


def test_forms_like_an_array_have_its_axes_without_gaps():
    like = np.zeros((4, 6), np.int16)[::2, ::3].T
    for make in (cuda.pinned_array_like, cuda.mapped_array_like):
        made = make(like)
        assert (made.shape, made.dtype, made.strides) == ((2, 2), np.int16, (2, 4))


@pytest.mark.parametrize(
    ("make", "options", "hints"),
    [
        (cuda.mapped_array, {}, ()),
        (cuda.mapped_array, {"portable": True}, ("portable",)),
        (cuda.mapped_array, {"portable": True, "wc": 1}, ("portable", "wc")),
        (cuda.managed_array, {}, ()),
        (cuda.managed_array, {"attach_global": False}, ("attach_host",)),
        (cuda.managed_array, {"attach_global": np.True_}, ()),
        (roc.coarsegrain_array, {}, ("non_coherent",)),
        (roc.finegrain_array, {}, ("coherent",)),
    ],
)
def test_the_driver_is_asked_for_what_the_program_names(make, options, hints):
    assert make(4, np.float32, **options).hints == hints


@pytest.mark.parametrize("name", ["portable", "wc", "attach_global"])
def test_an_answer_that_is_neither_yes_nor_no_is_refused(name):
    make = cuda.managed_array if name == "attach_global" else cuda.mapped_array
    with pytest.raises(TypeError, match=rf"{name}=array.*expected True or False"):
        make(4, **{name: np.zeros(2)})


def test_arrays_are_pinned_until_they_are_not():
    first, second = np.zeros(100), np.zeros(100)
    with cuda.pinned(first, second):
        assert [*map(is_pinned, (first, second))] == [True, True]
    assert [*map(is_pinned, (first, second))] == [False, False]
    held = roc.register(first)
    assert is_pinned(first)
    roc.deregister(first)
    assert not is_pinned(first)
    del held
    with roc.register(first, second):
        assert is_pinned(second)
    assert not is_pinned(second)


@pytest.mark.parametrize("wrong", [[1, 2], np.zeros((10, 10))[:, ::2], None])
def test_where_one_array_cannot_be_pinned_none_is(wrong):
    good = np.zeros(100)
    for pin in (cuda.pinned, cuda.mapped):
        with pytest.raises((TypeError, ValueError)), pin(good, wrong):
            raise AssertionError
        assert not is_pinned(good)
    with pytest.raises((TypeError, ValueError)):
        roc.register(good, wrong)
    assert not is_pinned(good)
    with cuda.pinned(good):  # it was given back, so it can be pinned
        assert is_pinned(good)


def test_an_array_is_pinned_once():
    host = np.zeros(100)
    with cuda.pinned(host):
        for pin in (cuda.pinned, cuda.mapped):
            with pytest.raises(ValueError, match="pinned"), pin(host):
                raise AssertionError
        assert is_pinned(host)


def test_arrays_are_mapped_to_the_device_of_a_stream(devices):
    here, other = devices
    with haulage.use(other):
        stream = cuda.stream()
    host = np.arange(100.0)
    with cuda.mapped(host) as there:
        assert there.device is here
    with cuda.mapped(host, host.copy(), stream=stream) as both:
        assert [each.device for each in both] == [other, other]
        np.testing.assert_array_equal(both[0].copy_to_host(), host)
    with pytest.raises(ValueError, match="given back"):
        both[1].copy_to_host()
