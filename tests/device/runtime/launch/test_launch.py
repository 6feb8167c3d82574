"""Launching: configurations, arguments of every kind, and what is refused."""

from collections import namedtuple

import numpy as np
import pytest
from numba import njit, types

from haulage import cuda, roc
from haulage.errors import CompileError, DeviceError, DeviceMismatch, LaunchError

pytestmark = pytest.mark.ptx

Point = namedtuple("Point", "x y")


@cuda.jit
def add_one(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


@cuda.jit
def store(out, value):
    out[cuda.grid(1)] = value


@pytest.mark.parametrize(
    "value",
    [True, 7, -(2**40), 2**63 + 5, 1.5, 2 + 3j]
    + [np.dtype(kind).type(3) for kind in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")]
    + [np.dtype(kind).type(2.5) for kind in ("f4", "f8", "c8", "c16")]
    + [np.bool_(True)],
    ids=lambda value: f"{type(value).__name__}-{value}",
)
def test_scalars_arrive_with_their_type_and_value(device, value):
    out = cuda.to_device(np.zeros(2, np.asarray(value).dtype))
    store[1, 2](out, value)
    assert list(out.copy_to_host()) == [value, value]


def test_tuples_and_named_tuples_arrive(device):
    @cuda.jit
    def unpack(out, pair, point):
        out[0] = pair[0] + pair[1]
        out[1] = point.x[1] * point.y

    out = cuda.to_device(np.zeros(2))
    unpack[1, 1](out, (1, 2.5), Point(cuda.to_device(np.array([3.0, 4.0])), 5))
    assert list(out.copy_to_host()) == [3.5, 20.0]


def test_views_arrive_with_their_strides(device):
    x = cuda.to_device(np.zeros((6, 4)))

    @cuda.jit
    def number(view):
        i, j = cuda.grid(2)
        view[i, j] = 10 * i + j

    number[1, (3, 2)](x[::2, ::-2])
    expected = np.zeros((6, 4))
    expected[::2, ::-2] = 10 * np.arange(3)[:, None] + np.arange(2)
    np.testing.assert_array_equal(x.copy_to_host(), expected)


@pytest.mark.parametrize("with_stream", [False, True])
def test_host_arrays_are_written_when_the_launch_returns(device, with_stream):
    x = np.zeros(1000)
    stream = cuda.stream() if with_stream else 0
    add_one[4, 256, stream](x)
    np.testing.assert_array_equal(x, np.ones(1000))


def test_pinned_arrays_are_taken(device):
    x = cuda.pinned_array(100, np.float32)
    x[:] = 3
    add_one[1, 128](x)
    np.testing.assert_array_equal(x, np.full(100, 4, np.float32))


def test_read_only_host_arrays_can_be_read_and_not_written(device):
    x = np.arange(4.0)
    x.flags.writeable = False
    out = cuda.to_device(np.zeros(4))

    @cuda.jit
    def copy(source, target):
        i = cuda.grid(1)
        target[i] = source[i]

    copy[1, 4](x, out)
    np.testing.assert_array_equal(out.copy_to_host(), x)
    with pytest.raises(CompileError):
        add_one[1, 4](x)
    np.testing.assert_array_equal(x, np.arange(4.0))


def test_a_copy_on_the_default_stream_waits_for_a_stream(device):
    stream = cuda.stream()
    x = cuda.to_device(np.zeros(1 << 16))
    for _ in range(50):
        add_one[256, 256, stream](x)
    np.testing.assert_array_equal(x.copy_to_host(), np.full(1 << 16, 50))


def test_events_order_two_streams(device):
    first, second, done = cuda.stream(), cuda.stream(), cuda.event()
    x = cuda.to_device(np.zeros(1 << 16))
    for _ in range(20):
        add_one[256, 256, first](x)
        done.record(first)
        done.wait(second)
        add_one[256, 256, second](x)
        done.record(second)
        done.wait(first)
    cuda.synchronize()
    np.testing.assert_array_equal(x.copy_to_host(), np.full(1 << 16, 40))


def test_memory_outlives_its_last_reference_while_a_stream_uses_it(device, hold_up):
    stream = cuda.stream()
    out = cuda.to_device(np.zeros(8))

    @cuda.jit
    def move(source, target):
        i = cuda.grid(1)
        target[i] = source[i]

    source = cuda.to_device(np.arange(8.0))
    # Compiled beforehand, so that the launch below only hands work over.
    move[1, 8, stream](source, out)
    stream.synchronize()
    source = cuda.to_device(np.arange(8.0) + 1)
    with hold_up(stream):
        move[1, 8, stream](source, out)
        del source
        kept = [cuda.to_device(np.full(8, -1.0), stream=cuda.stream()) for _ in range(4)]
    stream.synchronize()
    np.testing.assert_array_equal(out.copy_to_host(), np.arange(8.0) + 1)
    del kept


def test_forall_covers_every_task(device):
    x = cuda.to_device(np.zeros(1000))
    add_one.forall(1000)(x)
    add_one.forall(1000, tpb=64)(x)
    add_one.forall(0)(x)
    np.testing.assert_array_equal(x.copy_to_host(), np.full(1000, 2))


def test_configure_counts_work_items_for_roc_and_blocks_for_cuda(device):
    @roc.jit
    def count(x):
        roc.atomic.add(x, 0, 1)

    x = roc.to_device(np.zeros(1, np.int64))
    count.configure(128, 32)(x)
    count.configure(100)(x)
    count[4, 32](x)
    assert x.copy_to_host()[0] == 128 + 100 + 128
    y = cuda.to_device(np.zeros(64))
    add_one.configure(2, 32)(y)
    np.testing.assert_array_equal(y.copy_to_host(), np.ones(64))
    with pytest.raises(LaunchError, match="not a multiple"):
        count.configure(100, 64)


def test_a_kernel_with_a_signature_is_compiled_at_once_and_converts_numbers(device):
    @cuda.jit("void(float32[:], float32)")
    def fill(x, value):
        x[cuda.grid(1)] = value

    assert len(fill.signatures) == 1
    x = cuda.to_device(np.zeros(4, np.float32))
    fill[1, 4](x, 3)
    np.testing.assert_array_equal(x.copy_to_host(), np.full(4, 3, np.float32))
    with pytest.raises(LaunchError, match=r"float64.*only.*float32"):
        fill[1, 4](cuda.to_device(np.zeros(4)), 3)
    assert len(fill.signatures) == 1


def test_a_number_that_does_not_fit_its_declared_type_is_refused(device):
    @cuda.jit("void(int8[:], int8)")
    def fill(x, value):
        x[cuda.grid(1)] = value

    x = cuda.to_device(np.zeros(4, np.int8))
    with pytest.raises(LaunchError, match="does not fit"):
        fill[1, 4](x, 300)
    with pytest.raises(LaunchError):
        fill[1, 4](x, 2.5)
    np.testing.assert_array_equal(x.copy_to_host(), np.zeros(4))


def test_an_int_may_be_given_with_the_bits_of_the_other_sign(device):
    @cuda.jit("void(int64[:], int32, Tuple((uint32, int8)))")
    def fill(x, mask, pair):
        x[0], x[1], x[2] = mask, pair[0], pair[1]

    x = cuda.to_device(np.zeros(3, np.int64))
    fill[1, 1](x, 0xFFFFFFFE, (-1, 0x80))
    assert x.copy_to_host().tolist() == [-2, 2**32 - 1, -128]
    for mask, first in [(2**32, 0), (-(2**31) - 1, 0), (0, -(2**31) - 1)]:
        with pytest.raises(LaunchError, match="does not fit"):
            fill[1, 1](x, mask, (first, 0))


def test_anything_is_a_bool_where_one_is_declared(device):
    @cuda.jit("void(boolean[:], boolean)")
    def fill(x, value):
        x[cuda.grid(1)] = value

    x = cuda.to_device(np.zeros(2, np.bool_))
    fill[1, 2](x, 256)
    assert x.copy_to_host().all()


@pytest.mark.parametrize(
    "value",
    ["s", [1], {}, object(), np.zeros(2, ">f4"), np.longdouble(1), slice(1), 2**70],
)
def test_values_that_no_kernel_takes_are_refused(device, value):
    with pytest.raises(LaunchError, match="store"):
        store[1, 1](cuda.to_device(np.zeros(1)), value)


@pytest.mark.parametrize(
    ("grid", "block", "message"),
    [
        (0, 1, "at least 1"),
        (1, -3, "at least 1"),
        (1.5, 1, "griddim must be a sequence of integers"),
        ("1", 1, "integers"),
        ((1, 1, 1, 1), 1, "griddim must be a sequence of 1, 2 or 3 integers"),
        (1, (), "blockdim must be a sequence of 1, 2 or 3 integers"),
        (True, 1, "integers"),
        (1, 1025, "1024"),
        (1, (32, 64), "2048"),
        (1, (1, 1, 65), "beyond"),
        ((1, 65536), 1, "beyond"),
    ],
)
def test_bad_configurations_are_refused(device, grid, block, message):
    x = cuda.to_device(np.zeros(4))
    with pytest.raises(LaunchError, match=message):
        add_one[grid, block](x)
    np.testing.assert_array_equal(x.copy_to_host(), np.zeros(4))


def test_other_bad_launches_are_refused(device):
    x = cuda.to_device(np.zeros(4))
    with pytest.raises(LaunchError, match="launch configuration was not specified"):
        add_one(x)
    with pytest.raises(LaunchError, match="takes 1 arguments, got 2"):
        add_one[1, 4](x, x)
    with pytest.raises(LaunchError, match="expected"):
        add_one[1](x)
    with pytest.raises(LaunchError, match="stream"):
        add_one[1, 4, "s"](x)
    with pytest.raises(LaunchError, match="dynamic shared"):
        add_one[1, 4, 0, 1 << 20](x)
    with pytest.raises(LaunchError, match="dynamic shared"):
        add_one[1, 4, 0, -1](x)
    with pytest.raises(LaunchError, match="a kernel cannot take"):
        add_one[1, 4]([1, 2, 3])
    with pytest.raises(LaunchError, match="objects"):
        add_one[1, 4](np.array([None]))
    np.testing.assert_array_equal(x.copy_to_host(), np.zeros(4))


def test_kernels_that_cannot_be_compiled_say_why(device):
    @cuda.jit
    def returns(x):
        return x[0]

    @cuda.jit
    def unknown(x):
        x[0] = no_such_name  # noqa: F821

    @cuda.jit
    def too_much(x):
        room = cuda.shared.array(10_000, np.float64)
        room[cuda.threadIdx.x] = x[0]
        cuda.syncthreads()
        x[0] = room[cuda.threadIdx.x ^ 1]

    x = cuda.to_device(np.zeros(4))
    with pytest.raises(CompileError, match="returns a value"):
        returns[1, 1](x)
    with pytest.raises(CompileError, match="no_such_name") as told:
        unknown[1, 1](x)
    assert "pipeline" not in str(told.value)
    with pytest.raises(CompileError, match=r"haulage\.cuda.*no_such_word"):
        cuda.jit(lambda x: cuda.no_such_word(x))[1, 1](x)
    with pytest.raises(LaunchError, match="80000 bytes of shared"):
        too_much[1, 1](x)


def test_a_closed_array_is_refused(device):
    x = cuda.to_device(np.zeros(4))
    x.close()
    with pytest.raises(ValueError, match="close"):
        add_one[1, 4](x)


def test_foreign_device_code_is_declared_and_refused_in_kernels(device):
    declared = cuda.declare_device("f", "int32(float32[:])", link=cuda.PTXSource("// f"))
    assert declared.name == "f"
    assert declared.sig.return_type == types.int32
    assert declared.sig.args == (types.float32[:],)
    assert cuda.declare_device("g", "void(int32)").sig.return_type == types.void

    @cuda.jit
    def calls_it(x):
        x[0] = declared(x)

    # What it does on NVIDIA's GPUs is in tests/nodevice/backends/nvidia_driver/test_linking.py.
    if device.kind != "nvidia":
        with pytest.raises(CompileError, match=r"declare_device\('f', ...\).*in Python"):
            calls_it[1, 1](np.zeros(1, np.float32))
    for untold in ("(int32,)", (types.int32,)):
        with pytest.raises(TypeError, match="Return type must be provided"):
            cuda.declare_device("f", untold)


def test_options_are_honoured_or_refused(device):
    with pytest.raises(TypeError, match="no_such_option"):
        cuda.jit(no_such_option=1)
    linked = cuda.jit(link=[cuda.PTXSource("// f")])(add_one.py_func)
    if device.kind != "nvidia":
        with pytest.raises(NotImplementedError, match="link"):
            linked[1, 4](cuda.to_device(np.zeros(4)))
    for option in ("link", "boundscheck"):
        assert not cuda.jit(**{option: None})(add_one.py_func).hints
    kernel = cuda.jit(max_registers=32, fastmath=True)(add_one.py_func)
    assert kernel.hints == {"max_registers": 32}
    hints = {
        "inline": "never",
        "forceinline": False,
        "lineinfo": True,
        "lto": True,
        "opt": False,
        "launch_bounds": (128, 2),
        "shared_memory_carveout": 50,
    }
    assert cuda.jit(**hints)(add_one.py_func).hints == hints
    assert roc.jit(device=True, **hints)(add_one.py_func).hints == hints
    x = cuda.to_device(np.zeros(4))
    kernel[1, 4](x)
    assert "fast" in next(iter(kernel.inspect_llvm().values()))
    assert next(iter(kernel.inspect_asm().values()))


def test_a_device_function_with_a_signature_converts_its_arguments(device):
    @cuda.jit("float32(float32)", device=True)
    def halve(value):
        return value / np.float32(2)

    @cuda.jit
    def use(out):
        out[0] = halve(7)
        # In single precision this is 2 ** 24, the odd one is lost.
        out[1] = halve(2**24 + 1)

    out = cuda.device_array(2)
    use[1, 1](out)
    assert list(out.copy_to_host()) == [3.5, 2.0**23]


def test_jit_of_what_is_jitted_already_makes_it_anew_of_its_python_function(device):
    @cuda.jit(device=True)
    def fill(out, value):
        out[cuda.grid(1)] = value

    # As a program does that chooses between one launch for each step and one for all.
    kernel = cuda.jit(device=False)(fill)
    again = cuda.jit(cuda.jit(kernel, device=True))
    by_numba = cuda.jit(njit(fill.py_func))
    assert kernel.py_func is again.py_func is by_numba.py_func is fill.py_func
    for value, made in enumerate((kernel, again, by_numba), 1):
        out = cuda.to_device(np.zeros(4))
        made[1, 4](out, value)
        assert list(out.copy_to_host()) == [value] * 4


def test_jit_takes_python_functions_only(device):
    with pytest.raises(TypeError, match="Python function"):
        cuda.jit("void()")(print)
    with pytest.raises(TypeError, match="Python function"):
        cuda.jit(print)


def test_a_kernel_does_not_keep_the_streams_it_was_launched_on(device):
    x = cuda.to_device(np.zeros(4))
    stream = cuda.stream()
    handle = stream.handle
    add_one[1, 4, stream](x)
    stream.synchronize()
    del stream
    # The array knows the stream until it is seen to be done with it.
    del x
    with pytest.raises(DeviceError):
        device.backend.stream_query(handle)


def test_device_functions_and_words_are_not_called_from_the_host(device):
    @cuda.jit(device=True)
    def helper(a):
        return a

    with pytest.raises(LaunchError, match="device function"):
        helper(1)
    with pytest.raises(RuntimeError, match="inside a kernel"):
        cuda.syncthreads()
    with pytest.raises(RuntimeError, match="inside a kernel"):
        cuda.grid(1)
    with pytest.raises(RuntimeError, match="inside a kernel"):
        _ = cuda.threadIdx.x


def test_the_devices_of_arrays_and_streams_must_agree(device):
    class Elsewhere:
        backend = None

        def __str__(self):
            return "nowhere:0"

        def reaches(self, other):
            return False

    x = cuda.to_device(np.zeros(4))
    y = cuda.to_device(np.zeros(4))
    y.device = Elsewhere()

    @cuda.jit
    def two(a, b):
        a[0] = b[0]

    with pytest.raises(DeviceMismatch, match=rf"{device}.*nowhere:0|nowhere:0.*{device}"):
        two[1, 1](x, y)


@pytest.mark.parametrize(
    "hints",
    [
        {"launch_bounds": ()},
        {"launch_bounds": (64, 2, 4, 8)},
        {"shared_memory_carveout": -2},
        {"shared_memory_carveout": 101},
        {"shared_memory_carveout": "most"},
    ],
    ids=str,
)
def test_hints_that_no_device_takes_are_refused(hints):
    with pytest.raises(ValueError, match=r"1 to 3|between -1 and 100|MaxShared"):
        cuda.jit(**hints)
    for fine in ("MaxL1", "default", 100, -1):
        cuda.jit(shared_memory_carveout=fine, launch_bounds=(64, 2, 1))


@pytest.mark.parametrize("bounds", [64, (64,), (64, 2), (np.int64(64), 2, 1)])
def test_no_block_has_more_threads_than_launch_bounds(device, bounds):
    @cuda.jit(launch_bounds=bounds)
    def block_sizes(out):
        out[cuda.grid(1)] = cuda.blockDim.x

    out = cuda.zeros(256, np.int64)
    for refused in (
        lambda: block_sizes[1, 65],
        lambda: block_sizes[1, (32, 2, 2)],
        lambda: block_sizes.forall(256, tpb=128),
        lambda: block_sizes.configure(1, 65),
    ):
        with pytest.raises(LaunchError, match="launch_bounds of the kernel allows at most 64"):
            refused()
    block_sizes.forall(256)(out)
    assert (out.copy_to_host() == 64).all()
    block_sizes[8, 32](out)
    assert (out.copy_to_host() == 32).all()
