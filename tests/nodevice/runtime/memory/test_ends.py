"""Processes that fork, or end, with blocks that are alive."""

import os
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import gc, os, sys
import numpy as np
import haulage
from haulage import cuda

haulage.use("cpu")
kept = [cuda.device_array((5, 6), np.float32) for _ in range(10)]
for turn in range(100):
    array = cuda.device_array(1000, np.float32)
large = cuda.device_array(100_000, np.float32)
"""
FORKS = """
array[:] = 3
child = os.fork()
if child == 0:
    assert (array.copy_to_host() == 3).all()
    more = [cuda.device_array(1000, np.float32) for _ in range(50)]
    more += [cuda.device_array(100_000, np.float32) for _ in range(5)]
    addresses = [each.device_pointer for each in more]
    assert array.device_pointer not in addresses
    assert large.device_pointer not in addresses
    del array, large, more
    assert haulage.memory.stats()["cpu:0"]["device"].in_use == 10 * 120
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print("forked")
"""
ENDS_WITH_BLOCKS = """
import atexit, weakref

class Late:
    def __init__(self):
        self.array = cuda.device_array(1000, np.float32)
    def __del__(self):
        self.array = None
        print("late", flush=True)

late = Late()
sys.kept = cuda.device_array(1000, np.float32)
atexit.register(lambda: cuda.device_array(1000, np.float32).close())
atexit.register(cuda.device_array, 1000, np.float32)
weakref.finalize(array, print, "gone")
"""


UNSET = ("HAULAGE_MEMORY", "HAULAGE_ADVERSARY")


def run(code):
    settings = {name: v for name, v in os.environ.items() if name not in UNSET}
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=settings,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout.split()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_child_has_its_own_memory():
    assert run(PROGRAM + FORKS) == ["forked"]


def test_a_process_ends_with_blocks_that_are_alive():
    assert sorted(run(PROGRAM + ENDS_WITH_BLOCKS)) == ["gone", "late"]
