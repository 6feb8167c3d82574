"""The end of the interpreter with arrays, streams and events still there: quiet, status 0."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.ptx

PROGRAM = """
import numpy as np
from haulage import cuda

@cuda.jit
def add_one(x):
    x[cuda.grid(1)] += 1

x = cuda.to_device(np.zeros(256))
stream, event = cuda.stream(), cuda.event()
{more}
add_one[1, 256, stream](x)
event.record(stream)
print("done")
"""


def run(device, more=""):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.format(more=more)],
        env={**os.environ, "HAULAGE_DEVICE": str(device)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_globals_that_live_to_the_end_are_left_alone(device):
    ended = run(device)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")


def test_so_are_those_in_cycles_and_in_modules(device):
    more = "x.__class__.kept = [x]; cycle = [x, stream]; cycle.append(cycle); np.kept = cycle"
    ended = run(device, more)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "done\n", "")


def test_a_failure_that_nobody_waited_for_is_told(device):
    program = """
import time
import numpy as np
from haulage import cuda

@cuda.jit
def fails(x):
    raise ValueError("on purpose")

x, stream, done = cuda.to_device(np.zeros(1)), cuda.stream(), []
fails[1, 1, stream](x)
stream.add_callback(lambda *_: done.append(1))
while not done:
    time.sleep(0.01)
"""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "HAULAGE_DEVICE": str(device)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0
    assert ended.stderr.startswith("haulage: nothing waited for work that failed: KernelError: ")
    assert "fails" in ended.stderr
    assert "on purpose" in ended.stderr
