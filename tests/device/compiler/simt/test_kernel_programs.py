"""Whole programs as users write them, in both ways of the CPU device, checked against NumPy."""

import gc
import math
import os
import subprocess
import sys
import threading
import weakref

import numba
import numpy as np
import pytest

from haulage import cuda, roc
from haulage.errors import CompileError, KernelError

pytestmark = [pytest.mark.ptx, pytest.mark.usefixtures("way")]

# Not all of these kernels can be cut.
WAYS = ("auto", "scalar", "coroutines")


@pytest.fixture
def random():
    return np.random.default_rng(0)


@cuda.jit
def bitonic_sort(x, n):
    room = cuda.shared.array(1024, np.float32)
    t = cuda.threadIdx.x
    room[t] = x[t]
    cuda.syncthreads()
    size = 2
    while size <= n:
        step = size // 2
        while step > 0:
            other = t ^ step
            if other > t:
                rising = (t & size) == 0
                if (room[t] > room[other]) == rising:
                    room[t], room[other] = room[other], room[t]
            cuda.syncthreads()
            step //= 2
        size *= 2
    x[t] = room[t]


@pytest.mark.parametrize("n", [1, 64, 1024])
def test_bitonic_sort(device, random, n):
    x = random.random(n).astype(np.float32)
    d_x = cuda.to_device(x)
    bitonic_sort[1, n](d_x, n)
    np.testing.assert_array_equal(d_x.copy_to_host(), np.sort(x))


@cuda.jit
def convolve(image, weights, out):
    tile = cuda.shared.array((20, 20), np.float64)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    x, y = cuda.grid(2)
    height, width = image.shape
    # The tile is larger than the block: threads take several elements, not all the same number.
    for dy in range(ty, 20, cuda.blockDim.y):
        for dx in range(tx, 20, cuda.blockDim.x):
            from_y = cuda.blockIdx.y * 16 + dy - 2
            from_x = cuda.blockIdx.x * 16 + dx - 2
            inside = 0 <= from_y < height and 0 <= from_x < width
            tile[dy, dx] = image[from_y, from_x] if inside else 0
    cuda.syncthreads()
    if x >= width or y >= height:
        return
    total = 0.0
    for i in range(5):
        for j in range(5):
            total += tile[ty + i, tx + j] * weights[i, j]
    out[y, x] = total


def test_convolution_with_a_halo(device, random):
    image, weights = random.random((45, 37)), random.random((5, 5))
    out = cuda.device_array(image.shape, np.float64)
    convolve[(3, 3), (16, 16)](cuda.to_device(image), cuda.to_device(weights.T.copy().T), out)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(image, 2), (5, 5))
    np.testing.assert_allclose(out.copy_to_host(), (windows * weights).sum(axis=(2, 3)))


@cuda.jit
def attract(places, pulls, n):
    tile = cuda.shared.array((32, 3), np.float64)
    i, t = cuda.grid(1), cuda.threadIdx.x
    own = cuda.local.array(3, np.float64)
    pull = cuda.local.array(3, np.float64)
    for axis in range(3):
        own[axis] = places[i, axis] if i < n else 0.0
        pull[axis] = 0.0
    for first in range(0, n, 32):
        if first + t < n:
            for axis in range(3):
                tile[t, axis] = places[first + t, axis]
        cuda.syncthreads()
        for k in range(min(32, n - first)):
            square = 0.01
            for axis in range(3):
                square += (tile[k, axis] - own[axis]) ** 2
            for axis in range(3):
                pull[axis] += (tile[k, axis] - own[axis]) / (square * math.sqrt(square))
        cuda.syncthreads()
    if i < n:
        for axis in range(3):
            pulls[i, axis] = pull[axis]


@pytest.mark.parametrize("n", [1, 32, 77])
def test_n_bodies(device, random, n):
    places = random.random((n, 3))
    pulls = cuda.device_array((n, 3), np.float64)
    attract[-(-n // 32), 32](cuda.to_device(places), pulls, n)
    apart = places[None] - places[:, None]
    square = (apart**2).sum(axis=-1) + 0.01
    expected = (apart / square[..., None] ** 1.5).sum(axis=1)
    np.testing.assert_allclose(pulls.copy_to_host(), expected, atol=1e-9)


@cuda.jit
def live(now, then):
    x, y = cuda.grid(2)
    height, width = now.shape
    if x < width and y < height:
        count = 0
        for dy in (-1, 0, 1):
            for dx in (-1, 0, 1):
                if dx == 0 and dy == 0:
                    continue
                count += now[(y + dy) % height, (x + dx) % width]
        then[y, x] = count == 3 or (count == 2 and now[y, x])


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float32])
def test_game_of_life(device, random, dtype):
    start = (random.random((23, 31)) < 0.4).astype(dtype)
    now, then = cuda.to_device(start), cuda.device_array(start.shape, dtype)
    expected = start.astype(int)
    for _ in range(5):
        live[(4, 3), (8, 8)](now, then)
        now, then = then, now
        count = sum(
            np.roll(expected, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j
        )
        expected = (count == 3) | ((count == 2) & (expected != 0))
    np.testing.assert_array_equal(now.copy_to_host(), expected.astype(dtype))


@cuda.jit
def scan_blocks(x, out, sums):
    room = cuda.shared.array(256, np.int64)
    t, i, n = cuda.threadIdx.x, cuda.grid(1), cuda.blockDim.x
    room[t] = x[i] if i < x.size else 0
    apart, active = 1, n >> 1
    while active > 0:
        cuda.syncthreads()
        if t < active:
            room[apart * (2 * t + 2) - 1] += room[apart * (2 * t + 1) - 1]
        apart *= 2
        active >>= 1
    if t == 0:
        sums[cuda.blockIdx.x] = room[n - 1]
        room[n - 1] = 0
    active = 1
    while active < n:
        apart >>= 1
        cuda.syncthreads()
        if t < active:
            left, right = apart * (2 * t + 1) - 1, apart * (2 * t + 2) - 1
            room[left], room[right] = room[right], room[left] + room[right]
        active *= 2
    cuda.syncthreads()
    if i < x.size:
        out[i] = room[t]


@cuda.jit
def add_sums(out, sums):
    i = cuda.grid(1)
    if i < out.size:
        out[i] += sums[cuda.blockIdx.x]


def test_scan_over_several_blocks(device, random):
    x = random.integers(-9, 9, 5000)
    out, base = cuda.device_array(5000, np.int64), cuda.device_array(256, np.int64)
    sums, whole = cuda.device_array(20, np.int64), cuda.device_array(1, np.int64)
    scan_blocks[20, 256](cuda.to_device(x), out, sums)
    scan_blocks[1, 256](sums, base, whole)
    add_sums[20, 256](out, base)
    np.testing.assert_array_equal(out.copy_to_host(), np.cumsum(x) - x)
    assert whole.copy_to_host()[0] == x.sum()


@cuda.jit
def decompose(a):
    t, n = cuda.threadIdx.x, a.shape[0]
    for k in range(n):
        if k < t < n:
            a[t, k] /= a[k, k]
            for j in range(k + 1, n):
                a[t, j] -= a[t, k] * a[k, j]
        cuda.syncthreads()


@pytest.mark.parametrize("order", ["C", "F"])
def test_lu_decomposition(device, random, order):
    a = random.random((37, 37)) + 37 * np.eye(37)
    d_a = cuda.to_device(np.asarray(a, order=order))
    decompose[1, 64](d_a)
    both = d_a.copy_to_host()
    np.testing.assert_allclose((np.tril(both, -1) + np.eye(37)) @ np.triu(both), a)


@cuda.jit
def odd_even_sort(x, n, rounds):
    room = cuda.shared.array(128, np.int64)
    changed = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    if t < n:
        room[t] = x[t]
    turns = 0
    cuda.syncthreads()
    while True:
        if t == 0:
            changed[0] = 0
        cuda.syncthreads()
        for parity in range(2):
            i = 2 * t + parity
            if i + 1 < n and room[i] > room[i + 1]:
                room[i], room[i + 1] = room[i + 1], room[i]
                changed[0] = 1
            cuda.syncthreads()
        turns += 1
        if changed[0] == 0:
            break
        cuda.syncthreads()
    if t < n:
        x[t] = room[t]
    if t == 0:
        rounds[0] = turns


def test_a_loop_with_barriers_that_ends_when_the_block_agrees(device, random):
    x = random.integers(0, 1000, 101)
    d_x, rounds = cuda.to_device(x), cuda.device_array(1, np.int64)
    odd_even_sort[1, 128](d_x, 101, rounds)
    np.testing.assert_array_equal(d_x.copy_to_host(), np.sort(x))
    assert 1 < rounds.copy_to_host()[0] <= 52


@cuda.jit(device=True)
def block_maximum(room, t, n):
    half = n // 2
    while half > 0:
        if t < half:
            room[t] = max(room[t], room[t + half])
        cuda.syncthreads()
        half //= 2
    return room[0]


@cuda.jit(device=True)
def exponential_and_sum(room, t, n, value):
    room[t] = value
    cuda.syncthreads()
    largest = block_maximum(room, t, n)
    cuda.syncthreads()
    power = math.exp(value - largest)
    room[t] = power
    cuda.syncthreads()
    total = 0.0
    for k in range(n):
        total += room[k]
    return power, total


@numba.njit
def ratio(part, whole):
    return part / whole


@cuda.jit
def softmax(x, out):
    room = cuda.shared.array(64, np.float64)
    row, t = cuda.blockIdx.x, cuda.threadIdx.x
    power, total = exponential_and_sum(room, t, n=cuda.blockDim.x, value=x[row, t])
    out[row, t] = ratio(whole=total, part=power)


def test_softmax_by_nested_device_functions(device, random):
    x = random.random((7, 64)) * 100
    out = cuda.device_array((7, 64), np.float64)
    softmax[7, 64](cuda.to_device(x), out)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(out.copy_to_host(), powers / powers.sum(axis=1, keepdims=True))


@cuda.jit
def total_by_last_block(x, parts, arrived, out):
    room = cuda.shared.array(64, np.float64)
    is_last = cuda.shared.array(1, np.int32)
    t = cuda.threadIdx.x
    room[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    half = 32
    while half:
        if t < half:
            room[t] += room[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        parts[cuda.blockIdx.x] = room[0]
        cuda.threadfence()
        is_last[0] = cuda.atomic.add(arrived, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if is_last[0]:
        own = 0.0
        for k in range(t, cuda.gridDim.x, 64):
            own += parts[k]
        room[t] = own
        cuda.syncthreads()
        if t == 0:
            total = 0.0
            for k in range(64):
                total += room[k]
            out[0] = total


def test_the_last_block_adds_what_the_others_left(device, random):
    x = random.random(64 * 100)
    out, parts = cuda.device_array(1, np.float64), cuda.device_array(100, np.float64)
    total_by_last_block[100, 64](
        cuda.to_device(x), parts, cuda.to_device(np.zeros(1, np.int32)), out
    )
    np.testing.assert_allclose(out.copy_to_host()[0], x.sum())


@cuda.jit
def scatter(x, out):
    room = cuda.shared.array(64, np.int64)
    t = cuda.threadIdx.x
    place = t
    # Many steps, unrolled by hand: the place is kept across the barriers, and its address is not.
    place = (place * 3 + 1) ^ (place >> 2)
    place = (place * 5 + 2) ^ (place >> 3)
    place = (place * 7 + 3) ^ (place >> 1)
    place = (place * 3 + 4) ^ (place >> 4)
    place = (place * 9 + 5) ^ (place >> 5)
    place = (place * 3 + 6) ^ (place >> 2)
    place = (place * 5 + 7) ^ (place >> 1)
    place = (place * 3 + 8) ^ (place >> 3)
    own = x[place & 63]
    room[t] = own
    cuda.syncthreads()
    x[place & 63] = 0
    cuda.syncthreads()
    cuda.atomic.add(x, place & 63, room[63 - t])
    out[t] = place


def test_a_place_that_is_worked_out_in_many_steps(device, random):
    x = random.integers(0, 100, 64)
    d_x, out = cuda.to_device(x), cuda.device_array(64, np.int64)
    scatter[1, 64](d_x, out)
    place = np.arange(64)
    for factor, offset, shift in zip(
        (3, 5, 7, 3, 9, 3, 5, 3), range(1, 9), (2, 3, 1, 4, 5, 2, 1, 3), strict=True
    ):
        place = (place * factor + offset) ^ (place >> shift)
    expected = x.copy()
    expected[place & 63] = 0
    np.add.at(expected, place & 63, x[place & 63][::-1])
    np.testing.assert_array_equal(out.copy_to_host(), place)
    np.testing.assert_array_equal(d_x.copy_to_host(), expected)


@roc.jit
def transpose(x, out):
    # One column more keeps work-items of a row apart.
    tile = roc.shared.array((8, 9), np.float32)
    tile[roc.get_local_id(1), roc.get_local_id(0)] = x[roc.get_global_id(1), roc.get_global_id(0)]
    roc.barrier(roc.CLK_LOCAL_MEM_FENCE)
    row = roc.get_group_id(0) * roc.get_local_size(0) + roc.get_local_id(1)
    column = roc.get_group_id(1) * roc.get_local_size(1) + roc.get_local_id(0)
    out[row, column] = tile[roc.get_local_id(0), roc.get_local_id(1)]


def test_transposition_of_views_in_work_items(device, random):
    x = random.random((32, 48)).astype(np.float32)
    out = roc.device_array((24, 16), np.float32)
    transpose.configure((24, 16), (8, 8))(roc.to_device(x)[::-2, 1::2], out)
    np.testing.assert_array_equal(out.copy_to_host(), x[::-2, 1::2].T)


@cuda.jit(device=True)
def is_even(n):
    if n == 0:
        return True
    if n < 0:
        return False
    return is_odd(n - 1)


@cuda.jit(device=True)
def is_odd(n):
    if n == 0:
        return False
    return is_even(n - 1)


@cuda.jit(device=True)
def factorial(n):
    if n < 2:
        return 1
    return n * factorial(n - 1)


def test_recursion_of_two_functions_and_from_a_constant(device):
    @cuda.jit
    def call(out):
        i = cuda.grid(1)
        out[i] = factorial(5) + is_even(i)

    out = cuda.device_array(6, np.int64)
    call[1, 6](out)
    assert list(out.copy_to_host()) == [121, 120] * 3


@cuda.jit(device=True)
def wait_often(n):
    if n < 1:
        return 0
    cuda.syncthreads()
    return wait_often(n - 1) + 1


@cuda.jit(device=True)
def keep_often(n):
    room = cuda.shared.array(4, np.int64)
    room[n] = n
    if n < 1:
        return 0
    return keep_often(n - 1) + room[n]


def test_recursion_of_functions_and_kernels_with_signatures(device):
    @cuda.jit(["int64(int64)", "float64(float64)"], device=True)
    def to_zero(n):
        if n < 1:
            return n
        return to_zero(n - 1) + 1

    @cuda.jit("void(float64[:], int64)")
    def fill(out, n):
        out[n] = to_zero(n) + to_zero(n + 0.5)
        if n > 0:
            fill(out, n - 1)

    out = cuda.device_array(4)
    fill[1, 1](out, 3)
    assert list(out.copy_to_host()) == [0.5, 2.5, 4.5, 6.5]


def test_recursion_for_other_types_than_the_signatures(device):
    @cuda.jit("int32(int32)", device=True)
    def fibonacci(n):
        # Of an int32 and a constant an int64 is made.
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    @cuda.jit
    def kernel(out):
        out[cuda.threadIdx.x] = fibonacci(cuda.threadIdx.x)

    out = cuda.device_array(8, np.int32)
    kernel[1, 8](out)
    assert list(out.copy_to_host()) == [0, 1, 1, 2, 3, 5, 8, 13]


@cuda.jit
def sum_down(x, y):
    if x > 1 and y > 0:
        return x + sum_down(x - y, y)
    else:
        return y


def test_recursion_whose_types_change_with_the_first_call(device):
    @cuda.jit
    def kernel(out, x, y):
        out[0] = sum_down(x, y)

    out = cuda.device_array(1)
    kernel[1, 1](out, 4, 0.5)
    assert list(out.copy_to_host()) == [4 + 3.5 + 3 + 2.5 + 2 + 1.5 + 0.5]


def test_recursion_that_returns_none_or_a_number(device):
    @cuda.jit
    def less(x):
        if x > 5:
            return x - 1
        else:
            return None

    @cuda.jit
    def product(x):
        out = less(x)
        if out is None or out < 8:
            return out
        return x * product(out)

    @cuda.jit
    def kernel(out, x):
        found = product(x)
        out[0] = -1 if found is None else found

    out = cuda.device_array(1, np.int64)
    for x, expected in ((3, -1), (7, 6), (10, 10 * 9 * 7)):
        kernel[1, 1](out, x)
        assert list(out.copy_to_host()) == [expected]


@cuda.jit
def ones_and_on(x, n):
    x[n] += 1
    if n > 0:
        tens_and_on(x, n - 1)


@cuda.jit
def tens_and_on(x, n):
    x[n] += 10
    if n > 1:
        tens_and_on(x, n - 2)
    elif n > 0:
        ones_and_on(x, n - 1)


def test_kernels_that_call_themselves_and_one_another(device):
    x = cuda.zeros(5, np.int64)
    ones_and_on[1, 1](x, 4)
    assert list(x.copy_to_host()) == [1, 10, 0, 10, 1]


@pytest.mark.parametrize("function", [wait_often, keep_often])
def test_recursion_with_a_barrier_or_a_shared_array_is_refused(device, function):
    @cuda.jit
    def call(out, n):
        out[cuda.grid(1)] = function(n)

    with pytest.raises(CompileError, match="calls itself can have no barrier"):
        call[1, 4](cuda.device_array(4, np.int64), 3)


def test_what_kernels_do_not_raise_or_catch_is_refused_in_a_sentence(device):
    @cuda.jit
    def raise_value(x):
        raise ValueError(x[0])

    @cuda.jit
    def catch(x):
        try:
            x[0] = 1
        except Exception:
            x[0] = 2

    with pytest.raises(CompileError, match="arguments must be constants"):
        raise_value[1, 1](cuda.to_device(np.zeros(1)))
    with pytest.raises(CompileError, match="try and except"):
        catch[1, 1](cuda.to_device(np.zeros(1)))


def test_threads_of_python_compile_and_launch_one_kernel_at_once(device):
    @cuda.jit
    def reverse_and_add(x, value):
        room = cuda.shared.array(64, np.float64)
        i, t = cuda.grid(1), cuda.threadIdx.x
        room[t] = x[i]
        cuda.syncthreads()
        x[i] = room[63 - t] + value

    failures = []

    def work(number):
        try:
            stream = cuda.stream()
            for dtype in (np.float32, np.float64, np.int32):
                x = np.arange(512, dtype=dtype)
                d_x = cuda.to_device(x, stream=stream)
                for _ in range(4):
                    reverse_and_add[8, 64, stream](d_x, dtype(number))
                np.testing.assert_array_equal(d_x.copy_to_host(), x + 4 * number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@cuda.jit
def count_up(x):
    x[cuda.grid(1)] += 1


def test_a_host_array_is_done_even_if_streams_hold_up_the_default_one(device, hold_up):
    x, stream = np.zeros(8), cuda.stream()
    count_up[1, 8](x)
    launch = threading.Thread(target=lambda: count_up[1, 8](x))
    with hold_up(stream):
        launch.start()
        launch.join(0.2)
        assert launch.is_alive(), "the launch returned, though its stream is held up"
    launch.join()
    np.testing.assert_array_equal(x, np.full(8, 2))


def test_a_fault_of_one_stream_is_not_told_to_another(device):
    @cuda.jit
    def pick(x):
        i = cuda.grid(1)
        if i == 77:
            raise IndexError("seventy-seven")
        x[i] = 1

    bad, good = cuda.stream(), cuda.stream()
    x, y = cuda.to_device(np.zeros(128)), cuda.to_device(np.zeros(128))
    pick[2, 64, bad](x)
    count_up[2, 64, good](y)
    good.synchronize()
    with pytest.raises(KernelError, match="seventy-seven"):
        bad.synchronize()
    bad.synchronize()
    assert x.copy_to_host().sum() == 127


FIRST_KERNELS = """
import threading
import weakref
import numpy as np
import haulage
from haulage import cuda

together = threading.Barrier(6)
done = []

@cuda.jit
def double(x):
    x[cuda.grid(1)] *= 2

def work(number):
    together.wait()
    if number % 3 == 0:
        import numba
        assert numba.njit(lambda value: value + 1)(1) == 2
    elif number % 3 == 1:
        assert haulage.compile(double, "void(float64[:])").asm
    x = cuda.to_device(np.arange(8.0))
    double[1, 8](x)
    assert x.copy_to_host()[7] == 14
    done.append(number)

threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sorted(done) == [0, 1, 2, 3, 4, 5]
"""


def test_the_first_kernels_of_a_process_in_several_threads_at_once(device):
    ran = subprocess.run(
        [sys.executable, "-c", FIRST_KERNELS],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HAULAGE_DEVICE": str(device)},
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""


def test_a_compiled_kernel_goes_with_its_function(device):
    def fill(x):
        x[cuda.grid(1)] = 1

    cuda.jit(fill)[1, 4](cuda.device_array(4))
    alive = weakref.ref(fill)
    del fill
    gc.collect()
    assert alive() is None
