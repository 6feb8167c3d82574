"""Ctrl-C, and other signals whose handlers raise, while kernels run: each in a process of its own.

No kernel here ends by itself but those in `one_more`, so a test that waits in vain times out.
"""

import os
import subprocess
import sys
import textwrap

import pytest

from haulage._core.pool import HAS_GUARD

pytestmark = pytest.mark.skipif(
    not HAS_GUARD, reason="kernels are stopped by signals on Linux only"
)

SETUP = """
import contextlib, io, math, os, signal, sys, threading, time
import numpy as np
from haulage import cuda

signal.signal(signal.SIGINT, signal.default_int_handler)

@cuda.jit
def endless(x):
    while x[0] == 0:
        x[1] += 1

@cuda.jit
def one_more(x):
    x[cuda.grid(1)] += 1

def zeros():
    return cuda.to_device(np.zeros(64))

def after(seconds, number=signal.SIGINT):
    timer = threading.Timer(seconds, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()
    return timer

def is_right():
    "The device works on, in the default stream and in others."
    there, other = zeros(), cuda.stream()
    one_more[2, 32](there)
    one_more[2, 32, other](there)
    other.synchronize()
    cuda.synchronize()
    return bool((there.copy_to_host() == 2).all())

def interrupted(work, error=KeyboardInterrupt, seconds=0.5, number=signal.SIGINT):
    "Whether the error comes out of `work()`, which waits by then, soon after the signal."
    timer = after(seconds, number)
    begun = time.monotonic()
    try:
        work()
    except error:
        took = time.monotonic() - begun - seconds
        timer.join()
        # Within a second on an idle machine.
        return took < 5 and is_right()
    return False

# Compiled before the signals come.
ended, stream, x = cuda.to_device(np.ones(64)), cuda.stream(), zeros()
endless[1, 1](ended)
endless[100, 32](ended)
is_right()
"""


def output(program, timeout=60, **settings):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SETUP + textwrap.dedent(program)],
        env={**os.environ, "HAULAGE_DEVICE": "cpu", **settings},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("grid", [(1, 1), (100, 32)], ids=str)
def test_wherever_python_waits(grid):
    program = f"""
    grid, event, host = {grid}, cuda.event(), np.zeros(64)
    launch = lambda: endless[(*grid, stream)](x)

    def in_default_stream():
        endless[grid](x)
        cuda.synchronize()

    def on_a_host_array():
        endless[grid](host)

    def on_a_host_array_in_a_stream():
        endless[(*grid, stream)](host)

    def of_a_stream():
        launch()
        stream.synchronize()

    def of_the_device():
        launch()
        cuda.synchronize()

    def for_an_event():
        launch()
        event.record(stream)
        event.synchronize()

    def for_a_copy():
        launch()
        x.copy_to_host()

    def for_a_copy_in_the_stream():
        launch()
        x.copy_to_host(stream=stream)

    def at_the_end_of_a_with():
        with stream.auto_synchronize():
            launch()

    def for_room():
        for _ in range(100):
            launch()

    for wait in (in_default_stream, on_a_host_array, on_a_host_array_in_a_stream, of_a_stream,
                 of_the_device, for_an_event, for_a_copy, for_a_copy_in_the_stream,
                 at_the_end_of_a_with, for_room):
        if not interrupted(wait):
            print(wait.__name__)
    print(sys.getrefcount(host))
    """
    assert output(program, timeout=120, HAULAGE_QUEUE_DEPTH="8") == ["2"]


KERNELS = """
@cuda.jit
def barriers(x):
    shared, i = cuda.shared.array(64, np.float64), cuda.threadIdx.x
    while x[0] == 0:
        shared[i] = i
        cuda.syncthreads()
        x[1] = shared[63 - i]
        cuda.syncthreads()

@cuda.jit
def coroutines(x):
    n = 0
    while x[0] == 0:
        if cuda.threadIdx.x % 2:
            cuda.syncthreads()
        else:
            cuda.syncthreads()
            n += 1
        x[1] = n

@cuda.jit(device=True)
def forever(x):
    while True:
        x[1] += 1
        if x[0] != 0:
            return 1

@cuda.jit
def device_function(x):
    x[2] = forever(x)

@cuda.jit(device=True)
def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)

@cuda.jit
def recursion(x):
    x[1] = fibonacci(90 if x[0] == 0 else 2)

@cuda.jit
def vectors(x):
    total = 0.0
    for i in range(1 if x[0] else 10**15):
        total += math.sin(x[2] + i)
    x[1] = total

@cuda.jit
def in_the_library(x):
    total = 0.0
    for i in range(1 if x[0] else 10**15):
        total += math.lgamma(x[2] + i + 1.5)
    x[1] = total

@cuda.jit
def own_memory(x):
    own = cuda.local.array(20000, np.float64)
    for i in range(20000):
        own[i] = i
    while x[0] == 0:
        for i in range(20000):
            own[i] += x[1]
        x[2] = own[5]

@cuda.jit
def atomics(x):
    while cuda.atomic.add(x, 0, 0) == 0:
        cuda.nanosleep(1000)

@cuda.jit(debug=True)
def debugged(x):
    while x[0] == 0:
        x[1] += 1

@cuda.jit
def prints(x):
    while x[0] == 0:
        print(x[1])

def run(kernel, *configuration):
    kernel[configuration](x)
    cuda.synchronize()

for kernel in (barriers, coroutines, device_function, recursion, vectors, in_the_library,
               own_memory, atomics, debugged, prints):
    for configuration in ((1, 64), (50, 64)):
        kernel[configuration](ended)
        for last in ((), (stream,)):
            with contextlib.redirect_stdout(io.StringIO()):
                right = interrupted(lambda: run(kernel, *configuration, *last), seconds=0.2)
            if not right:
                print(kernel.py_func.__name__, configuration, bool(last))
print("end")
"""


def test_whatever_a_kernel_does():
    assert output(KERNELS, timeout=180) == ["end"]


def test_cooperative_grids_and_graphs_and_ufuncs():
    program = """
    @cuda.jit
    def all_go_round(x):
        grid = cuda.cg.this_grid()
        while x[0] == 0:
            grid.sync()

    @cuda.jit
    def one_stays(x):
        grid = cuda.cg.this_grid()
        if cuda.blockIdx.x == 0:
            while x[0] == 0:
                x[1] += 1
        grid.sync()

    def run(kernel, blocks):
        kernel[blocks, 32](x)
        cuda.synchronize()

    for kernel in (all_go_round, one_stays):
        for blocks in (1, 4):
            kernel[blocks, 32](ended)
            print(interrupted(lambda: run(kernel, blocks)))

    there = zeros()
    with cuda.graph() as graph:
        one_more[2, 32](there)
        endless[1, 1](x)
        endless[100, 32](x)

    def launch():
        graph.launch()
        cuda.synchronize()

    print(interrupted(launch))

    @cuda.vectorize(["float64(float64)"])
    def stays(value):
        while value == 0:
            value = value * 2
        return value

    @cuda.guvectorize(["(float64[:], float64[:])"], "(n)->(n)")
    def stays_too(values, out):
        while values[0] == 0:
            out[0] += 1

    @cuda.reduce
    def total(a, b):
        while b == -2:
            a += 1
        return a + b

    stays(np.ones(1000))
    stays_too(np.ones((10, 10)), np.ones((10, 10)))
    total(np.ones(100_000))
    print(interrupted(lambda: stays(np.zeros(1000))))
    print(interrupted(lambda: stays_too(np.zeros((10, 10)), np.zeros((10, 10)))))
    print(interrupted(lambda: total(np.full(100_000, -2.0))))
    """
    assert output(program, timeout=120) == ["True"] * 8


def test_a_handler_that_raises_nothing_lets_the_kernel_go_on_and_may_launch_others():
    program = """
    calls, there = [], zeros()

    def handler(number, frame):
        one_more[2, 32](there)  # in order, so after the one that runs
        calls.append(1)
        if len(calls) == 3:
            raise TimeoutError

    signal.signal(signal.SIGALRM, handler)
    for grid in ((1, 1), (100, 32)):
        calls.clear()
        signal.setitimer(signal.ITIMER_REAL, 0.3, 0.3)
        try:
            endless[grid](x)
        except TimeoutError:
            signal.setitimer(signal.ITIMER_REAL, 0)
            print(len(calls), is_right(), there.copy_to_host().sum())
    """
    assert output(program) == ["3", "True", "0.0"] * 2


def test_what_is_queued_behind_it_is_dropped_and_other_streams_go_on():
    program = """
    other, first, second, copied = cuda.stream(), zeros(), zeros(), cuda.pinned_array(64)
    gate, called, event = threading.Event(), [], cuda.event()
    other.add_callback(lambda *_: gate.wait(30))
    one_more[2, 32, other](first)

    def wait():
        endless[1, 1, stream](x)
        one_more[2, 32, stream](second)
        first.copy_to_host(copied, stream=stream)
        stream.add_callback(lambda *_: called.append(1))
        event.record(stream)
        stream.synchronize()

    copied[:] = -1
    try:
        after(0.5)
        wait()
    except KeyboardInterrupt:
        print(other.query())
    gate.set()
    cuda.synchronize()
    print(first.copy_to_host().sum(), second.copy_to_host().sum(), copied.min() >= 0, called)
    print(event.query(), is_right())
    """
    assert output(program) == ["False", "64.0", "0.0", "True", "[1]", "True", "True"]


def test_other_threads_whose_kernels_it_stops_are_told_once():
    program = """
    from haulage.errors import DeviceError
    told, there = [], zeros()

    def told_by(work):
        try:
            work()
        except DeviceError as error:
            told.append("stopped" if "was stopped" in str(error) else str(error))

    def in_the_default_stream():
        told_by(lambda: endless[1, 1](x))

    def in_the_stream():
        endless[1, 1, stream](x)
        one_more[2, 32, stream](there)
        told_by(stream.synchronize)
        told_by(stream.synchronize)

    for work in (in_the_default_stream, in_the_stream):
        thread = threading.Thread(target=work)
        thread.start()
        time.sleep(0.3)  # or it waits a little later, and hears it no less
        print(interrupted(cuda.synchronize))
        thread.join()
        print(told)
        told.clear()
    """
    assert output(program) == ["True", "['stopped']"] * 2


def test_a_second_ctrl_c_at_any_time():
    program = """
    def in_a_stream():
        for _ in range(5):
            endless[100, 32, stream](x)
        stream.synchronize()

    works = (lambda: endless[1, 1](x), lambda: endless[100, 32](x), in_a_stream)
    for pause in (0.0001, 0.001, 0.005, 0.02):
        for work in works:
            timers, heard = (after(0.4), after(0.4 + pause)), 0
            try:
                try:
                    work()
                except KeyboardInterrupt:
                    heard += 1
                for timer in timers:
                    timer.join()
                time.sleep(0.1)
            except KeyboardInterrupt:
                heard += 1
            for timer in timers:
                timer.join()
            if not heard or not is_right():
                print(pause, heard)
    print("end")
    """
    assert output(program) == ["end"]


def test_what_finished_blocks_wrote_is_there():
    program = """
    @cuda.jit
    def last_stays(x):
        if cuda.blockIdx.x == 63:
            while x[63] == 0:
                x[62] = 2
        x[cuda.blockIdx.x] = 1

    last_stays[64, 1](ended)
    there = zeros()
    print(interrupted(lambda: last_stays[64, 1](there)))
    found = there.copy_to_host()
    print(set(found[:62]) <= {0.0, 1.0}, found[63])
    """
    right, some, last = output(program)
    assert (right, some, last) == ("True", "True", "0.0")


def test_ctrl_c_ends_a_program_whose_end_waits_for_a_kernel():
    program = """
    endless[1, 1, stream](x)
    time.sleep(0.2)
    print("waits", flush=True)
    after(0.5)
    """
    done = subprocess.run(
        [sys.executable, "-c", SETUP + textwrap.dedent(program)],
        env={**os.environ, "HAULAGE_DEVICE": "cpu"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "waits\n"
    assert "KeyboardInterrupt" in done.stderr


def test_sigterm_ends_the_process_as_ever():
    done = subprocess.run(
        [sys.executable, "-c", SETUP + "after(0.3, signal.SIGTERM)\nendless[1, 1](x)"],
        env={**os.environ, "HAULAGE_DEVICE": "cpu"},
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == -15


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_in_a_forked_child():
    program = """
    import warnings
    warnings.simplefilter("ignore")
    child = os.fork()
    if not child:
        both = [interrupted(lambda: endless[1, 1](x)), interrupted(lambda: endless[100, 32](x))]
        os._exit(0 if all(both) else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), interrupted(lambda: endless[9, 9](x)))
    """
    assert output(program) == ["0", "True"]


@pytest.mark.parametrize("threads", ["1", "2"])
def test_threads_that_wait_for_what_nobody_writes(threads):
    program = """
        from haulage.cuda import cg

        @cuda.jit
        def of_its_block(flag):
            t = cuda.threadIdx.x
            while flag[(t + 1) % 64] == 0:
                cuda.nanosleep(10)
            flag[t] = 1

        @cuda.jit
        def of_a_later_block(flag):
            b = cuda.blockIdx.x
            if cuda.threadIdx.x == 0:
                while b < cuda.gridDim.x - 1 and cuda.atomic.add(flag, b + 1, 0) == 0:
                    pass
                cuda.atomic.exch(flag, b, 1)

        @cuda.jit
        def of_its_grid(flag):
            grid = cg.this_grid()
            while cuda.atomic.add(flag, 0, 0) < cuda.gridsize(1) + 1:
                pass
            grid.sync()
            cuda.atomic.add(flag, 0, 1)

        for kernel in (of_its_block, of_a_later_block, of_its_grid):
            kernel[1, 64](cuda.to_device(np.full(64, 5000)))
            cuda.synchronize()

            def work():
                kernel[60, 64](cuda.to_device(np.zeros(64, np.int64)))
                cuda.synchronize()

            print(interrupted(work))
    """
    assert output(program, HAULAGE_NUM_THREADS=threads) == ["True"] * 3
