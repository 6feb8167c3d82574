"""Launches that cannot be met: one error that says why, and nothing has run."""

import dataclasses

import numpy as np
import pytest

from haulage import cuda, roc
from haulage.cuda.cudadrv.driver import CudaAPIError
from haulage.errors import BarrierError, CompileError, LaunchError, LaunchTypeError, LimitError

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]

# Not all of these kernels can be cut.
WAYS = ("auto", "coroutines")


@cuda.jit
def mark(x):
    x[0] = 1


@pytest.fixture
def refused():
    """A function that makes a launch which must fail, of `mark` or another kernel."""
    x = cuda.to_device(np.zeros(64))

    def check(error, message, *configuration, kernel=mark, more=()):
        with pytest.raises(error, match=message) as caught:
            kernel[configuration](x, *more)
        assert type(caught.value) is error
        assert kernel.__name__ in str(caught.value)
        cuda.synchronize()
        assert not x.copy_to_host().any()

    return check


@pytest.mark.parametrize("size", [1.0, np.float64(1), "1", None, True, np.bool_(True), 1j, [1.5]])
def test_sizes_that_are_no_ints(refused, size):
    for configuration in ((size, 1), (1, size), ((1, 1, size), 1), (1, [size])):
        refused(LaunchTypeError, "must be a sequence of integers", *configuration)


@pytest.mark.parametrize("size", [0, -1, np.int32(-5), (1, 0), [2, 2, -1]])
def test_sizes_that_are_not_positive(refused, size):
    refused(LaunchError, "griddim: every size must be at least 1", size, 1)
    refused(LaunchError, "blockdim: every size must be at least 1", 1, size)


@pytest.mark.parametrize("sizes", [(), (1, 1, 1, 1), [1] * 5])
def test_too_few_or_too_many_sizes(refused, sizes):
    refused(LaunchError, "sequence of 1, 2 or 3 integers", sizes, 1)
    refused(LaunchError, "sequence of 1, 2 or 3 integers", 1, sizes)


@pytest.mark.parametrize(
    ("grid", "block"),
    [
        (2**31, 1),
        (2**100, 1),
        ((1, 65536), 1),
        ((1, 1, 65536), 1),
        (1, 1025),
        (1, 2**70),
        (1, (1, 1, 65)),
        (1, (33, 32)),
    ],
)
def test_sizes_beyond_the_devices_limits(refused, grid, block):
    refused(LimitError, r"beyond what .* takes|takes at most 1024", grid, block)


def test_the_largest_block_is_looked_for_by_trying():
    x = cuda.to_device(np.zeros(4096))
    threads = 4096
    while True:
        try:
            mark[1, threads](x)
            break
        except CudaAPIError:
            threads //= 2
    assert threads == cuda.get_current_device().MAX_THREADS_PER_BLOCK
    assert x.copy_to_host()[0] == 1


@pytest.mark.parametrize("size", [1, np.int8(1), np.uint64(1), (np.int16(1), 1), [1, 1, 1]])
def test_numpys_ints_and_lists_are_sizes(size):
    x = cuda.to_device(np.zeros(1))
    mark[size, size, np.int64(0), np.int32(0)](x)
    assert x.copy_to_host()[0] == 1


@pytest.mark.parametrize(
    "stream", ["s", 5, 0.0, 1.5, True, False, object(), np.zeros(3), cuda.stream, (), b""]
)
def test_what_is_no_stream(refused, stream):
    refused(LaunchError, "expected a stream made by stream", 1, 1, stream)


@pytest.mark.parametrize("nbytes", [-1, 64.0, None, "64", True, np.float32(4), (8,)])
def test_what_is_no_number_of_shared_bytes(refused, nbytes):
    refused(
        LaunchError, "dynamic shared bytes .*(expected an int|not be negative)", 1, 1, 0, nbytes
    )


@pytest.mark.parametrize("configuration", [(1,), (1, 1, 0, 0, 0)])
def test_a_configuration_of_another_length(configuration):
    with pytest.raises(LaunchError, match=r"expected \[grid, block\]"):
        mark[configuration]


def test_what_configure_is_not_given_or_does_not_take():
    x = cuda.to_device(np.zeros(1))
    with pytest.raises(LaunchTypeError, match=r"mark.configure: missing .* 'blockdim'"):
        mark.configure(1)
    with pytest.raises(LaunchTypeError, match=r"mark.configure: .* 'blocks'"):
        mark.configure(1, 1, blocks=2)
    mark.configure(griddim=1, blockdim=1, stream=0, sharedmem=0)(x)
    assert x.copy_to_host()[0] == 1


# ---- shared memory ------------------------------------------------------------------------------


@cuda.jit
def reverse(x, flag):
    room = cuda.shared.array(0, np.float64)
    t = cuda.threadIdx.x
    if flag:
        room[t] = t
    cuda.syncthreads()
    if flag:
        x[t] = room[cuda.blockDim.x - 1 - t]


def test_dynamic_shared_memory_that_is_used_and_not_given(way, refused):
    refused(
        LaunchError, "uses dynamic shared memory, .* gives none", 1, 8, kernel=reverse, more=(1,)
    )
    x = cuda.device_array(8)
    reverse[1, 8, 0, 64](x, 1)
    assert list(x.copy_to_host()) == list(range(8))[::-1]


def test_dynamic_shared_memory_whose_size_alone_is_asked_for(way):
    @cuda.jit
    def size(x):
        x[0] = cuda.shared.array(0, np.int32).size

    x = cuda.device_array(1)
    for nbytes in (0, 3, 40):
        size[1, 1, 0, nbytes](x)
        assert x.copy_to_host()[0] == nbytes // 4


def test_too_much_shared_memory(way, refused):
    @cuda.jit
    def much(x):
        room = cuda.shared.array(7000, np.float64)
        room[cuda.threadIdx.x] = 1
        cuda.syncthreads()
        x[0] = room[0]

    @cuda.jit
    def both(x):
        static = cuda.shared.array(6000, np.float64)
        dynamic = cuda.shared.array(0, np.float64)
        static[cuda.threadIdx.x] = dynamic[cuda.threadIdx.x] = 1
        cuda.syncthreads()
        x[0] = static[0] + dynamic[0]

    most = cuda.get_current_device().properties.max_dynamic_shared
    refused(LimitError, "56000 bytes of shared arrays; .* 49152", 1, 1, kernel=much)
    refused(LimitError, f"{most + 1} bytes of dynamic", 1, 1, 0, most + 1)
    too_many = most - 48000 + 8
    message = f"48000 bytes of shared arrays and {too_many} bytes of dynamic .* {most}"
    refused(LimitError, message, 1, 1, 0, too_many, kernel=both)
    x = cuda.to_device(np.zeros(1))
    both[1, 1, 0, most - 48000](x)
    assert x.copy_to_host()[0] == 2


# ---- arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["text", [1], {}, {1}, object(), np.array([None]), print])
def test_values_that_no_kernel_takes(refused, value):
    @cuda.jit
    def second(x, value):
        x[0] = 1

    with pytest.raises(LaunchTypeError, match=r"second, argument 'value': a kernel cannot take"):
        second[1, 1](cuda.to_device(np.zeros(1)), value)


def test_arguments_of_too_many_bytes():
    def with_arguments(count):
        names = [f"a{k}" for k in range(count)]
        lines = [f"def many(x, {', '.join(names)}):", f"    x[0] = {names[0]} + {names[-1]}"]
        made = {}
        exec("\n".join(lines), made)
        return cuda.jit(made["many"])

    x = cuda.to_device(np.zeros(1))
    with_arguments(200)[1, 1](x, *range(200))
    assert x.copy_to_host()[0] == 199
    fields = tuple(range(4100))

    @cuda.jit
    def of_tuple(x, numbers):
        x[0] = numbers[1]

    with pytest.raises(LaunchError, match=r"of_tuple takes 328\d\d bytes of arguments; .* 32764"):
        of_tuple[1, 1](x, fields)
    assert x.copy_to_host()[0] == 199


@pytest.mark.parametrize("value", ["x[0]", "3", "x", "(1, 2)"])
def test_a_kernel_that_returns_a_value(value):
    made = {}
    exec(f"def gives(x):\n    if x[0] > 1:\n        return {value}\n    return {value}\n", made)
    kernel = cuda.jit(made["gives"])
    x = cuda.to_device(np.zeros(1))
    with pytest.raises(CompileError, match=r"gives returns a value"):
        kernel[1, 1](x)


# ---- barriers -----------------------------------------------------------------------------------


def ended_before(x):
    if cuda.threadIdx.x >= 3:
        cuda.syncthreads()
    x[cuda.threadIdx.x] = 1


def ended_behind(x):
    for _ in range(cuda.threadIdx.x):
        cuda.syncthreads()
    x[cuda.threadIdx.x] = 1


def block_or_wave(x):
    if roc.get_local_id(0) < 3:
        roc.wavebarrier()
    else:
        roc.barrier()
    x[roc.get_local_id(0)] = 1


def block_or_warp(x):
    if cuda.threadIdx.x < 3:
        cuda.syncwarp()
    else:
        cuda.syncthreads()
    x[cuda.threadIdx.x] = 1


def block_or_grid(x):
    if cuda.threadIdx.x < 3:
        cuda.cg.this_grid().sync()
    else:
        cuda.syncthreads()
    x[cuda.threadIdx.x] = 1


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize(
    ("words", "function"),
    [
        (cuda, ended_before),
        (cuda, ended_behind),
        (roc, block_or_wave),
        (cuda, block_or_warp),
        (cuda, block_or_grid),
    ],
    ids=lambda value: getattr(value, "__name__", "").replace("haulage.", ""),
)
def test_a_barrier_that_cannot_be_reached_by_all(way, words, function, debug):
    kernel = words.jit(function, debug=debug)
    x = cuda.to_device(np.zeros(8))

    def launch():
        kernel[1, 8](x)
        assert not debug
        cuda.synchronize()

    with pytest.raises(BarrierError, match=rf"{function.__name__}.*test_bad_launches\.py:\d+"):
        launch()
    # What comes next is not touched by it.
    cuda.synchronize()
    mark[1, 1](x)
    assert x.copy_to_host()[0] == 1


@pytest.mark.parametrize("threads", WAYS)
def test_local_arrays_of_a_block_beyond_all_memory(refused, monkeypatch, threads, device):
    if device.kind in ("nvidia", "amd", "opencl"):
        pytest.skip("a GPU's driver keeps the local arrays of threads")
    monkeypatch.setenv("HAULAGE_CPU_THREADS", threads)
    little = dataclasses.replace(device.properties, total_memory=1 << 24)
    monkeypatch.setitem(vars(device), "properties", little)

    @cuda.jit
    def hoard(x, n):
        room = cuda.local.array(1 << 13, np.float64)
        for k in range(n):
            room[k * 7 % n] = x[k]
        cuda.syncthreads()
        for k in range(n):
            x[k] += room[k] + 1

    message = "65536 bytes of local arrays for each thread, .* 1024 threads more than all the 16777"
    refused(LimitError, message, 1, 1024, kernel=hoard, more=(5,))
