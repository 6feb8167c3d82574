"""Programs that use memory in every way, for `doubles.injection` to run with calls that fail.

Each takes a `Bystanders`: what it hands to `expect` must hold those values at the end, however it
ends, until `forget` says that the program changes it now.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from haulage import SmartArray, cuda, memory

N = 3000
# So many numbers that their copies go by pinned buffers, and their memory is no part of other's.
LARGE = 400_000


class Bystanders:
    """Arrays, and what they must hold."""

    def __init__(self) -> None:
        self._expected: list[tuple[Any, np.ndarray]] = []

    def expect(self, array: Any, values: Any) -> Any:
        """From now on `array`, which is given back, holds these values."""
        self._expected.append((array, np.array(values)))
        return array

    def forget(self, array: Any) -> None:
        """The values of `array` are open."""
        self._expected = [entry for entry in self._expected if entry[0] is not array]

    def wrong(self) -> list[str]:
        """The arrays that do not hold what they must."""
        found = []
        for array, values in self._expected:
            host = array.copy_to_host() if hasattr(array, "copy_to_host") else np.asarray(array)
            if not np.array_equal(host, values):
                found.append(f"{type(array).__name__} of shape {array.shape}")
        return found


Program = Callable[[Bystanders], None]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    """Decorator: the function is one of the programs."""
    PROGRAMS[function.__name__] = function
    return function


@cuda.jit
def _add(target: Any, source: Any) -> None:
    i = cuda.grid(1)
    if i < target.size:
        target[i] += source[i]


@cuda.jit
def _turned(target: Any, source: Any) -> None:
    i, j = cuda.grid(2)
    if i < source.shape[0] and j < source.shape[1]:
        target[j, i] = source[i, j]


_total = cuda.reduce(lambda a, b: a + b)


@cuda.vectorize(["float64(float64, float64)"])
def _hypotenuse(a: Any, b: Any) -> Any:
    return (a * a + b * b) ** 0.5


def numbers(*shape: int) -> np.ndarray:
    """0, 1, 2, ..."""
    return np.arange(np.prod(shape), dtype=np.float64).reshape(shape)


@program
def copies_to_and_fro(keep: Bystanders) -> None:
    host = numbers(N)
    array = keep.expect(cuda.to_device(host), host)
    assert np.array_equal(array.copy_to_host(), host)
    target = np.empty_like(host)
    array.copy_to_host(target)
    assert np.array_equal(target, host)
    keep.forget(array)
    array.copy_to_device(host[::-1].copy())
    assert np.array_equal(array.copy_to_host(), host[::-1])


@program
def strided_copies(keep: Bystanders) -> None:
    host = numbers(40, 30)
    array = keep.expect(cuda.to_device(host), host)
    assert np.array_equal(array[::3, ::-2].copy_to_host(), host[::3, ::-2])
    other = cuda.device_array((30, 40))
    other.T.copy_to_device(array)
    keep.expect(other, host.T)
    wide = keep.expect(np.zeros((80, 60)), np.zeros((80, 60)))
    keep.forget(wide)
    array.copy_to_host(wide[::2, ::-2])
    assert np.array_equal(wide[::2, ::-2], host)


@program
def views(keep: Bystanders) -> None:
    host = numbers(20, 10)
    array = cuda.to_device(host)
    rows = keep.expect(array[3:7], host[3:7])
    column = keep.expect(array[:, 2], host[:, 2])
    del array
    assert rows[1, 1] == host[4, 1]
    keep.expect(column.reshape(-1), host[:, 2])


@program
def new_arrays(keep: Bystanders) -> None:
    keep.expect(cuda.zeros(N), np.zeros(N))
    keep.expect(cuda.ones((5, 7), np.int16), np.ones((5, 7)))
    keep.expect(cuda.full(N, 2.5), np.full(N, 2.5))
    cuda.device_array(N)
    cuda.device_array_like(numbers(3, 4))


@program
def fills(keep: Bystanders) -> None:
    array, other = cuda.device_array(N), keep.expect(cuda.to_device(numbers(N)), numbers(N))
    array.fill(3.0)
    keep.expect(array, np.full(N, 3.0))
    stream = cuda.stream()
    keep.forget(other)
    other.fill(4.0, stream)
    stream.synchronize()
    keep.expect(other, np.full(N, 4.0))


@program
def assignments(keep: Bystanders) -> None:
    host = numbers(30, 10)
    array = cuda.to_device(host)
    array[3:5] = 7
    array[::2, 1] = numbers(15)
    array[:, 3] = array[:, 4]
    array[1:] = array[:-1]
    host[3:5] = 7
    host[::2, 1] = numbers(15)
    host[:, 3] = host[:, 4]
    host[1:] = host[:-1].copy()
    keep.expect(array, host)


@program
def streams(keep: Bystanders) -> None:
    one, two = cuda.stream(), cuda.stream()
    source = cuda.pinned_array(N)
    source[...] = numbers(N)
    first = cuda.to_device(source, stream=one)
    second = cuda.device_array(N, stream=two)
    mark = cuda.event()
    mark.record(one)
    mark.wait(two)
    second.copy_to_device(first, stream=two)
    target = cuda.pinned_array(N)
    second.copy_to_host(target, stream=two)
    two.synchronize()
    assert np.array_equal(target, source)
    keep.expect(first, source)


@program
def arrays_that_go_while_streams_use_them(keep: Bystanders) -> None:
    one, two = cuda.stream(), cuda.stream()
    source = cuda.to_device(numbers(N))
    first, second = cuda.device_array(N), cuda.device_array(N)
    first.copy_to_device(source, stream=one)
    second.copy_to_device(source, stream=two)
    second.copy_to_device(source, stream=one)
    second.close()
    del first, source
    third = cuda.to_device(numbers(N), stream=two)
    two.synchronize()
    keep.expect(third, numbers(N))
    one.synchronize()


@program
def events(keep: Bystanders) -> None:
    stream = cuda.stream()
    begin, end = cuda.event(), cuda.event()
    begin.record(stream)
    array = cuda.to_device(numbers(N), stream=stream)
    end.record(stream)
    end.synchronize()
    assert begin.query()
    assert begin.elapsed_time(end) >= 0
    keep.expect(array, numbers(N))


@program
def callbacks(keep: Bystanders) -> None:
    stream, told = cuda.stream(), []
    array = cuda.to_device(numbers(N), stream=stream)
    stream.add_callback(lambda *_: told.append(1))
    stream.synchronize()
    assert told == [1]
    keep.expect(array, numbers(N))


@program
def pinned_memory(keep: Bystanders) -> None:
    host = cuda.pinned_array((40, 50), strides=None)
    host[...] = numbers(40, 50)
    stream = cuda.stream()
    array = cuda.to_device(host, stream=stream)
    half = host[::2]
    del host
    other = cuda.to_device(half, stream=stream)
    stream.synchronize()
    keep.expect(array, numbers(40, 50))
    keep.expect(other, numbers(40, 50)[::2])


@program
def registrations(keep: Bystanders) -> None:
    one, two = numbers(N), numbers(N) + 1
    stream = cuda.stream()
    with cuda.pinned(one, two):
        first = cuda.to_device(one, stream=stream)
        second = cuda.to_device(two, stream=stream)
        stream.synchronize()
        keep.expect(first, one)
        keep.expect(second, two)
    with cuda.mapped(one) as there:
        there.copy_to_device(second)
    assert np.array_equal(one, two)


@program
def mapped_and_managed_memory(keep: Bystanders) -> None:
    for make in (cuda.mapped_array, cuda.managed_array):
        array = make(N)
        array[...] = numbers(N)
        keep.expect(array, numbers(N))
        other = cuda.to_device(np.ones(N))
        keep.forget(array)
        _add[N // 100 + 1, 100](array, other)
        cuda.synchronize()
        assert np.array_equal(array, numbers(N) + 1)
        array.close()


@program
def launches(keep: Bystanders) -> None:
    target, source = cuda.to_device(numbers(N)), keep.expect(cuda.to_device(numbers(N)), numbers(N))
    _add[N // 100 + 1, 100](target, source)
    keep.expect(target, 2 * numbers(N))
    stream = cuda.stream()
    turned = cuda.device_array((40, 30))
    _turned[(2, 2), (32, 32), stream](turned, cuda.to_device(numbers(30, 40), stream=stream))
    stream.synchronize()
    keep.expect(turned, numbers(30, 40).T)


@program
def launches_with_host_arrays(keep: Bystanders) -> None:
    target, source = numbers(N), keep.expect(numbers(N), numbers(N))
    _add[N // 100 + 1, 100](target, source)
    assert np.array_equal(target, 2 * source)
    _add[N // 100 + 1, 100](target, cuda.In(source))
    assert np.array_equal(target, 3 * source)


@program
def a_kernel_that_is_loaded(keep: Bystanders) -> None:
    @cuda.jit("void(float64[::1])")
    def one_more(target: Any) -> None:
        i = cuda.grid(1)
        if i < target.size:
            target[i] += 1

    array = cuda.to_device(numbers(N))
    one_more[N // 100 + 1, 100](array)
    keep.expect(array, numbers(N) + 1)


@program
def reductions(keep: Bystanders) -> None:
    array = keep.expect(cuda.to_device(numbers(N)), numbers(N))
    assert _total(array) == numbers(N).sum()
    assert _total(numbers(N)) == numbers(N).sum()


@program
def ufuncs(keep: Bystanders) -> None:
    array = keep.expect(cuda.to_device(numbers(N)), numbers(N))
    assert np.allclose(_hypotenuse(array, array).copy_to_host(), numbers(N) * 2**0.5)
    assert np.allclose(_hypotenuse(numbers(N), 0.0), numbers(N))


@program
def smart_arrays(keep: Bystanders) -> None:
    smart = SmartArray(numbers(N))
    plain = keep.expect(SmartArray(numbers(N)).get("gpu"), numbers(N))
    _add[N // 100 + 1, 100](smart, plain)
    assert np.array_equal(smart.get("host"), 2 * numbers(N))
    _add[N // 100 + 1, 100](smart, plain)
    assert np.array_equal(np.asarray(smart), 3 * numbers(N))


@program
def smart_arrays_that_views_show(keep: Bystanders) -> None:
    smart, ones = SmartArray(numbers(N)), keep.expect(cuda.to_device(np.ones(N)), np.ones(N))
    view = smart.get()
    _add[N // 100 + 1, 100](smart, ones)
    keep.expect(smart, numbers(N) + 1)
    cuda.synchronize()
    assert np.array_equal(view, numbers(N) + 1)


@program
def smart_arrays_that_make_room(keep: Bystanders) -> None:
    device = cuda.current_context().device
    ones = cuda.to_device(np.ones(N))
    dirty = [SmartArray(shape=N, where="gpu"), SmartArray(numbers(N))]
    dirty[0][...] = numbers(N)
    for array in dirty:
        _add[N // 100 + 1, 100](array, ones)
        keep.expect(array, numbers(N) + 1)
    clean = keep.expect(SmartArray(numbers(N), where="gpu"), numbers(N))
    memory.limit(memory.stats(device).in_use, device)
    try:
        made = [cuda.device_array(N) for _ in range(3)]
        del made
        _add[N // 100 + 1, 100](SmartArray(numbers(N)), ones)
    finally:
        memory.limit(None, device)
    assert clean.coherence.current() == ["host"]


@program
def dlpack(keep: Bystanders) -> None:
    array = keep.expect(cuda.to_device(numbers(N)), numbers(N))
    stream = cuda.stream()
    other = cuda.to_device(numbers(N), stream=stream)
    taken = cuda.as_cuda_array(other)
    capsule = array.__dlpack__(copy=True)
    host = np.from_dlpack(array, device="cpu", copy=True)
    assert np.array_equal(host, numbers(N))
    del capsule, taken


@program
def no_room(keep: Bystanders) -> None:
    free, _ = cuda.current_context().get_memory_info()
    if free > 1 << 31:
        return  # the host's own memory, which nobody fills for a test
    kept: list[Any] = [cuda.device_array(free // 2, np.uint8)]
    kept.append(kept)  # gone only when cycles are collected
    del kept
    array = cuda.device_array(3 * (free // 4), np.uint8)
    array[:8] = 5
    keep.expect(array[:8], [5] * 8)


@program
def large_arrays(keep: Bystanders) -> None:
    host = numbers(LARGE)
    first = keep.expect(cuda.to_device(host), host)
    stream = cuda.stream()
    second = cuda.device_array(LARGE, stream=stream)
    second.copy_to_device(first, stream=stream)
    assert np.array_equal(second[::-1].copy_to_host(stream=stream), host[::-1])
    second.close()
    third = cuda.device_array(2 * LARGE)
    third[::2] = host
    keep.expect(third[::2], host)


@program
def large_arrays_of_the_host(keep: Bystanders) -> None:
    host = numbers(LARGE)
    for make in (cuda.pinned_array, cuda.mapped_array, cuda.managed_array):
        array = make(LARGE)
        array[...] = host
        keep.expect(array, host)
        there = cuda.to_device(array, stream=cuda.stream())
        cuda.synchronize()
        keep.expect(there, host)


@program
def sharing_between_processes(keep: Bystanders) -> None:
    array = keep.expect(cuda.to_device(numbers(N)), numbers(N))
    if not array.device.properties.host_memory_is_device_memory:
        return
    handle = array.get_ipc_handle()
    opened = handle.open()
    assert opened[5] == 5
    del opened
    handle.close()


@program
def deferred_cleanup(keep: Bystanders) -> None:
    array = keep.expect(cuda.to_device(numbers(N)), numbers(N))
    with cuda.defer_cleanup():
        for _ in range(3):
            other = cuda.to_device(numbers(N))
            other.copy_to_device(array)
        del other
    cuda.to_device(numbers(10)).close()
