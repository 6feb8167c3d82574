"""Forks while another thread is busy: the child has whole modules, and no lock is left held."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

KERNEL = """
    import numpy as np
    from haulage import cuda

    @cuda.jit
    def double(x):
        x[cuda.grid(1)] *= 2

    array = cuda.to_device(np.arange(32.0))
    double[1, 32](array)
    assert array.copy_to_host()[31] == 62
"""

# The import of one module waits until the process has forked, or for a while if that waits for it.
SCRIPT = """
import os, signal, sys, threading, warnings

{before}

warnings.simplefilter("ignore", DeprecationWarning)  # fork of a process with threads
begun, forked = threading.Event(), threading.Event()

def imported(event, arguments):
    if event == "import" and arguments[0] == {at!r} and threading.current_thread() is thread:
        begun.set()
        forked.wait(0.3)

def kernel():
{kernel}

def work():
    {work}

thread = threading.Thread(target=work)
sys.addaudithook(imported)
thread.start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)
    code = 1
    try:
        work()
        kernel()
        code = 0
    finally:
        os._exit(code)
forked.set()
thread.join()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
kernel()
"""


@pytest.mark.parametrize(
    ("before", "at", "work"),
    [
        ("from haulage import cuda", "llvmlite.binding.ffi", "import llvmlite.binding"),
        # It imports `logging`, whose hooks for forks come in the midst of one.
        ("from haulage import cuda", "numba.core.config", "import numba"),
        # From here on `logging` is used, and its lock is taken before a fork.
        ("from haulage import cuda", "numba.core.types.iterators", "import numba"),
        ("from haulage import cuda", "numba.core.typing.templates", "kernel()"),
        ("", "haulage.api", "from haulage import cuda"),
        ("", "haulage.runtime.devices.registry", "kernel()"),
    ],
)
def test_a_fork_waits_for_what_another_thread_imports(before, at, work):
    script = SCRIPT.format(before=before, at=at, work=work, kernel=KERNEL)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_fork_in_the_midst_of_an_import_of_its_own_does_not_wait(tmp_path):
    """A package that forks where it is imported, as one that starts workers then."""
    (tmp_path / "numba_forking.py").write_text("import os\nchild = os.fork()\n")
    script = """
import os, sys
from haulage import forks
forks._PACKAGES += ("numba_forking",)
import numba_forking
if numba_forking.child == 0:
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(numba_forking.child, 0)[1]))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "7", "")
