"""Tests of devices on the NVIDIA back end, whose driver is a stand-in: see `doubles.libcuda`.

    pytest --nvidia-double tests/device/.../test_....py

runs any of them so; these are the ones that say most about the back end.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.nvidia_children import needs_compiler

pytestmark = needs_compiler

DEVICE_TESTS = Path(__file__).parents[2] / "device"

# Handles of the driver's own say nothing of memory that is gone, and do not keep it.
FREED = "freed or process_that_has_ended"

# What becomes of memory, of whichever kind.
MEMORY = [
    *(f"runtime/memory/test_{name}" for name in ("block", "limits", "reports", "statistics")),
    "runtime/buffers/test_pinned_memory",
    *("runtime/buffers/test_staging", "runtime/buffers/test_span"),
]

# Group: files, what is left out, where memory comes from.
GROUPS = {
    "conformance": (["backends/test_conformance"], "cpu", "pool"),
    "memory": (MEMORY, "cpu", "pool"),
    "callbacks": (["runtime/devices/test_stream_callbacks"], "cpu", "pool"),
    "arrays": (
        [
            "runtime/protocols/test_cuda_array_interface",
            "runtime/protocols/test_dlpack",
            "runtime/test_context",
        ],
        "cpu",
        "pool",
    ),
    "streams and graphs": (
        ["runtime/devices/test_stream_arguments", "runtime/devices/test_graph"],
        "cpu",
        "pool",
    ),
    "launches": (["lang/test_print", "runtime/launch/test_repeated_launches"], "cpu", "pool"),
    "first launches": (
        ["compiler/simt/test_kernel_programs"],
        "not several_threads_at_once",
        "pool",
    ),
    "sharing": (["runtime/exchange/test_ipc"], "cpu", "pool"),
    "sharing by the driver's handles": (["runtime/exchange/test_ipc"], FREED, "driver"),
}


@pytest.mark.parametrize("group", GROUPS)
def test_devices_on_the_double(group):
    names, left_out, memory = GROUPS[group]
    files = [str(DEVICE_TESTS / f"{name}.py") for name in names]
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
