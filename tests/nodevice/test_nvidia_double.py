"""Tests of devices on the NVIDIA back end, whose driver is a stand-in: see `doubles.libcuda`.

    pytest --nvidia-double tests/device/test_....py

runs any of them so; these are the ones that say most about the back end.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from nvidia_children import needs_compiler

pytestmark = needs_compiler

DEVICE_TESTS = Path(__file__).parent.parent / "device"

# Handles of the driver's own say nothing of memory that is gone, and do not keep it.
FREED = "freed or process_that_has_ended"

# Group: files, what is left out, where memory comes from.
GROUPS = {
    "conformance": (["backend_conformance"], "cpu", "pool"),
    "memory": (["memory", "device_memory", "pinned_memory", "staged_copies"], "cpu", "pool"),
    "callbacks": (["stream_callbacks"], "cpu", "pool"),
    "arrays": (["cuda_array_interface", "dlpack", "contexts"], "cpu", "pool"),
    "streams and graphs": (["stream_kinds", "graphs"], "cpu", "pool"),
    "launches": (["print", "repeated_launches"], "cpu", "pool"),
    "first launches": (["kernel_programs"], "not several_threads_at_once", "pool"),
    "sharing": (["ipc"], "cpu", "pool"),
    "sharing by the driver's handles": (["ipc"], FREED, "driver"),
}


@pytest.mark.parametrize("group", GROUPS)
def test_devices_on_the_double(group):
    names, left_out, memory = GROUPS[group]
    files = [str(DEVICE_TESTS / f"test_{name}.py") for name in names]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nvidia-double"]
    done = subprocess.run(
        [*command, "-k", f"nvidia and not ({left_out})", *files],
        env={**os.environ, "HAULAGE_MEMORY": memory},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
