"""`shared.array` and `local.array` whose sizes are known when the kernel runs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import haulage
from haulage import cuda, roc
from haulage.errors import CompileError, KernelError, LaunchError

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("device")]

# Not all of these kernels can be cut.
WAYS = ("auto", "coroutines")


@cuda.jit
def two_arrays(x, y, n, out):
    first = cuda.shared.array(n, np.float32)
    second = cuda.shared.array((n, 2), np.int64)
    t = cuda.threadIdx.x
    if t < n:
        first[t] = x[t]
        second[t, 0] = y[t]
        second[t, 1] = -y[t]
    cuda.syncthreads()
    if t < n:
        out[t, 0] = first[n - 1 - t]
        out[t, 1] = second[n - 1 - t, 0]
        out[t, 2] = second[n - 1 - t, 1]
    if t == 0:
        out[n, 0] = first.shape[0]
        out[n, 1] = second.shape[0] * 100 + second.shape[1]
        out[n, 2] = second.strides[0]


@pytest.mark.parametrize("n", [1, 5, 32])
def test_arrays_lie_one_behind_the_other(way, n):
    x, y = np.arange(n, dtype=np.float32), np.arange(n) * 10
    out = cuda.device_array((n + 1, 3))
    needed = -(-4 * n // 16) * 16 + 16 * n
    two_arrays[1, 32, 0, needed](x, y, n, out)
    found = out.copy_to_host()
    assert np.array_equal(found[:n], np.stack([x, y, -y], axis=1)[::-1])
    assert list(found[n]) == [n, 100 * n + 2, 16]
    two_arrays[1, 32, 0, needed - 1](cuda.to_device(x), cuda.to_device(y), n, out)
    left = needed - 1 - -(-4 * n // 16) * 16
    message = (
        rf"shared\.array.*no room.*_shapes\.py:\d+: it asks for {16 * n} bytes, and {left} of "
    )
    with pytest.raises(MemoryError, match=message + f"{needed - 1} are left"):
        cuda.synchronize()


def test_threads_in_step_stay_so():
    signature = "void(float32[::1], int64[::1], int64, float64[:, ::1])"
    assert haulage.compile(two_arrays, signature, block=32).metadata["strategy"] == "regions"


@pytest.mark.parametrize(
    "dtype", ["f2", "u1", "i8", "c16", "f4", "?", [("a", "u1"), ("b", "f8")], "M8[s]"], ids=str
)
def test_any_dtype_and_rank(way, dtype):
    dtype = np.dtype(dtype)

    @cuda.jit
    def turn(x, out):
        room = cuda.shared.array(x.shape, dtype)
        i, j, k = cuda.threadIdx.x, cuda.threadIdx.y, cuda.threadIdx.z
        room[i, j, k] = x[i, j, k]
        cuda.syncthreads()
        a, b, c = room.shape
        out[i, j, k] = room[a - 1 - i, b - 1 - j, c - 1 - k]

    x = np.frombuffer(bytes(k % 2 for k in range(24 * dtype.itemsize)), dtype).reshape(2, 3, 4)
    out = cuda.device_array((2, 3, 4), dtype)
    turn[1, (2, 3, 4), 0, x.nbytes](x, out)
    assert out.copy_to_host().tobytes() == x[::-1, ::-1, ::-1].tobytes()


@cuda.jit(device=True)
def total_of(x, n):
    room = cuda.shared.array(n, np.float64)
    t = cuda.threadIdx.x
    cuda.syncthreads()
    room[t] = x[t]
    cuda.syncthreads()
    total = 0.0
    for k in range(n):
        total += room[k]
    return total


@cuda.jit
def in_functions_and_loops(x, out):
    n = x.shape[1]
    own = cuda.shared.array(n, np.int32)
    own[cuda.threadIdx.x] = cuda.threadIdx.x
    total = 0.0
    for k in range(x.shape[0]):
        total += total_of(x[k], n)
        total += 1000 * total_of(x[k], n)
    cuda.syncthreads()
    out[cuda.threadIdx.x] = total + own[n - 1 - cuda.threadIdx.x]


def test_a_place_has_the_same_room_each_time(way):
    x = np.arange(24.0).reshape(3, 8)
    out = cuda.device_array(8)
    in_functions_and_loops[1, 8, 0, 8 * 4 + 8 * 8](x, out)
    assert np.array_equal(out.copy_to_host(), 1001 * x.sum() + np.arange(8)[::-1])


def test_a_room_does_not_grow(way):
    @cuda.jit
    def growing(x):
        for k in range(1, x.size):
            room = cuda.shared.array(k, np.float64)
            room[k - 1] = k
            x[k] = room[k - 1]

    x = cuda.to_device(np.zeros(5))
    growing[1, 1, 0, 4096](x)
    with pytest.raises(MemoryError, match=r"growing.*no room"):
        cuda.synchronize()
    assert x.copy_to_host().tolist() == [0, 1, 0, 0, 0]


def test_alignment(way):
    @cuda.jit
    def aligned(out, n):
        first = cuda.shared.array(n, np.uint8)
        second = cuda.shared.array(n, np.uint8, alignment=64)
        first[0] = second[0] = out.size
        whole = cuda.shared.array(n, np.uint8, 32)
        whole[0] = 3
        out[0] = first[0] + second[0] + whole[0]

    out = cuda.device_array(2, np.int64)
    aligned[1, 1, 0, 64 + 32 + 3](out, 3)
    assert out.copy_to_host()[0] == 7
    aligned[1, 1, 0, 64 + 32 + 2](out, 3)
    with pytest.raises(MemoryError, match="aligned"):
        cuda.synchronize()


@pytest.mark.parametrize(("a", "b"), [(-1, 1), (1, -5), (2**62, 4), (2**33, 2**33), (2**63 - 1, 1)])
def test_sizes_that_nobody_has(way, a, b):
    @cuda.jit
    def much(x, a, b):
        room = cuda.shared.array((a, b), np.float64)
        room[0, 0] = 1
        x[0] = room[0, 0]

    x = cuda.to_device(np.zeros(1))
    much[1, 4, 0, 1024](x, a, b)
    with pytest.raises(KernelError, match=r"much.*no room"):
        cuda.synchronize()
    assert x.copy_to_host()[0] == 0
    much[1, 4, 0, 1024](x, 16, 8)
    assert x.copy_to_host()[0] == 1


def test_a_launch_without_dynamic_shared_memory_is_refused():
    with pytest.raises(LaunchError, match="two_arrays uses dynamic shared memory"):
        two_arrays[1, 32](np.zeros(4, np.float32), np.zeros(4, np.int64), 4, np.zeros((5, 3)))


def test_both_kinds_in_one_kernel_are_refused():
    @cuda.jit(device=True)
    def whole():
        return cuda.shared.array(0, np.float64).size

    @cuda.jit
    def both(x, n):
        room = cuda.shared.array(n, np.float64)
        room[0] = whole()
        x[0] = room[0]

    with pytest.raises(CompileError, match=r"both .*0.*run time|both .*run time.*0") as caught:
        both[1, 1, 0, 64](np.zeros(1), 3)
    assert str(caught.value).count("test_run_time_shapes.py:") >= 2


def test_what_is_no_shape_is_refused():
    for shape in ("x[0]", "(n, 1.5)", "'n'"):
        made = {"cuda": cuda, "np": np}
        exec(f"def wrong(x, n):\n    x[0] = cuda.shared.array({shape}, np.float64).size\n", made)
        with pytest.raises(CompileError, match=r"shared\.array"):
            cuda.jit(made["wrong"])[1, 1, 0, 64](np.zeros(1), 3)


def test_of_roc(way):
    @roc.jit
    def turn(x, n):
        room = roc.shared.array((n, 1), np.float64)
        i = roc.get_local_id(0)
        room[i, 0] = x[i]
        roc.barrier()
        x[i] = room[n - 1 - i, 0]

    x = np.arange(16.0)
    turn[1, 16, 0, 128](x, 16)
    assert np.array_equal(x, np.arange(16.0)[::-1])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=3, max_size=3), st.integers(1, 400))
def test_rooms_are_apart_and_inside(sizes, given_bytes):
    needed = 0
    for nbytes, itemsize in zip(sizes, (1, 4, 8), strict=True):
        needed = -(-needed // 16) * 16 + nbytes * itemsize
    out = cuda.to_device(np.zeros(3, np.int64))
    three[1, 1, 0, given_bytes](out, *sizes)
    if needed > given_bytes:
        with pytest.raises(MemoryError):
            cuda.synchronize()
    else:
        assert out.copy_to_host().tolist() == [sum(range(n)) for n in sizes]


@cuda.jit
def three(out, a, b, c):
    first = cuda.shared.array(a, np.int8)
    second = cuda.shared.array(b, np.int32)
    third = cuda.shared.array(c, np.int64)
    for k in range(a):
        first[k] = k
    for k in range(c):
        third[k] = k
    for k in range(b):
        second[k] = k
    for k in range(a):
        out[0] += first[k]
    for k in range(b):
        out[1] += second[k]
    for k in range(c):
        out[2] += third[k]


# ---- local.array --------------------------------------------------------------------------------


@cuda.jit
def backwards(x, out, n):
    room = cuda.local.array(n, np.float64, bound=20)
    i = cuda.grid(1)
    for k in range(n):
        room[k] = x[i, k]
    for k in range(n):
        out[i, k] = room[n - 1 - k]
    out[i, 20] = room.size


@pytest.mark.parametrize("n", [0, 1, 7, 20])
def test_local_arrays_up_to_their_bound(way, n):
    x = np.random.default_rng(n).random((64, 20))
    out = cuda.to_device(np.zeros((64, 21)))
    backwards[2, 32](x, out, n)
    found = out.copy_to_host()
    assert np.array_equal(found[:, :n], x[:, :n][:, ::-1])
    assert (found[:, 20] == n).all()


@pytest.mark.parametrize("n", [21, -1, 2**62])
def test_local_arrays_beyond_their_bound(way, n):
    out = cuda.to_device(np.zeros((64, 21)))
    backwards[2, 32](cuda.to_device(np.zeros((64, 20))), out, n)
    with pytest.raises(
        MemoryError, match=r"backwards.*local\.array.*bound \(20\).*_shapes\.py:\d+: it asks"
    ):
        cuda.synchronize()
    assert not out.copy_to_host().any()


def test_a_debug_kernel_names_the_thread_too(way):
    kernel = cuda.jit(backwards.py_func, debug=True, opt=False)
    out = cuda.device_array((64, 21))
    with pytest.raises(MemoryError, match=r"tid=\[0, 0, 0\] ctaid=\[.*asks for 23 elements$"):
        kernel[2, 32](cuda.to_device(np.zeros((64, 20))), out, 23)


def test_local_arrays_of_other_sizes_in_each_thread(way):
    @cuda.jit
    def triangle(out):
        i = cuda.grid(1)
        room = cuda.local.array((i, 2), np.int32, alignment=64, bound=16)
        for k in range(i):
            room[k, 0] = k
            room[k, 1] = i
        for k in range(i):
            out[i] += room[k, 0] + room[k, 1]

    out = cuda.to_device(np.zeros(10, np.int64))
    triangle[1, 10](out)
    with pytest.raises(MemoryError, match="triangle"):
        cuda.synchronize()
    expected = [sum(range(i)) + i * i if i <= 8 else 0 for i in range(10)]
    assert out.copy_to_host().tolist() == expected


def test_a_bound_is_asked_for_and_checked():
    def compiled(call):
        made = {"cuda": cuda, "np": np}
        exec(f"def wrong(x, n):\n    x[0] = cuda.local.array({call}).size\n", made)
        cuda.jit(made["wrong"])[1, 1](np.zeros(1), 3)

    with pytest.raises(CompileError, match=r"local\.array: the shape must be .* or give bound="):
        compiled("n, np.float64")
    for bound in ("0", "-3", "n", "1.5", "(3,)"):
        with pytest.raises(CompileError, match=r"local\.array: bound: expected a constant int"):
            compiled(f"n, np.float64, bound={bound}")
    with pytest.raises(CompileError, match=r"local\.array: shape: expected ints"):
        compiled("1.5, np.float64, bound=4")
