"""Programs whose arrays emitted code makes: each also runs without it."""

import os
import subprocess
import sys
import textwrap

import pytest

from haulage.runtime.native import layouts


@pytest.fixture(params=["native", "python"])
def way(request):
    """How the program makes arrays of the plain case."""
    if request.param == "native":
        try:
            layouts.check()
        except layouts.NotHere as why:
            pytest.skip(f"no emitted code here: {why}")
    return request.param


PROGRAM = """
import gc, os, sys
import numpy as np
import haulage
from haulage import cuda

haulage.use("cpu")
kept = [cuda.device_array((5, 6), np.float32) for _ in range(10)]
for turn in range(100):
    array = cuda.device_array(1000, np.float32)
assert (type(array.block).__name__ == "Block") == (os.environ["HAULAGE_NATIVE"] == "0")
"""
FORKS = """
array[:] = 3
child = os.fork()
if child == 0:
    assert (array.copy_to_host() == 3).all()
    more = [cuda.device_array(1000, np.float32) for _ in range(50)]
    assert array.device_pointer not in [each.device_pointer for each in more]
    del array, more
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


UNSET = ("HAULAGE_NATIVE", "HAULAGE_MEMORY", "HAULAGE_ADVERSARY")


def run(code, way=None):
    set_here = {"HAULAGE_NATIVE": "1" if way == "native" else "0"} if way else {}
    settings = {name: v for name, v in os.environ.items() if name not in UNSET} | set_here
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
def test_a_child_has_its_own_memory(way):
    assert run(PROGRAM + FORKS, way) == ["forked"]


def test_a_process_ends_with_blocks_that_are_alive(way):
    assert sorted(run(PROGRAM + ENDS_WITH_BLOCKS, way)) == ["gone", "late"]


MAKES_MANY = """
import sys
import numpy as np
import haulage
from haulage import cuda
from haulage.runtime import native

haulage.use("cpu")
for _ in range(native.AFTER + 10):
    array = cuda.device_array(100, np.float32)
print(type(array.block).__name__, "llvmlite" in sys.modules)
"""


def test_the_code_is_made_once_a_process_has_asked_for_many():
    layouts.check()
    assert run(MAKES_MANY) == ["PooledBlock", "True"]
