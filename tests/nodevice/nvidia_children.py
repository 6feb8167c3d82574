"""Programs run in processes of their own, where NVIDIA's driver is `doubles.libcuda`."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from doubles import libcuda

TESTS = Path(__file__).parent.parent

needs_compiler = pytest.mark.skipif(
    libcuda.compiler() is None, reason="there is no C compiler to build the stand-in driver with"
)

_START = """
import sys
from doubles.libcuda import Double
double = Double({options})
"""


def run(program: str, options: str = "", *, status: int = 0, **environment: str) -> str:
    """What a program prints, errors too; `options` are those of `Double`."""
    text = _START.format(options=options) + textwrap.dedent(program)
    python_path = os.pathsep.join([str(TESTS), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", text],
        env={**os.environ, "PYTHONPATH": python_path, **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == status, f"status {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr
