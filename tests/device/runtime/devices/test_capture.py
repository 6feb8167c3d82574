"""Which threads can wait for the device while one of them captures: the modes of a capture."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import haulage
from doubles.interrupts import at_each_place
from haulage import cuda, roc
from haulage.errors import CaptureError, KernelError, Unsupported

ALSO_FAR = True
pytestmark = pytest.mark.usefixtures("device")

MODES = ("global", "thread_local", "relaxed")


@cuda.jit
def add(a, value):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += value


@cuda.jit
def fails(a):
    if a[0] == 0:
        raise ValueError("on purpose")


@pytest.fixture
def zeros():
    array = cuda.to_device(np.zeros(8))
    add[1, 8](array, 0)
    cuda.synchronize()
    return array


@pytest.fixture
def elsewhere(device):
    """Calls a function in another thread, and gives or raises what it does."""

    def there(call, *args):
        with haulage.use(device):
            return call(*args)

    with ThreadPoolExecutor(1) as pool:
        yield lambda call, *args: pool.submit(there, call, *args).result(60)


@pytest.fixture(params=["of its own", "a blocking one"])
def origin(request, zeros):
    """The stream to capture: one that the graph makes, or one that the default stream waits for."""
    return None if request.param == "of its own" else cuda.stream()


def graph(*args, **named):
    made = cuda.graph(*args, **named)
    try:
        made.stream.begin_capture()
    except Unsupported as error:
        pytest.skip(str(error))
    made.stream.end_capture()
    return made


def test_by_default_no_thread_can_wait_for_the_device(origin, zeros, elsewhere):
    with graph(origin) as g:
        add[1, 8, g.stream](zeros, 1)
        for call in (cuda.synchronize, lambda: elsewhere(cuda.synchronize)):
            with pytest.raises(CaptureError, match=r"mode 'global'.*mode='thread_local'"):
                call()
    cuda.synchronize()
    elsewhere(cuda.synchronize)
    g.launch()
    assert zeros[0] == 1


def test_thread_local_forbids_it_to_the_thread_that_captures(origin, zeros, elsewhere):
    with graph(origin, mode="thread_local") as g:
        add[1, 8, g.stream](zeros, 1)
        elsewhere(cuda.synchronize)
        with pytest.raises(CaptureError, match=r"mode 'thread_local'.*mode='relaxed'"):
            cuda.synchronize()
        elsewhere(cuda.synchronize)
    g.launch()
    g.launch()
    assert zeros[0] == 2


def test_relaxed_forbids_it_to_nobody(origin, zeros, elsewhere):
    with graph(origin, mode="relaxed") as g:
        add[1, 8, g.stream](zeros, 1)
        cuda.synchronize()
        elsewhere(cuda.synchronize)
        cuda.current_context().synchronize()
    g.launch()
    assert zeros[0] == 1


@pytest.mark.parametrize("mode", MODES)
def test_a_stream_can_begin_a_capture_in_each_mode(zeros, elsewhere, mode):
    stream = cuda.stream()
    try:
        stream.begin_capture(mode)
    except Unsupported as error:
        pytest.skip(str(error))
    add[1, 8, stream](zeros, 1)
    outcomes = []
    for call in (cuda.synchronize, lambda: elsewhere(cuda.synchronize)):
        try:
            call()
        except CaptureError:
            outcomes.append("refused")
        else:
            outcomes.append("waited")
    captured = stream.end_capture()
    assert (
        outcomes
        == {
            "global": ["refused", "refused"],
            "thread_local": ["refused", "waited"],
            "relaxed": ["waited", "waited"],
        }[mode]
    )
    captured.launch(stream)
    stream.synchronize()
    assert zeros[0] == 1


def test_it_waits_for_what_is_not_captured(device, zeros, elsewhere, hold_up):
    """In streams, in the default one, and in one that nobody holds any more."""
    streams = [cuda.stream(), cuda.stream()]
    others = [cuda.to_device(np.zeros(8)) for _ in range(3)]
    begun, ended = threading.Event(), threading.Event()

    def wait():
        with haulage.use(device):
            begun.set()
            cuda.synchronize()
            ended.set()

    with graph(mode="thread_local") as g:
        add[1, 8, g.stream](zeros, 1)
        waiting = threading.Thread(target=wait)
        with hold_up(streams[0]):
            for array, stream in zip(others, streams, strict=False):
                add[1, 8, stream](array, 1)
            last = cuda.stream()
            event = cuda.event()
            event.record(streams[0])
            event.wait(last)
            add[1, 8, last](others[2], 1)
            del last, stream
            waiting.start()
            assert begun.wait(60)
            assert not ended.wait(0.05)
        waiting.join(60)
        assert ended.is_set()
        found = elsewhere(lambda: [array.copy_to_host()[0] for array in others])
    assert found == [1, 1, 1]
    g.launch()
    assert zeros[0] == 1


def test_what_failed_is_raised_once_and_all_is_waited_for(zeros, elsewhere):
    streams = [cuda.stream(), cuda.stream()]
    other = cuda.to_device(np.zeros(8))
    fails[1, 1, streams[0]](cuda.to_device(np.ones(1)))
    cuda.synchronize()
    with graph(mode="relaxed") as g:
        add[1, 8](zeros, 1)
        fails[1, 1, streams[0]](other)
        add[1, 8, streams[1]](other[4:], 1)
        with pytest.raises((ValueError, KernelError), match="on purpose"):
            elsewhere(cuda.synchronize)
        elsewhere(cuda.synchronize)
        assert streams[1].query()
    g.launch()
    cuda.synchronize()
    assert zeros[0] == 1
    assert other.copy_to_host().tolist() == [0] * 4 + [1] * 4


def test_each_of_several_captures_counts(zeros, elsewhere):
    with graph(mode="relaxed"):
        add[1, 8](zeros, 1)

        def capture(mode):
            with cuda.graph(mode=mode):
                add[1, 8](zeros, 1)
                try:
                    cuda.synchronize()
                except CaptureError as error:
                    return str(error)
                return ""

        assert elsewhere(capture, "relaxed") == ""
        assert "'thread_local'" in elsewhere(capture, "thread_local")
        assert "'global'" in elsewhere(capture, "global")
        cuda.synchronize()
    assert zeros[0] == 0


def test_other_threads_unpin_memory_meanwhile(zeros, elsewhere):
    def pin():
        host = np.arange(8.0)
        with cuda.pinned(host):
            there = cuda.to_device(host)
        return there.copy_to_host().tolist()

    with graph(mode="thread_local"):
        add[1, 8](zeros, 1)
        assert elsewhere(pin) == list(range(8))


def test_a_reset_is_refused_in_each_mode(zeros, elsewhere):
    for mode in MODES:
        with graph(mode=mode), pytest.raises(CaptureError, match="reset"):
            elsewhere(cuda.get_current_device().reset)
    assert zeros[0] == 0


@pytest.mark.parametrize("words", [cuda, roc], ids=["cuda", "roc"])
@pytest.mark.parametrize("mode", ["strict", "", None, 0, "Relaxed"])
def test_there_are_no_other_modes(words, mode):
    with pytest.raises(ValueError, match="expected 'global', 'thread_local' or 'relaxed'"):
        words.graph(mode=mode)
    with pytest.raises(ValueError, match="expected 'global'"):
        cuda.stream().begin_capture(mode)


def test_after_ctrl_c_anywhere_no_capture_goes_on(zeros):
    stream = cuda.stream()

    def work():
        with graph(stream=stream):
            add[1, 8, stream](zeros, 1)

    modules = {"haulage.runtime.devices.capture", "haulage.interruption"}
    for _ in at_each_place(work, modules):
        with haulage.use(stream.device), ThreadPoolExecutor(1) as pool:
            pool.submit(stream.synchronize).result(20)
        with graph(stream=stream):
            add[1, 8, stream](zeros, 1)
