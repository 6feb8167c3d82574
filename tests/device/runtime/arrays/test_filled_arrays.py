"""fill, close and `with` of arrays that were made with elements."""

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
