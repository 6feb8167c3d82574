"""Tests of devices on the AMD back end, whose runtime is a stand-in: see `doubles.libamdhip64`.

    pytest --amd-double tests/device/.../test_....py

runs any of them so; these are the ones that say most about the back end.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from doubles import libamdhip64
from nodevice.doubles.test_libcuda import MEMORY
from support.nvidia_children import needs_compiler

pytestmark = needs_compiler

DEVICE_TESTS = Path(__file__).parents[2] / "device"

# Group: files, which of their tests, where memory comes from, ROCm, how many tests run at least.
# Each is a process that begins anew: few groups take less time.
GROUPS = {
    "ROCm 7": (
        [
            "backends/test_conformance",
            *MEMORY,
            *("runtime/test_context", "runtime/devices/test_device_figures"),
            *("runtime/arrays/test_copying", "runtime/exchange/test_ipc"),
        ],
        *("amd and not cpu", "pool", 7, 254),
    ),
    "ROCm 5": (
        [
            *("backends/test_conformance", "runtime/devices/test_stream_arguments"),
            *("runtime/devices/test_stream_callbacks", "runtime/devices/test_graph"),
            "runtime/protocols/test_cuda_array_interface",
        ],
        *("amd and not cpu", "pool", 5, 124),
    ),
    "sharing by the runtime's handles": (
        ["runtime/exchange/test_ipc"],
        "amd and (arrays_of_any_form or opens_as_an_array or is_open_once or staged_opening)",
        *("driver", 7, 4),
    ),
}


@pytest.mark.parametrize("group", GROUPS)
def test_devices_on_the_double(group):
    names, which, memory, rocm, least = GROUPS[group]
    files = [str(DEVICE_TESTS / f"{name}.py") for name in names]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--amd-double"]
    done = subprocess.run(
        [*command, "-k", which, *files],
        env={**os.environ, "HAULAGE_MEMORY": memory, "HAULAGE_TESTS_ROCM": str(rocm)},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed, done.stdout[-500:]
    assert int(passed[1]) >= least


def test_copies_and_allocations_go_by_the_one_that_does_next_to_nothing():
    program = """
import numpy as np
from haulage import cuda

x = np.arange(1000, dtype=np.float32)
for new in (cuda.device_array, cuda.pinned_array, cuda.mapped_array, cuda.managed_array):
    a = new(1000, np.float32)
    cuda.to_device(x, to=a) if new is cuda.device_array else a.__setitem__(slice(None), x)
    there = cuda.to_device(a)
    assert np.array_equal(there.copy_to_host(), x), new
    del a
print(cuda.get_current_device())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(libamdhip64.IDLE)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == "amd:0\n"
