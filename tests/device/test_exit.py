"""The end of the interpreter with arrays, streams and events still there: quiet, status 0."""

import os
import subprocess
import sys

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
