"""Tests of devices on the AMD back end, whose runtime is a stand-in: see `doubles.libamdhip64`.

    pytest --amd-double tests/device/test_....py

runs any of them so; these are the ones that say most about the back end.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from nvidia_children import needs_compiler

pytestmark = needs_compiler

DEVICE_TESTS = Path(__file__).parent.parent / "device"

# Handles of the driver's own say nothing of memory that is gone, and do not keep it.
FREED = "freed or process_that_has_ended"

# Group: files, what is left out, where memory comes from, ROCm, how many tests run at least.
GROUPS = {
    "conformance": (["backend_conformance"], "cpu", "pool", 7, 44),
    "conformance, ROCm 5": (["backend_conformance"], "cpu", "pool", 5, 44),
    "memory": (
        ["memory", "device_memory", "pinned_memory", "staged_copies", "contexts", "device_figures"],
        *("cpu", "pool", 7, 75),
    ),
    "copies": (["copies"], "cpu", "pool", 7, 115),
    "streams and arrays": (
        ["stream_kinds", "stream_callbacks", "graphs", "cuda_array_interface"],
        *("cpu", "pool", 5, 80),
    ),
    "sharing": (["ipc"], "cpu", "pool", 7, 20),
    "sharing by the runtime's handles": (["ipc"], FREED, "driver", 7, 5),
}


@pytest.mark.parametrize("group", GROUPS)
def test_devices_on_the_double(group):
    names, left_out, memory, rocm, least = GROUPS[group]
    files = [str(DEVICE_TESTS / f"test_{name}.py") for name in names]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--amd-double"]
    done = subprocess.run(
        [*command, "-k", f"amd and not ({left_out})", *files],
        env={**os.environ, "HAULAGE_MEMORY": memory, "HAULAGE_TESTS_ROCM": str(rocm)},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed, done.stdout[-500:]
    assert int(passed[1]) >= least
