"""mpi4py: arrays of the CPU device as buffers, in two processes that mpiexec starts."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.neighbours import neighbour

neighbour("mpi4py")

_PROGRAM = Path(__file__).parents[1] / "support" / "mpi_program.py"


# With all work late, as it is in the adversarial mode, what is not waited for is not there.
@pytest.mark.parametrize("late", [{}, {"HAULAGE_ADVERSARY": "1"}], ids=["as it is", "late"])
def test_device_arrays_and_smart_arrays_are_buffers_without_a_copy(late):
    beside = Path(sys.executable).with_name("mpiexec")
    mpiexec = str(beside) if beside.exists() else shutil.which("mpiexec")
    if mpiexec is None:
        pytest.skip("there is no mpiexec: pip install mpich, or an MPI of the system")
    command = [mpiexec, "-n", "2", sys.executable, str(_PROGRAM)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "HAULAGE_NUM_THREADS": "1", "HAULAGE_DEVICE": "cpu", **late},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["done", "done"], done.stdout + done.stderr
