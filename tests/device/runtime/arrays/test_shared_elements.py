"""Host arrays whose elements share memory, as those of `np.broadcast_to`, and read-only ones."""

import mmap

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided, sliding_window_view

import haulage
from haulage import cuda
from haulage.errors import CompileError

pytestmark = pytest.mark.usefixtures("device")

ROW = np.arange(1.0, 4.0)

# Views in which several elements are the same memory, or which lie otherwise than in C order.
VIEWS = {
    "rows": lambda: np.broadcast_to(ROW, (5, 3)),
    "columns": lambda: np.broadcast_to(ROW[:, None], (3, 5)),
    "one number": lambda: np.broadcast_to(np.float64(7), (4, 6)),
    "in the midst": lambda: np.broadcast_to(np.arange(6.0).reshape(2, 1, 3), (2, 4, 3)),
    "of every second": lambda: np.broadcast_to(np.arange(9.0)[::2], (3, 5)),
    "backwards": lambda: np.broadcast_to(ROW[::-1], (2, 3)),
    "broadcast_arrays": lambda: np.broadcast_arrays(ROW[:, None].copy(), np.zeros((3, 2)))[0],
    "meshgrid": lambda: np.meshgrid(ROW, np.arange(4.0), copy=False)[1],
    "as_strided": lambda: as_strided(np.arange(9.0), (3, 4), (0, 16)),
    "windows": lambda: sliding_window_view(np.arange(8.0), 3),
    "windows of two axes": lambda: sliding_window_view(np.arange(20.0).reshape(4, 5), (2, 3)),
    "negative strides": lambda: np.arange(12.0).reshape(3, 4)[::-1, ::-1],
    "nothing": lambda: np.broadcast_to(ROW[:0], (5, 0)),
}


@pytest.fixture(params=VIEWS)
def view(request):
    return VIEWS[request.param]()


@cuda.jit
def count_up_4d(a):
    for place in range(cuda.grid(1), a.size, cuda.gridsize(1)):
        row, m = divmod(place, a.shape[3])
        plane, k = divmod(row, a.shape[2])
        a[plane // a.shape[1], plane % a.shape[1], k, m] += 1


@cuda.jit
def count_up_1d(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += 1


@cuda.jit
def count_up_2d(a):
    i, j = cuda.grid(2)
    if i < a.shape[0] and j < a.shape[1]:
        a[i, j] += 1


def assert_own_elements(array, expected):
    """Whether each element of a device array is written by itself."""
    assert np.array_equal(array.copy_to_host(), expected)
    if array.size:
        count_up_4d[1, 64](array.reshape((1,) * (4 - array.ndim) + array.shape))
    assert np.array_equal(array.copy_to_host(), expected + 1)


def to_device(view):
    return cuda.to_device(view)


def to_device_in_a_stream(view):
    return cuda.to_device(view, stream=cuda.stream())


def to_device_into(view):
    return cuda.to_device(view, to=cuda.device_array_like(view))


def copy_to_device(view):
    there = cuda.device_array(view.shape)
    there.copy_to_device(view)
    return there


def assignment(view):
    there = cuda.device_array_like(view)
    there[...] = view
    return there


def mapped(view):
    there = cuda.mapped_array_like(view)
    there[...] = view
    return there.device_view()


def smart(view):
    return cuda.to_device(haulage.SmartArray(view))


def smart_view(view):
    return haulage.SmartArray(view).get(str(cuda.get_current_device()))


def by_dlpack(view):
    return cuda.from_dlpack(view, copy=True)


WAYS_IN = (
    *(to_device, to_device_in_a_stream, to_device_into, copy_to_device, assignment),
    *(mapped, smart, smart_view, by_dlpack),
)


@pytest.mark.parametrize("way_in", WAYS_IN, ids=lambda way_in: way_in.__name__)
@pytest.mark.filterwarnings("ignore:Numpy has detected:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:future versions:DeprecationWarning")
def test_a_copy_has_memory_for_each_element(view, way_in):
    expected = view.copy()
    there = way_in(view)
    assert not there.readonly
    assert there.shape == view.shape
    assert_own_elements(there, expected)
    assert np.array_equal(view, expected)


def test_to_device_has_the_order_of_axes_that_numpys_copy_has(view):
    if view.size:
        assert cuda.to_device(view).strides == np.array(view, copy=True).strides


def test_what_is_only_given_as_input_has_memory_for_each_element():
    @cuda.jit
    def doubled(scratch, out):
        i, j = cuda.grid(2)
        if i < out.shape[0] and j < out.shape[1]:
            scratch[i, j] += 1
            cuda.syncthreads()
            out[i, j] = scratch[i, j]

    out = np.zeros((5, 3))
    doubled[1, (5, 3)](cuda.In(np.broadcast_to(ROW, (5, 3))), out)
    assert np.array_equal(out, np.broadcast_to(ROW + 1, (5, 3)))


def test_a_gufunc_that_writes_to_its_input_has_memory_for_each_row():
    @cuda.guvectorize(["(float64[:], float64[:])"], "(n)->(n)")
    def add_twice(a, out):
        for i in range(a.size):
            a[i] += 1
            out[i] = a[i]

    found = add_twice(np.broadcast_to(ROW, (4, 3)))
    assert np.array_equal(found, np.broadcast_to(ROW + 1, (4, 3)))


def test_a_launch_moves_repeated_values_once(by_copies):
    """A read-only argument takes no memory for the values that it only repeats."""

    @cuda.jit
    def total(a, out):
        for i in range(10):
            out[0] += a[i, 1]

    out = cuda.to_device(np.zeros(1))
    with by_copies():
        total[1, 1](np.broadcast_to(ROW, (1 << 40, 3)), out)
    assert out[0] == 10 * ROW[1]


@pytest.mark.parametrize("step", [1, 2, -1])
def test_writable_windows_share_on_the_device_what_they_share_on_the_host(by_copies, step):
    """What a kernel writes to an element is not undone by another view of that element."""
    host = np.zeros(20)
    windows = sliding_window_view(host[::step], 3, writeable=True)
    with by_copies():
        count_up_2d[1, (windows.shape[0], 1)](windows[:, :1])
        set_first[1, 32](windows)
    expected = np.zeros(20)
    expected[::step][: windows.shape[0]] = 5
    assert np.array_equal(host, expected)


@cuda.jit
def set_first(a):
    i = cuda.grid(1)
    if i < a.shape[0]:
        a[i, 0] = 5


# ---- read-only ----------------------------------------------------------------------------------


class Frozen:
    """An array of a library whose arrays never change and whose DLPack is older than 1.0, as JAX's
    and pyarrow's: NumPy's arrays of it are read-only, its capsules cannot say so."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        shown = self.array.view()
        shown.flags.writeable = False
        return shown if dtype is None else shown.astype(dtype)

    def __dlpack__(self, stream=None, **asked):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def switched_off(tmp_path):
    host = np.arange(8.0)
    host.flags.writeable = False
    return host


def of_bytes(tmp_path):
    return np.frombuffer(np.arange(8.0).tobytes())


def of_a_file(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(8.0))
    return np.load(tmp_path / "a.npy", mmap_mode="r")


def of_a_map(tmp_path):
    (tmp_path / "raw").write_bytes(np.arange(8.0).tobytes())
    with (tmp_path / "raw").open("rb") as file:
        return np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def broadcast(tmp_path):
    return np.broadcast_to(np.float64(3), (8,))


def a_view_of_one(tmp_path):
    return switched_off(tmp_path)[::-1]


HOST_ARRAYS = (switched_off, of_bytes, of_a_file, of_a_map, broadcast, a_view_of_one)


@pytest.fixture(params=HOST_ARRAYS, ids=lambda make: make.__name__)
def frozen(request, tmp_path):
    return request.param(tmp_path)


READ_ONLY = "(?i)read-?only"


def test_a_kernel_cannot_write_to_a_read_only_host_array(frozen, by_copies):
    expected = frozen.copy()
    for argument in (frozen, cuda.Out(frozen), cuda.InOut(frozen), (frozen,)):
        kernel = count_up_first if isinstance(argument, tuple) else count_up_1d
        with pytest.raises(CompileError, match=READ_ONLY):
            kernel[1, 8](argument)
        with by_copies(), pytest.raises(CompileError, match=READ_ONLY):
            kernel[1, 8](argument)
    assert np.array_equal(frozen, expected)


@cuda.jit
def count_up_first(arrays):
    i = cuda.grid(1)
    if i < arrays[0].size:
        arrays[0][i] += 1


def test_a_copy_of_a_read_only_array_can_be_written(frozen):
    for there in (cuda.to_device(frozen), smart_view(frozen), cuda.from_dlpack(frozen, copy=True)):
        assert_own_elements(there, frozen.copy())


def test_mapped_memory_of_a_read_only_array_is_read_only(tmp_path):
    frozen = switched_off(tmp_path)
    with cuda.mapped(frozen) as there:
        with pytest.raises(CompileError, match=READ_ONLY):
            count_up_1d[1, 8](there)
        with pytest.raises(ValueError, match=READ_ONLY):
            there[0] = 1
    with cuda.pinned(frozen), pytest.raises(CompileError, match=READ_ONLY):
        count_up_1d[1, 8](frozen)


@pytest.mark.parametrize("take", [cuda.from_dlpack, cuda.as_cuda_array, lambda a: a])
def test_arrays_of_libraries_that_are_read_only_for_numpy_are_read_only(device, take):
    if not device.properties.host_memory_is_device_memory:
        pytest.skip(f"{device} does not use memory of the host in place")
    frozen = Frozen(np.arange(8.0))
    with pytest.raises(CompileError, match=READ_ONLY):
        count_up_1d[1, 8](take(frozen))
    for there in (cuda.to_device(frozen), cuda.from_dlpack(frozen, copy=True)):
        assert_own_elements(there, np.arange(8.0))
    assert np.array_equal(frozen.array, np.arange(8.0))


def test_a_library_before_dlpack_1_that_numpy_may_write_to_can_be_written(device):
    class Open(Frozen):
        def __array__(self, dtype=None, copy=None):
            return self.array

    class Shy(Frozen):
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("no NumPy here")

    if not device.properties.host_memory_is_device_memory:
        pytest.skip(f"{device} does not use memory of the host in place")
    for kind in (Open, Shy):
        given = kind(np.arange(8.0))
        count_up_1d[1, 8](given)
        assert np.array_equal(given.array, np.arange(8.0) + 1)


def test_jax_arrays_are_read_only():
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    given = jax.numpy.arange(8.0)
    with pytest.raises(CompileError, match=READ_ONLY):
        count_up_1d[1, 8](given)
    assert np.array_equal(np.asarray(given), np.arange(8.0))
