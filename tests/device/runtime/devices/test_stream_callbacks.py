"""Callbacks of streams, and awaiting streams in asyncio."""

import asyncio
import gc
import threading
import weakref

import numpy as np
import pytest

from haulage import cuda, roc
from haulage.errors import DeviceError, KernelError

pytestmark = pytest.mark.usefixtures("device")

LONG = 30  # seconds that no test takes unless it fails


@pytest.fixture(params=["new", "default", "per thread"])
def stream(request):
    """A stream of each kind."""
    kinds = {
        "new": cuda.stream,
        "default": cuda.default_stream,
        "per thread": cuda.per_thread_default_stream,
    }
    return kinds[request.param]()


@cuda.jit
def add(x, value):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += value


@cuda.jit
def fails(x, where):
    i = cuda.grid(1)
    if i == where:
        raise ValueError("on purpose")
    x[i] += 1


# ---- callbacks ----------------------------------------------------------------------------------


def test_a_callback_is_given_stream_status_and_argument_on_another_thread(stream):
    calls = []

    def note(*args):
        calls.append((*args, threading.get_ident()))

    stream.add_callback(note, "argument")
    stream.add_callback(note)
    stream.synchronize()
    (of, status, arg, thread), second = calls
    assert of is stream
    assert (status, arg) == (0, "argument")
    assert thread != threading.get_ident()
    assert second[2] is None


def test_callbacks_run_between_the_work_around_them():
    stream, x = cuda.stream(), cuda.to_device(np.zeros(100))
    target = cuda.pinned_array(100)
    target[:] = 0
    seen = []
    for n in range(5):
        add[1, 128, stream](x, 1)
        x.copy_to_host(target, stream=stream)
        stream.add_callback(lambda stream, status, n: seen.append((n, target.copy())), n)
    stream.synchronize()
    assert [n for n, _ in seen] == list(range(5))
    for n, values in seen:
        assert (values == n + 1).all()


def test_later_work_waits_for_a_callback(hold_up):
    stream, x = cuda.stream(), cuda.to_device(np.zeros(10))
    opened, called = threading.Event(), threading.Event()

    def wait(stream, status, arg):
        called.set()
        assert opened.wait(LONG)

    stream.add_callback(wait)
    target = cuda.pinned_array(10)
    target[:] = 7
    x.copy_to_host(target, stream=stream)
    assert called.wait(LONG)
    assert not stream.query()
    assert (target == 7).all()
    opened.set()
    stream.synchronize()
    assert (target == 0).all()


def test_what_a_callback_raises_is_raised_once_and_later_work_goes_on(stream):
    def fail(*_):
        raise LookupError("of the callback")

    x = cuda.to_device(np.zeros(10))
    after = []
    stream.add_callback(fail)
    stream.add_callback(lambda *_: after.append("called"))
    add[1, 32, stream](x, 1)
    with pytest.raises(LookupError, match="of the callback"):
        stream.synchronize()
    stream.synchronize()
    assert after == ["called"]
    assert (x.copy_to_host() == 1).all()


def test_a_callbacks_exception_is_its_streams_only():
    stream, other = cuda.stream(), cuda.stream()
    stream.add_callback(lambda *_: 1 // 0)
    other.add_callback(lambda *_: None)
    other.synchronize()
    with pytest.raises(ZeroDivisionError):
        cuda.synchronize()


@pytest.mark.parametrize(
    "wait",
    [
        lambda stream: stream.synchronize(),
        lambda stream: cuda.synchronize(),
        lambda stream: cuda.to_device(np.ones(3)),
        lambda stream: cuda.zeros(3).get_ipc_handle(),
        lambda stream: cuda.to_device(np.ones(3), stream=stream),
        lambda stream: behind(stream).synchronize(),
    ],
    ids=["stream", "device", "copy", "ipc", "copy in stream", "behind an event"],
)
def test_a_callback_that_waits_for_itself_is_an_error_and_no_deadlock(stream, wait):
    x = cuda.to_device(np.zeros(10))
    stream.add_callback(lambda stream, status, arg: wait(stream))
    add[1, 32, stream](x, 1)
    with pytest.raises(DeviceError, match="waits for work that begins only when it has returned"):
        stream.synchronize()
    assert (x.copy_to_host() == 1).all()


def behind(stream):
    """A stream that waits for all that was handed to another."""
    mark, other = cuda.event(), cuda.stream()
    mark.record(stream)
    mark.wait(other)
    return other


def test_a_callback_may_wait_for_another_stream(device):
    if device.kind in ("nvidia", "amd", "opencl"):
        pytest.skip("callbacks cannot call a GPU's driver")
    stream, other = cuda.stream(), cuda.stream()
    x, results = cuda.to_device(np.zeros(10)), cuda.pinned_zeros(10)

    def work(*_):
        add[1, 32, other](x, 1)
        x.copy_to_host(results, stream=other)
        other.synchronize()

    stream.add_callback(work)
    stream.synchronize()
    assert (results == 1).all()


@pytest.mark.parametrize("callback", [None, 3, "print"])
def test_a_callback_that_cannot_be_called_is_refused(stream, callback):
    with pytest.raises(TypeError, match=r"expected a function of \(stream, status, arg\)"):
        stream.add_callback(callback)
    assert stream.query()


def test_a_callback_that_nobody_waits_for_is_called():
    stream, called = roc.stream(), threading.Event()
    stream.add_callback(lambda *_: called.set())
    assert called.wait(LONG)


def test_a_stream_is_not_kept_by_callbacks_that_ran():
    stream, called = cuda.stream(), []
    stream.add_callback(lambda stream, *_: called.append(stream.handle))
    stream.synchronize()
    gone = weakref.ref(stream)
    del stream
    gc.collect()
    assert gone() is None
    assert len(called) == 1


def test_a_stream_dropped_before_its_callback_is_still_given_to_it():
    given, called = [], threading.Event()

    def note(stream, status, arg):
        given.append(int(stream))
        called.set()

    stream = cuda.stream()
    handle = stream.handle
    stream.add_callback(note)
    del stream
    assert called.wait(LONG)
    assert given == [handle]


# ---- asyncio ------------------------------------------------------------------------------------


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, LONG))


def test_an_awaited_stream_is_done_and_is_the_result(stream):
    async def main():
        x = cuda.to_device(np.zeros(100))
        target = cuda.pinned_array(100)
        add[1, 128, stream](x, 3)
        x.copy_to_host(target, stream=stream)
        future = stream.async_done()
        assert isinstance(future, asyncio.Future)
        assert await future is stream
        assert (target == 3).all()

    run(main())


def test_other_coroutines_run_meanwhile():
    async def main():
        stream, opened, order = cuda.stream(), threading.Event(), []

        async def wait():
            await stream.async_done()
            order.append("stream")

        stream.add_callback(lambda *_: opened.wait(LONG))
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0.01)
        order.append("other")
        opened.set()
        await waiting
        assert order == ["other", "stream"]

    run(main())


def test_only_earlier_work_is_awaited():
    async def main():
        stream, opened = cuda.stream(), threading.Event()
        done = stream.async_done()
        stream.add_callback(lambda *_: opened.wait(LONG))
        await done
        opened.set()
        await stream.async_done()

    run(main())


def test_many_streams_are_awaited_at_once():
    async def one(n):
        stream, x = cuda.stream(), cuda.to_device(np.zeros(64))
        target = cuda.pinned_array(64)
        for _ in range(3):
            add[1, 64, stream](x, n)
            await stream.async_done()
        x.copy_to_host(target, stream=stream)
        await stream.async_done()
        return target[0]

    async def main():
        return await asyncio.gather(*(one(n) for n in range(100)))

    assert run(main()) == [3 * n for n in range(100)]


def test_one_stream_is_awaited_many_times():
    async def main():
        stream = cuda.stream()
        assert await asyncio.gather(*(stream.async_done() for _ in range(50))) == [stream] * 50

    run(main())


def test_a_failed_kernel_is_raised_by_the_await_and_not_again():
    async def main():
        stream, x = cuda.stream(), cuda.to_device(np.zeros(64))
        fails[1, 64, stream](x, 3)
        with pytest.raises(KernelError, match="on purpose"):
            await stream.async_done()
        assert await stream.async_done() is stream
        stream.synchronize()

    run(main())


def test_an_await_leaves_the_failures_of_other_streams_to_them(device):
    if device.kind in ("nvidia", "amd", "opencl"):
        pytest.skip("a GPU tells of a kernel that it failed, not in which stream")

    async def main():
        stream, other, x = cuda.stream(), cuda.stream(), cuda.to_device(np.zeros(64))
        fails[1, 64, stream](x, 3)
        fails[1, 64, other](x, 5)
        with pytest.raises(KernelError, match="on purpose"):
            await stream.async_done()
        assert await stream.async_done() is stream
        with pytest.raises(KernelError, match="on purpose"):
            other.synchronize()

    run(main())


def test_a_failed_callback_is_raised_by_the_await():
    async def main():
        stream = cuda.stream()
        stream.add_callback(lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            await stream.async_done()

    run(main())


def test_a_cancelled_future_leaves_the_failure_to_the_next_synchronise():
    async def main():
        stream, x, opened = cuda.stream(), cuda.to_device(np.zeros(64)), threading.Event()
        stream.add_callback(lambda *_: opened.wait(LONG))
        fails[1, 64, stream](x, 3)
        future = stream.async_done()
        future.cancel()
        opened.set()
        with pytest.raises(asyncio.CancelledError):
            await future
        # Behind what the loop was told of the future.
        loop, told = asyncio.get_running_loop(), asyncio.Event()
        stream.add_callback(lambda *_: loop.call_soon_threadsafe(told.set))
        await told.wait()
        with pytest.raises(KernelError):
            stream.synchronize()
        stream.synchronize()

    run(main())


def test_a_loop_that_is_closed_before_the_end_is_no_failure():
    stream, opened = cuda.stream(), threading.Event()

    async def main():
        stream.add_callback(lambda *_: opened.wait(LONG))
        stream.async_done()

    run(main())
    opened.set()
    stream.synchronize()


def test_without_a_loop_the_error_says_what_to_do(stream):
    with pytest.raises(RuntimeError, match="call it in a coroutine"):
        stream.async_done()
    assert stream.query()
