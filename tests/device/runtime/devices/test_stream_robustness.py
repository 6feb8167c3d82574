"""Streams in rough use: many, dropped while busy, interrupted, in threads, failing, forked."""

import gc
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import haulage
from haulage import cuda
from haulage.errors import DeviceError, KernelError

pytestmark = pytest.mark.usefixtures("device")


@cuda.jit
def add(x, value):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += value


@cuda.jit
def fails(x, where):
    i = cuda.grid(1)
    x[i] += 1
    if i == where:
        raise ValueError("on purpose")


FAILING_LINE = fails.py_func.__code__.co_firstlineno + 5


def run_program(code, device, **settings):
    start = f"import numpy as np, haulage; from haulage import cuda; haulage.use('{device}')\n"
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", start + code],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


# ---- many, and dropped --------------------------------------------------------------------------


def test_a_thousand_streams_with_work():
    x = cuda.to_device(np.zeros((1000, 8)))
    streams = [cuda.stream() for _ in range(1000)]
    for turn in range(3):
        for n, stream in enumerate(streams):
            add[1, 8, stream](x[n], n + turn)
    cuda.synchronize()
    expected = 3 * np.arange(1000.0)[:, None] + 3
    assert (x.copy_to_host() == expected).all()


def test_streams_and_events_dropped_while_busy_lose_no_work(device, hold_up):
    first, x = cuda.stream(), cuda.to_device(np.zeros(8))
    handles = []
    with hold_up(first):
        event = cuda.event(timing=False)
        event.record(first)
        for _ in range(50):
            stream, mark = cuda.stream(), cuda.event()
            handles.append((stream.handle, mark.handle))
            stream.wait(event)
            add[1, 8, stream](x, 1)
            mark.record(stream)
            event = mark
        del stream, mark, event
        gc.collect()
    cuda.synchronize()
    assert (x.copy_to_host() == 50).all()
    del x
    gc.collect()
    if device.kind in ("nvidia", "amd", "opencl"):
        return  # its driver may crash on a handle that it does not know
    for stream, mark in handles:
        with pytest.raises(DeviceError):
            device.backend.stream_query(stream)
        with pytest.raises(DeviceError):
            device.backend.event_query(mark)


# ---- threads ------------------------------------------------------------------------------------


def test_streams_are_shared_by_threads_of_a_pool(device):
    streams = [cuda.stream() for _ in range(4)]
    x = cuda.to_device(np.zeros((4, 16)))
    event = cuda.event()

    def work(n):
        with haulage.use(device):
            add[1, 16, streams[n % 4]](x[n % 4], 1)
            event.record(streams[n % 4])
            event.synchronize()
            own = cuda.stream()
            y = cuda.to_device(np.full(16, n), stream=own)
            own.synchronize()
            return y.copy_to_host(stream=own)[0]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(200))) == list(range(200))
    cuda.synchronize()
    assert (x.copy_to_host() == 50).all()


def test_a_stream_of_a_thread_that_has_ended_is_good(device):
    made = []

    def make():
        with haulage.use(device):
            made.append(cuda.stream())

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    x = cuda.to_device(np.zeros(8))
    add[1, 8, made[0]](x, 1)
    made[0].synchronize()
    assert (x.copy_to_host() == 1).all()


# ---- failures -----------------------------------------------------------------------------------


def test_a_failure_arrives_once_at_its_stream_names_kernel_and_line_and_nothing_is_lost():
    stream, other = cuda.stream(), cuda.stream()
    x, y = cuda.to_device(np.zeros(64)), cuda.to_device(np.zeros(64))
    add[1, 64, stream](x, 1)
    fails[1, 64, stream](x, 40)
    add[1, 64, stream](x, 10)
    add[1, 64, other](y, 1)
    other.synchronize()
    with pytest.raises(KernelError, match="on purpose") as raised:
        stream.synchronize()
    assert "fails" in str(raised.value)
    assert f"line {FAILING_LINE}" in str(raised.value) or f":{FAILING_LINE}" in str(raised.value)
    for wait in (stream.synchronize, other.synchronize, cuda.synchronize):
        wait()
    assert (x.copy_to_host() == 12).all()
    assert (y.copy_to_host() == 1).all()


def test_failures_of_two_streams_are_told_apart():
    streams = [cuda.stream() for _ in range(3)]
    arrays = [cuda.to_device(np.zeros(64)) for _ in streams]
    for stream, x in zip(streams[:2], arrays[:2], strict=True):
        fails[1, 64, stream](x, 3)
    streams[2].synchronize()
    for stream in streams[:2]:
        with pytest.raises(KernelError):
            stream.synchronize()
    cuda.synchronize()
    assert [x.copy_to_host()[5] for x in arrays] == [1, 1, 0]


def test_an_event_after_a_failed_kernel_reports_it():
    stream, event, x = cuda.stream(), cuda.event(), cuda.to_device(np.zeros(64))
    fails[1, 64, stream](x, 3)
    event.record(stream)
    with pytest.raises(KernelError, match="on purpose"):
        event.synchronize()
    assert event.query()
    stream.synchronize()


# ---- events -------------------------------------------------------------------------------------


def test_times_between_three_events_add_up():
    stream, x = cuda.stream(), cuda.to_device(np.zeros(1000))
    events = [cuda.event() for _ in range(3)]
    for event in events:
        event.record(stream)
        for _ in range(5):
            add.forall(1000, stream=stream)(x, 1)
    stream.synchronize()
    first, second, third = events
    assert all(event.query() for event in events)
    assert first.elapsed_time(second) >= 0
    assert second.elapsed_time(third) >= 0
    total = first.elapsed_time(second) + second.elapsed_time(third)
    assert first.elapsed_time(third) == pytest.approx(total, abs=1e-3)


def test_an_event_recorded_again_is_the_later_mark():
    stream, event, x = cuda.stream(), cuda.event(), cuda.to_device(np.zeros(8))
    target = cuda.pinned_array(8)
    for n in (1, 2):
        add[1, 8, stream](x, 1)
        x.copy_to_host(target, stream=stream)
        event.record(stream)
        event.synchronize()
        assert (target == n).all()


# ---- Ctrl-C -------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(signal, "raise_signal"), reason="no signals on this system")
@pytest.mark.parametrize("wait", ["stream", "event", "device", "default stream"])
def test_ctrl_c_in_a_wait_leaves_everything_usable(device, hold_up, wait):
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals reach the main thread only")
    stream, event, x = cuda.stream(), cuda.event(), cuda.to_device(np.zeros(8))
    with hold_up(stream):
        add[1, 8, stream](x, 1)
        event.record(stream)
        add[1, 8](x, 1)
        waits = {
            "stream": stream.synchronize,
            "event": event.synchronize,
            "device": cuda.synchronize,
            "default stream": cuda.default_stream().synchronize,
        }
        timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            waits[wait]()
        timer.join()
        assert not stream.query()
        add[1, 8, stream](x, 1)
    waits[wait]()
    # The interrupted wait dropped the kernels that it was for; who waits on a GPU leaves them be.
    left = 1 if device.kind in ("cpu", "far") else 3
    assert (x.copy_to_host() == left).all()
    add[1, 8, stream](x, 1)
    assert (x.copy_to_host() == left + 1).all()


# ---- the process --------------------------------------------------------------------------------

KERNEL = """
@cuda.jit
def add(x, value):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += value

x = cuda.to_device(np.zeros(1000))
stream = cuda.stream()
"""


@pytest.fixture
def program(tmp_path):
    """Runs a program from a file, as kernels need their source."""

    def run(code, device, **settings):
        path = tmp_path / "program.py"
        path.write_text(KERNEL + code)
        return run_program(
            f"import runpy; runpy.run_path({str(path)!r}, globals())", device, **settings
        )

    return run


@pytest.mark.parametrize("adversary", ["", "3"])
@pytest.mark.parametrize(
    "code",
    [
        "streams = [cuda.stream() for _ in range(20)]\n"
        "for s in streams * 20: add[8, 128, s](x, 1)\n",
        "import threading\n"
        "begun = threading.Event()\n"
        "stream.add_callback(lambda *_: (begun.set(), threading.Event().wait()))\n"
        "add[8, 128, stream](x, 1)\n"
        "begun.wait()\n",
        "stream.add_callback(lambda *_: 1 // 0)\nadd[8, 128, stream](x, 1)\n",
    ],
    ids=["kernels", "a callback that never returns", "a callback that fails"],
)
def test_the_interpreter_ends_with_work_queued(device, program, code, adversary):
    if adversary and device.kind != "cpu":
        pytest.skip(f"{device} has no adversarial mode")
    if device.kind in ("nvidia", "amd") and "threading.Event().wait()" in code:
        pytest.skip("a GPU's driver waits for a callback, at the end of the process too")
    ended = program(code + "print('end')", device, HAULAGE_ADVERSARY=adversary)
    assert (ended.returncode, ended.stdout) == (0, "end\n")
    # The callback that fails may have run or not; if it has, that is told.
    told = ended.stderr.splitlines()
    assert len(told) <= ("1 // 0" in code)
    assert all("nothing waited for work that failed: ZeroDivisionError" in line for line in told)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("adversary", ["", "3"])
def test_a_fork_with_work_queued_harms_neither_process(device, program, adversary):
    if device.kind != "cpu":
        pytest.skip("a GPU's driver does not live on in a forked child")
    code = """
import os, sys
y = cuda.to_device(np.ones(1000))
for _ in range(50): add[8, 128, stream](x, 1)
pid = os.fork()
if pid == 0:
    add[8, 128, stream](y, 1)
    new = cuda.stream()
    event = cuda.event()
    event.record(stream)
    new.wait(event)
    add[8, 128, new](y, 1)
    new.add_callback(lambda *_: None)
    new.synchronize()
    assert (y.copy_to_host() == 3).all()
    sys.stdout.flush()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
stream.synchronize()
assert (x.copy_to_host() == 50).all()
assert (y.copy_to_host() == 1).all()
print("good")
"""
    ended = program(code, device, HAULAGE_ADVERSARY=adversary)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "good\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_work_and_failures_of_the_parent_are_not_the_forked_childs(device, program, tmp_path):
    if device.kind != "cpu":
        pytest.skip("a GPU's driver does not live on in a forked child")
    calls = tmp_path / "calls"
    code = f"""
import os, threading
def called(*_):
    with open({str(calls)!r}, "a") as file:
        file.write("called ")
opened, begun, failed_by_now = threading.Event(), threading.Event(), threading.Event()
failed = cuda.stream()
failed.add_callback(lambda *_: 1 // 0)
failed.add_callback(lambda *_: failed_by_now.set())
stream.add_callback(lambda *_: (begun.set(), opened.wait()))
stream.add_callback(called)
assert failed_by_now.wait(60) and begun.wait(60)
pid = os.fork()
if pid == 0:
    opened.set()
    for each in (stream, failed, cuda.default_stream()):
        each.synchronize()
    cuda.synchronize()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
opened.set()
stream.synchronize()
try:
    failed.synchronize()
except ZeroDivisionError:
    print("good")
"""
    ended = program(code, device)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "good\n", "")
    assert calls.read_text() == "called "
