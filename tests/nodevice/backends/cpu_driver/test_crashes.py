"""Kernels on the CPU device that access what is no memory, or use up a stack: the launch fails with
an error that names the kernel, and the process goes on. Everything runs in a process of its own."""

import os
import platform
import signal
import subprocess
import sys
import textwrap

import pytest

from haulage._core.pool import HAS_GUARD

pytestmark = pytest.mark.skipif(not HAS_GUARD, reason="such accesses are caught on Linux")

BEGIN = """
import numpy as np
from haulage import cuda
from haulage.errors import DeviceError, IllegalAddress, KernelError

FAR = 10**11

def error_of(run, kind=IllegalAddress):
    try:
        run()
        cuda.synchronize()
    except kind as error:
        return str(error)
    raise AssertionError("nothing was raised")

@cuda.jit
def far(a, n):
    i = cuda.grid(1)
    a[i + n] = 1

@cuda.jit
def near(a):
    i = cuda.grid(1)
    a[i] += 1

def goes_on(blocks=64):
    a = cuda.to_device(np.zeros(blocks * 32))
    near[blocks, 32](a)
    assert (a.copy_to_host() == 1).all()

a = cuda.to_device(np.zeros(1000))
"""


def run(tmp_path, code, *options, **settings):
    """Run a program after BEGIN in a process of its own; returns its completed process."""
    file = tmp_path / "program.py"
    file.write_text(BEGIN + textwrap.dedent(code))
    unset = ("HAULAGE_ADVERSARY", "PYTHONFAULTHANDLER")
    settings = {name: v for name, v in os.environ.items() if name not in unset} | settings
    return subprocess.run(
        [sys.executable, *options, file],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=settings,
    )


def output(tmp_path, code, *options, **settings):
    """What a program that ends well and says nothing on its error output prints."""
    done = run(tmp_path, code, *options, **settings)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def test_the_error_names_kernel_block_and_address_and_the_process_goes_on(tmp_path):
    code = """
    import re
    told = error_of(lambda: far[1, 1](a, FAR))
    address = np.from_dlpack(a).ctypes.data + 8 * FAR
    assert told.startswith(f"kernel far: a thread of block [0, 0, 0] accessed address {address:#x}")
    assert "debug=True" in told
    told = error_of(lambda: far[400, 64](a, FAR))
    assert "kernel far: a thread of one of the blocks " in told

    @cuda.jit
    def plane(a, x, y, z):
        if (cuda.blockIdx.x, cuda.blockIdx.y, cuda.blockIdx.z) == (x, y, z):
            a[FAR] = 1

    for place in ((4, 2, 1), (0, 0, 0), (1, 0, 1)):
        told = error_of(lambda: plane[(5, 3, 2), 1](a, *place))
        between = re.search(r"of one of the blocks (\\[.*?\\]) to (\\[.*?\\]) acc", told)
        alone = re.search(r"of block (\\[.*?\\]) acc", told)
        first, last = between.groups() if between else (alone[1], alone[1])
        numbers = [sum(i * n for i, n in zip(p, (1, 5, 15))) for p in map(eval, (first, last))]
        assert numbers[0] <= place[0] + 5 * place[1] + 15 * place[2] <= numbers[1], told
    try:
        far[1, 1](a, FAR)
        cuda.synchronize()
    except DeviceError as error:
        assert error.code == 700
    goes_on()
    goes_on(1)
    """
    output(tmp_path, code)


KERNELS = """
@cuda.jit(device=True)
def inner(a, i):
    return a[i] * 2

@cuda.jit
def reads(a, n):
    a[0] = a[cuda.grid(1) + n]

@cuda.jit
def before(a, n):
    a[cuda.grid(1) - n] = 1

@cuda.jit
def in_a_function(a, n):
    a[0] = inner(a, n)

@cuda.jit
def in_shared(a, n):
    room = cuda.shared.array(64, np.float64)
    room[cuda.threadIdx.x] = a[cuda.threadIdx.x]
    cuda.syncthreads()
    a[0] = room[n + cuda.threadIdx.x]

@cuda.jit
def in_local(a, n):
    room = cuda.local.array(16, np.float64)
    for i in range(16):
        room[i] = a[i]
    room[n] = 2
    a[0] = room[3]

@cuda.jit
def behind_a_barrier(a, n):
    room = cuda.shared.array(64, np.float64)
    t = cuda.threadIdx.x
    room[t] = t
    cuda.syncthreads()
    if t == 17:
        a[n] = room[63 - t]
    cuda.syncthreads()
    a[t] = room[t]

@cuda.jit
def fills(a, n):
    for i in range(5000):
        a[n + i] = 0

@cuda.jit
def adds(a, n):
    cuda.atomic.add(a, n, 1)

@cuda.jit
def votes(a, n):
    t = cuda.threadIdx.x
    if cuda.ballot_sync(0xFFFFFFFF, t > 3) != 0:
        a[n + t] = cuda.shfl_down_sync(0xFFFFFFFF, t, 1)

for kernel in (
    reads, before, in_a_function, in_shared, in_local, behind_a_barrier, fills, adds, votes
):
    for blocks in (1, 70):
        for stream in (0, cuda.stream()):
            told = error_of(lambda: kernel[blocks, 64, stream](a, FAR))
            assert told.startswith(f"kernel {kernel.__name__}: "), told
    goes_on()
"""


@pytest.mark.parametrize("way", ["auto", "scalar", "coroutines"])
def test_any_kernel_that_reads_or_writes_far_away_fails_alone(tmp_path, way):
    output(tmp_path, KERNELS, HAULAGE_CPU_THREADS=way)


@pytest.mark.parametrize("way", ["auto", "coroutines"])
def test_a_cooperative_grid_of_which_a_block_fails_ends(tmp_path, way):
    code = """
    @cuda.jit
    def phases(a, out, when, n):
        grid = cuda.cg.this_grid()
        i = cuda.grid(1)
        for turn in range(4):
            if turn == when and cuda.blockIdx.x == 3:
                out[n + i] = 1
            out[i] = a[i] + turn
            grid.sync()

    a = cuda.to_device(np.ones(256))
    for blocks in (1, 8):
        for when in range(4) if blocks == 8 else ():
            told = error_of(lambda: phases[blocks, 32](a, cuda.device_array(256), when, FAR))
            assert "kernel phases: " in told
        out = cuda.to_device(np.zeros(256))
        phases[blocks, 32](a, out, 9, FAR)
        assert out.copy_to_host().sum() == blocks * 32 * 4
    """
    output(tmp_path, code, HAULAGE_CPU_THREADS=way)


def test_streams_graphs_ufuncs_and_threads_that_fail_and_others_beside_them(tmp_path):
    code = """
    import threading
    @cuda.jit
    def long(a):
        i = cuda.grid(1)
        for _ in range(20000):
            a[i] += 1

    first, second = cuda.stream(), cuda.stream()
    b = cuda.to_device(np.zeros(64))
    cuda.synchronize()
    long[2, 32, first](b)
    far[70, 32, second](a, FAR)
    try:
        second.synchronize()
    except IllegalAddress as error:
        assert "kernel far" in str(error)
    else:
        raise AssertionError("nothing was raised")
    first.synchronize()
    assert (b.copy_to_host() == 20000).all()

    for launches in (1, 3):
        stream = cuda.stream()
        c = cuda.to_device(np.zeros(64))
        cuda.synchronize()
        with cuda.graph(stream) as graph:
            for _ in range(launches):
                near[2, 32, stream](c)
                far[2, 32, stream](a, FAR)
            near[2, 32, stream](c)
        for _ in range(2):
            assert "kernel far" in error_of(graph.launch)
        assert (c.copy_to_host() == 2 * (launches + 1)).all()

    from haulage.cuda import guvectorize

    @guvectorize(["void(float64[:], int64[:], float64[:])"], "(n),(m)->(n)")
    def pick(x, where, out):
        for i in range(x.size):
            out[i] = x[where[i]]

    assert "pick" in error_of(lambda: pick(np.ones(4), np.full(4, FAR)))
    assert pick(np.arange(4.0), np.arange(4)).tolist() == [0, 1, 2, 3]

    told = []
    def many():
        stream = cuda.stream()
        for _ in range(20):
            far[5, 32, stream](a, FAR)
            try:
                stream.synchronize()
            except IllegalAddress as error:
                told.append(str(error))
    threads = [threading.Thread(target=many) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(told) == 80 and all("kernel far" in each for each in told)
    goes_on()
    """
    output(tmp_path, code)


def test_what_the_blocks_had_allocated_is_freed(tmp_path):
    code = """
    import resource

    @cuda.jit
    def wide(a, n):
        room = cuda.local.array(4096, np.float64)
        for i in range(4096):
            room[i] = i + a[0]
        if a[0] == 0:
            a[n + int(room[5])] = 1
        a[1] = room[int(a[0])]

    for _ in range(10):
        error_of(lambda: wide[1, 64](a, FAR))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(300):
        error_of(lambda: wide[1, 64](a, FAR))
    # Each launch has 2 MiB of local arrays.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10
    """
    output(tmp_path, code)
    output(tmp_path, code, HAULAGE_CPU_THREADS="coroutines")


RECURSIONS = """
import threading

@cuda.jit(device=True)
def down(n, a):
    if n == 0:
        return 0
    a[0] += 1
    return down(n - 1, a) * 3 + 1

@cuda.jit(device=True)
def even(n, a):
    if n == 0:
        return 1
    return odd(n - 1, a) * 3 + a[0]

@cuda.jit(device=True)
def odd(n, a):
    if n == 0:
        return 0
    return even(n - 1, a) * 5 + a[0]

@cuda.jit(device=True)
def telling(n, a):
    if n == 0:
        return 0
    print(n)
    return telling(n - 1, a) * 3 + 1

@cuda.jit
def simple(n, a):
    a[1] = down(n, a)

@cuda.jit
def mutual(n, a):
    a[1] = even(n, a)

@cuda.jit
def printing(n, a):
    a[1] = telling(n, a)

def ways(kernel, depth):
    def in_thread(blocks):
        thread = threading.Thread(target=lambda: kernel[blocks, 1](depth, a))
        thread.start()
        thread.join()
    return (
        lambda: kernel[1, 1](depth, a),
        lambda: kernel[100, 1](depth, a),
        lambda: kernel[1, 1, cuda.stream()](depth, a),
        lambda: in_thread(1),
        lambda: in_thread(100),
    )

a = cuda.to_device(np.zeros(2, np.int64))
for kernel in (simple, mutual, printing):
    for way in ways(kernel, 10**9):
        told = error_of(way, RecursionError)
        assert told.startswith(f"kernel {kernel.__name__}: a thread of "), told
        assert "used up its stack of " in told and "recursion" in told
    goes_on()
expected = 0
for _ in range(200000):
    expected = (expected * 3 + 1) % 2**64
for way in ways(simple, 200000):
    a = cuda.to_device(np.zeros(2, np.int64))
    way()
    cuda.synchronize()
    assert int(a.copy_to_host()[1]) % 2**64 == expected
"""


def test_a_recursion_without_an_end_is_an_error_and_200_000_calls_are_right(tmp_path):
    done = run(tmp_path, RECURSIONS)
    assert (done.returncode, done.stderr) == (0, ""), done


def test_frames_wider_than_a_page_do_not_step_into_the_stack_of_another_thread(tmp_path):
    code = """
    @cuda.jit(device=True)
    def wide(n, a):
        room = cuda.local.array(3000, np.float64)
        for i in range(3000):
            if a[0] == i:
                room[i] = n
        if n == 0:
            return room[int(a[0])]
        return wide(n - 1, a) * 3 + room[int(a[0])]

    @cuda.jit
    def kernel(n, a):
        a[1] = wide(n, a)

    streams = [cuda.stream() for _ in range(4)]
    for _ in range(6):
        for stream in streams:
            kernel[1, 1, stream](10**6, a)
        for stream in streams:
            try:
                stream.synchronize()
            except RecursionError as error:
                assert "kernel kernel" in str(error)
            else:
                raise AssertionError("nothing was raised")
    """
    output(tmp_path, code)


HANDLERS = """
import faulthandler
told = error_of(lambda: far[70, 32](a, FAR))
assert "kernel far" in told
"""
REAL = """
import ctypes
ctypes.string_at(0)
"""


def test_faulthandler_enabled_before_does_not_hear_of_kernels_but_of_all_else(tmp_path):
    done = run(tmp_path, HANDLERS + "print(faulthandler.is_enabled())\n", "-X", "faulthandler")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "True\n")
    done = run(tmp_path, HANDLERS + REAL, "-X", "faulthandler")
    assert done.returncode == -signal.SIGSEGV
    assert done.stderr.count("Fatal Python error: Segmentation fault") == 1
    assert "string_at" in done.stderr


def test_under_pytest_kernels_that_fail_fail_their_tests_and_no_more(tmp_path):
    code = """
    import pytest

    def test_good():
        goes_on()

    def test_bad():
        far[70, 32](a, FAR)
        cuda.synchronize()

    def test_expected():
        with pytest.raises(IllegalAddress, match="kernel far"):
            far[70, 32](a, FAR)
            cuda.synchronize()
        goes_on()
    """
    done = run(tmp_path, code, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist")
    assert done.returncode == 1, done
    assert "1 failed, 2 passed" in done.stdout
    assert "IllegalAddress: kernel far" in done.stdout
    assert "Fatal Python error" not in done.stdout + done.stderr


ENABLED_LATER = """
import sys
faulthandler.enable()

@cuda.jit
def another(a, n):
    a[n] = 1

assert "kernel another" in error_of(lambda: another[1, 1](a, FAR))
assert "kernel far" in error_of(lambda: far[70, 1](a, FAR))
"""


@pytest.mark.parametrize("later", ["", ENABLED_LATER, ENABLED_LATER + "faulthandler.disable()\n"])
def test_what_fails_outside_of_kernels_ends_the_process_as_ever(tmp_path, later):
    assert output(tmp_path, HANDLERS + later) == ""
    done = run(tmp_path, HANDLERS + later + REAL)
    assert done.returncode == -signal.SIGSEGV
    is_enabled = bool(later) and "disable" not in later
    assert done.stderr.count("Fatal Python error: Segmentation fault") == is_enabled
    done = run(tmp_path, HANDLERS + later + "import os\nos.kill(os.getpid(), 11)\n")
    assert done.returncode == -signal.SIGSEGV
    assert done.stderr.count("Fatal Python error: Segmentation fault") == is_enabled


def test_faulthandler_enabled_between_two_launches_reports_and_the_process_goes_on(tmp_path):
    code = """
    faulthandler.enable()
    assert "kernel far" in error_of(lambda: far[70, 32](a, FAR))
    goes_on()
    assert "kernel far" in error_of(lambda: far[70, 32](a, FAR))
    print("went on")
    """
    done = run(tmp_path, HANDLERS + textwrap.dedent(code))
    assert (done.returncode, done.stdout) == (0, "went on\n"), done


def test_a_handler_of_a_program_in_c_has_its_turn(tmp_path):
    code = """
    import ctypes, os, signal, sys
    import faulthandler
    heard = []
    signal.signal(signal.SIGSEGV, lambda *_: heard.append(1))
    error_of(lambda: far[70, 32](a, FAR))
    assert not heard
    os.kill(os.getpid(), signal.SIGSEGV)
    assert heard == [1]
    signal.signal(signal.SIGBUS, signal.SIG_IGN)
    os.kill(os.getpid(), signal.SIGBUS)
    """
    output(tmp_path, code)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_so_it_is_in_a_child_and_in_threads_of_its_own(tmp_path):
    code = """
    import os, threading, warnings
    warnings.simplefilter("ignore")
    error_of(lambda: far[70, 32](a, FAR))
    child = os.fork()
    if child == 0:
        error_of(lambda: far[1, 32](a, FAR))
        error_of(lambda: far[70, 32](a, FAR))
        goes_on()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    for _ in range(100):
        thread = threading.Thread(target=lambda: far[1, 32](a, FAR))
        thread.start()
        thread.join()
        error_of(lambda: None)
    """
    output(tmp_path, code)


def test_a_file_that_became_shorter_is_named_as_such(tmp_path):
    code = f"""
    file = open({str(tmp_path / "data")!r}, "w+b")
    file.truncate(1 << 20)
    data = np.memmap(file, np.float64, "r+")
    lent = cuda.from_dlpack(data)
    file.truncate(0)
    told = error_of(lambda: near[4, 32](lent))
    assert "kernel near" in told and "a file that is too short" in told, told
    """
    output(tmp_path, code)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it spoils what glibc notes")
def test_an_allocator_that_fails_in_a_kernel_ends_the_process_and_names_it(tmp_path):
    code = """
    @cuda.jit
    def spoils(a):
        room = cuda.local.array(10000, np.int64)
        for i in range(10000):
            room[i] = i + a[0]
        # How large the piece is, in front of it: what comes behind it is then out of memory.
        room[a[2]] += 1 << 44
        a[1] = room[a[3]]

    a = cuda.to_device(np.array([0, 0, -10001, 5], np.int64))
    cuda.synchronize()
    # In a thread whose pieces are not those that the system's break has.
    stream = cuda.stream()
    spoils[1, 1, stream](a)
    stream.synchronize()
    """
    done = run(tmp_path, code)
    # Which one it is depends on what lies where the allocator looks.
    assert done.returncode in (-signal.SIGSEGV, -signal.SIGBUS), done
    assert "haulage: kernel spoils: " in done.stderr
    assert "debug=True" in done.stderr
