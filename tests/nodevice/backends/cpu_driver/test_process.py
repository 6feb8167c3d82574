"""The CPU device over the life of a process: what it imports, its settings, forks and its end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import haulage

TESTS = Path(__file__).parents[3]
SOURCE = Path(haulage.__path__[0]).parent

SETUP = """
import struct, sys, threading, time
import numpy as np
from haulage.backends.cpu import CPUBackend
backend = CPUBackend()

def load(name):
    from nodevice.backends.cpu_driver.cpu_objects import host_object
    return backend.function(backend.load(host_object()), name)

class Counters:
    def __init__(self, blocks, turns=0):
        self.all = np.zeros(blocks + 1, np.int64)
        self.all[0] = turns
        self.counts = self.all[1:]
        self.args = struct.pack("@P", self.counts.__array_interface__["data"][0])

def launch(function, blocks, counters, stream=0):
    backend.launch(function, (blocks, 1, 1), (1, 1, 1), 0, stream, counters.args)
"""


def run(script, **settings):
    """Run a script after SETUP in a process of its own; returns its completed process."""
    path = os.pathsep.join([str(SOURCE), str(TESTS)])
    environment = {**os.environ, "PYTHONPATH": path, **settings}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", SETUP + script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def output(script, **settings):
    """What a script that must end well and say nothing on stderr prints."""
    done = run(script, **settings)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def test_moving_memory_imports_no_compiler():
    script = """
a, _ = backend.alloc(1000, "device")
b, _ = backend.alloc(1000, "pinned")
stream = backend.stream_create()
backend.copy(a, b, 1000, stream)
backend.copy_nd(a + 72, (-8,), b, (16,), (10,), 8, 0)
backend.fill(a, b"abc", 10, stream)
backend.synchronize()
backend.properties(0)
print([m for m in sys.modules if m.split(".")[0] in ("numba", "llvmlite")])
"""
    assert output(script) == "[]"


def test_large_copies_are_shared_out_without_a_compiler():
    script = """
import ctypes
from haulage.backends.cpu_driver.pool import POOL
size = 10 << 20
a, _ = backend.alloc(size, "device")
b, _ = backend.alloc(size, "pinned")
backend.fill(b, b"7", size, 0)
backend.copy(a, b, 1 << 20, 0)
print(POOL.workers)
backend.copy(a, b, size, 0)
assert ctypes.string_at(a, size) == b"7" * size
print(POOL.workers, [m for m in sys.modules if m.split(".")[0] in ("numba", "llvmlite")])
"""
    assert output(script, HAULAGE_NUM_THREADS="3").split() == ["0", "2", "[]"]


@pytest.mark.parametrize("threads", ["1", "2", "5"])
def test_the_number_of_threads_is_a_setting(threads):
    script = """
counters = Counters(1000)
function = load("count")
import os
from pathlib import Path

def tasks():
    # But for the one that looks after signals.
    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    return sum(name != "haulage-watch" for name in names)

before = tasks()
for _ in range(20):
    launch(function, 1000, counters)
print((counters.counts == 20).all(), backend.properties(0).multiprocessors, tasks() - before)
"""
    right, processors, started = output(script, HAULAGE_NUM_THREADS=threads).split()
    assert (right, processors) == ("True", threads)
    assert int(started) == (int(threads) - 1 if os.path.isdir("/proc/self/task") else 0)


def test_a_senseless_number_of_threads_is_an_error():
    done = run("launch(load('count'), 1000, Counters(1000))", HAULAGE_NUM_THREADS="many")
    assert done.returncode == 1
    assert "HAULAGE_NUM_THREADS='many'" in done.stderr.splitlines()[-1]


fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

FORK = """
import os, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # fork of a process with threads

def in_child(work):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@fork
def test_a_forked_child_has_its_memory_and_new_threads():
    script = """
pointer, _ = backend.alloc(8, "device")
backend.fill(pointer, struct.pack("q", 42), 1, 0)
count = load("count")
counters, stream = Counters(500), backend.stream_create()
launch(count, 500, counters)
launch(count, 500, counters, stream)
backend.synchronize()

def work():
    seen = np.zeros(1, np.int64)
    backend.copy(seen.__array_interface__["data"][0], pointer, 8, stream)
    launch(count, 500, counters, stream)
    backend.stream_synchronize(stream)
    launch(count, 500, counters)
    new = backend.stream_create()
    launch(count, 500, counters, new)
    backend.synchronize()
    print(seen[0], (counters.counts == 5).all(), len(os.listdir("/proc/self/task")) > 1)

in_child(work)
launch(count, 500, counters)
print((counters.counts == 3).all())
"""
    assert output(FORK + script, HAULAGE_NUM_THREADS="3").split() == ["42", "True", "True", "True"]


@fork
def test_a_fork_while_streams_and_the_pool_work():
    script = """
spin, count = load("spin"), load("count")
slow = Counters(400, turns=2_000_000)
stream, event = backend.stream_create(), backend.event_create()
launch(spin, 400, slow, stream)
backend.event_record(event, stream)
launch(spin, 400, slow, stream)
launch(count, 400, slow)
time.sleep(0.02)

def work():
    assert backend.event_query(event) and backend.stream_query(stream) and backend.stream_query(0)
    backend.event_synchronize(event)
    fresh = Counters(300)
    for where in (0, stream):
        launch(count, 300, fresh, where)
    backend.synchronize()
    print((fresh.counts == 2).all())

for _ in range(10):
    in_child(work)
backend.synchronize()
print((slow.counts == 3).all())
"""
    assert output(FORK + script).split() == ["True"] * 11


@fork
def test_a_fork_while_a_thread_is_within_llvm():
    script = """
import signal
import llvmlite.binding as llvm
count, counters = load("count"), Counters(300)
within = threading.Event()

def work_with_llvm():
    with llvm.ffi.lib._lock:
        within.set()
        time.sleep(0.2)

def work():
    signal.alarm(20)
    llvm.parse_assembly("")
    launch(count, 300, counters)
    print((counters.counts == 1).all())

thread = threading.Thread(target=work_with_llvm)
thread.start()
within.wait()
in_child(work)
thread.join()
"""
    assert output(FORK + script) == "True"


def test_the_end_with_queued_work_neither_hangs_nor_crashes():
    script = """
spin = load("spin")
counters = Counters(100_000, turns=5_000_000)
streams = [backend.stream_create() for _ in range(4)]
for _ in range(3):
    for stream in streams:
        launch(spin, 100_000, counters, stream)
launch(spin, 100_000, counters)
gate = threading.Event()
backend.stream_callback(streams[0], gate.wait)
print("end")
"""
    assert output(script) == "end"


def test_the_end_with_a_callback_that_never_returns():
    script = """
stream, event = backend.stream_create(), backend.event_create()
begun = threading.Event()
backend.stream_callback(stream, lambda: (begun.set(), threading.Event().wait()))
backend.event_record(event, stream)
backend.fill(backend.alloc(10, "device")[0], b"a", 10, 0)
begun.wait()
print("end")
"""
    assert output(script) == "end"


def test_what_runs_at_the_end_may_still_use_the_device():
    script = """
import atexit
stream = backend.stream_create()

class AtEnd:
    def __del__(self):
        pointer, host = backend.alloc(8, "device")
        backend.fill(pointer, b"x", 8, 0)
        backend.synchronize()
        backend.free(pointer, host, "device")
        sys.stdout.write("freed ")

kept = AtEnd()
launch(load("spin"), 1000, counters := Counters(1000, turns=1_000_000), stream)
"""
    assert output(script) == "freed"


def test_an_exception_that_ends_the_program_is_what_is_shown():
    done = run(
        "launch(load('spin'), 9999, c := Counters(9999, 9_000_000), backend.stream_create())\n1 / 0"
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"


@pytest.mark.skipif(not hasattr(os, "kill"), reason="no signals on this system")
def test_ctrl_c_in_a_program_ends_it_with_a_traceback():
    script = """
import os, signal
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
launch(load("spin"), 1_000_000, Counters(1_000_000, turns=1_000_000))
"""
    done = run(script)
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"
    assert done.returncode != 0


def test_a_fork_waits_for_code_that_another_thread_links():
    """Else the child would find LLVM locked for ever."""
    told = output(
        """
import os, threading, warnings
import llvmlite.binding as llvm
from haulage.backends import cpu
from haulage.backends.cpu_driver import loader
from nodevice.backends.cpu_driver.cpu_objects import host_object

warnings.simplefilter("ignore", DeprecationWarning)  # fork of a process with threads
backend = cpu.CPUBackend()
begun, forked, seen = threading.Event(), threading.Event(), []
new_builder = llvm.JITLibraryBuilder

def slow():
    begun.set()
    seen.append(forked.wait(0.3))
    return new_builder()

llvm.JITLibraryBuilder = slow
code = host_object("define void @f() { ret void }")
thread = threading.Thread(target=loader.link, args=(["f"], code, []))
thread.start()
begun.wait()
child = os.fork()
if child == 0:
    os._exit(0)
forked.set()
thread.join()
assert os.waitpid(child, 0)[1] == 0
print(seen)
"""
    )
    assert told == "[False]"
