"""What Haulage does while another library captures leaves the capture whole."""

import textwrap

import pytest

from support.nvidia_children import needs_compiler, run

pytestmark = needs_compiler

START = """
from doubles.libcuda.reading import Reading
double.interpret(Reading())
import threading
import numpy as np
import haulage
from cuda.bindings import driver
from haulage import cuda
from haulage.backends.base import NON_BLOCKING

haulage.use("nvidia")
device = cuda.get_current_device()

@cuda.jit
def add(x, n):
    x[cuda.grid(1)] += n

def their_stream(flags=NON_BLOCKING):
    device.activate()
    return driver.cuStreamCreateWithPriority(flags, 0)[1]

def begin(stream, mode):
    mode = driver.CUstreamCaptureMode(mode)
    assert not driver.cuStreamBeginCapture(stream, mode)[0]

def count(stream):
    status, graph = driver.cuStreamEndCapture(stream)
    assert not status, status
    return driver.cuGraphGetNodes(graph, 0)[2]

def in_a_thread(call):
    failed = []
    def caught():
        try:
            call()
        except BaseException as error:
            failed.append(error)
    thread = threading.Thread(target=caught)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]

GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2
"""

MODES = pytest.mark.parametrize("mode", ["GLOBAL", "THREAD_LOCAL", "RELAXED"])


@MODES
def test_the_first_launch_of_a_kernel_in_a_captured_stream_is_captured(mode):
    program = f"""
    theirs, x = their_stream(), cuda.to_device(np.zeros(4))
    cuda.synchronize()
    begin(theirs, {mode})
    add[1, 4, theirs](x, 1)
    add[1, 4, theirs](x, 2.0)
    assert count(theirs) == 2
    assert x.copy_to_host().tolist() == [0, 0, 0, 0]
    """
    run(START + textwrap.dedent(program))


def test_so_is_that_of_a_kernel_that_deepens_the_stacks():
    program = """
    @cuda.jit(device=True)
    def factorial(n):
        return 1 if n < 2 else n * factorial(n - 1)

    @cuda.jit
    def factorials(x):
        x[cuda.grid(1)] = factorial(cuda.grid(1))

    theirs, x = their_stream(), cuda.to_device(np.zeros(4))
    cuda.synchronize()
    begin(theirs, GLOBAL)
    factorials[1, 4, theirs](x)
    assert count(theirs) == 1
    """
    run(START + textwrap.dedent(program))


@pytest.mark.parametrize("memory", ["pool", "driver"])
def test_other_work_of_any_thread_goes_on_meanwhile(memory):
    program = """
    def work():
        for kind in (cuda.device_array, cuda.pinned_array, cuda.mapped_array, cuda.managed_array):
            kept = kind(1000, np.float32)
            del kept
        x, stream, event = cuda.to_device(np.zeros(4)), cuda.stream(), cuda.event()
        x.copy_to_device(np.arange(4.0), stream=stream)
        add[1, 4, stream](x, 1)
        x[::2].copy_to_host(stream=stream)
        event.record(stream)
        event.wait(stream)
        event.synchronize()
        assert event.query()
        stream.synchronize()
        assert stream.query()
        assert x.copy_to_host().tolist() == [1, 2, 3, 4]
        with cuda.graph() as g:
            add[1, 4](x, 1)
        g.launch()
        cuda.default_stream().synchronize()
        del g, x, stream, event
        haulage.memory.trim()

    theirs = their_stream()
    mine = their_stream()
    begin(theirs, GLOBAL)
    in_a_thread(work)
    begin(mine, GLOBAL)
    work()
    assert not count(mine)
    assert not count(theirs)
    # The thread is as strict as it was.
    begin(theirs, GLOBAL)
    assert driver.cuMemAlloc(8)[0] == 900
    assert driver.cuStreamEndCapture(theirs)[0] == 901
    """
    run(START + textwrap.dedent(program), HAULAGE_MEMORY=memory)


def test_the_state_of_a_captured_stream_is_not_asked_for():
    program = """
    theirs = their_stream()
    x = cuda.to_device(np.zeros(4))
    begin(theirs, GLOBAL)
    add[1, 4, theirs](x, 1)
    stream = cuda.external_stream(int(theirs))
    for ask in (stream.query, stream.synchronize):
        try:
            ask()
        except haulage.errors.DeviceError as error:
            assert error.code == 900, error
        else:
            raise AssertionError("a captured stream told of its state")
    del x  # used there: it cannot go back yet
    cuda.to_device(np.zeros(4)).close()
    assert count(theirs) == 1
    haulage.memory.trim()
    """
    run(START + textwrap.dedent(program))


def test_nor_is_that_of_the_default_stream_where_it_waits_for_one():
    program = """
    blocking, x, ours = their_stream(0), cuda.to_device(np.zeros(4)), cuda.stream()
    y = cuda.to_device(np.zeros(4), stream=ours)
    ours.synchronize()
    begin(blocking, THREAD_LOCAL)
    default = cuda.default_stream()
    for ask in (default.query, default.synchronize, cuda.event().record):
        try:
            ask()
        except haulage.errors.DeviceError as error:
            assert error.code == 906, error
        else:
            raise AssertionError("the default stream told of its state")
    del x, y
    cuda.device_array(4)
    assert not count(blocking)
    cuda.synchronize()
    """
    run(START + textwrap.dedent(program))
