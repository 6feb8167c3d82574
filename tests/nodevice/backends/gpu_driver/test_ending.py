"""The end of a program on an NVIDIA device; the driver is `doubles.libcuda`."""

import re
import signal

from support.nvidia_children import needs_compiler, run, running

pytestmark = needs_compiler

START = """
import threading
import time
import numpy as np
from doubles.libcuda.reading import Reading
from haulage import cuda
from haulage.backends.gpu_driver import ending

double.interpret(Reading())
ending._SILENT = 0.2

@cuda.jit
def shift(x):
    x[cuda.grid(1)] += 1

go_on, first, second = threading.Event(), cuda.stream(), cuda.stream()
x = cuda.to_device(np.ones(4))
shift[1, 4](x)

def never(*_):
    go_on.wait(60)
"""


def test_a_callback_that_does_not_return_is_named_and_ctrl_c_ends_the_wait():
    program = """
mark = cuda.event()
first.add_callback(never)
mark.record(first)
mark.wait(second)
shift[1, 4, second](x)
print("over", flush=True)
"""
    with running(START + program) as waiting:
        assert waiting.stdout.readline() == "over\n"
        said = waiting.stderr.readline()
        assert waiting.poll() is None
        waiting.send_signal(signal.SIGINT)
        waiting.communicate(timeout=60)
    assert said.startswith(
        "haulage: the program has ended, and waits for what runs on an NVIDIA device"
    )
    assert re.search("the callback never in stream 0x[0-9a-f]+; kernel shift in stream 0x", said)


def test_callbacks_that_return_late_are_waited_for_with_a_word():
    program = """
def late(*_):
    time.sleep(1)
    print("called")

first.add_callback(late)
"""
    said = run(START + program, HAULAGE_DEVICE="nvidia").splitlines()
    assert said[0] == "called"
    assert "the callback late in stream 0x" in said[1]
    assert len(said) == 2


def test_nothing_is_said_of_a_short_wait():
    assert run(START + "first.add_callback(lambda *_: print('called'))") == "called\n"
