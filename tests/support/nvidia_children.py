"""Programs run in processes of their own, where a GPU's driver is a stand-in: NVIDIA's
`doubles.libcuda`, or AMD's `doubles.libamdhip64`."""

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
from doubles.{double} import Double
double = Double({options})
"""


def running(
    program: str, options: str = "", double: str = "libcuda", **environment: str
) -> subprocess.Popen[str]:
    """A process that runs a program; `options` are those of `Double`."""
    text = _START.format(options=options, double=double) + textwrap.dedent(program)
    return subprocess.Popen(
        [sys.executable, "-c", text],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]), **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(
    program: str, options: str = "", *, status: int = 0, double: str = "libcuda", **environment: str
) -> str:
    """What a program prints, errors too; `options` are those of `Double`."""
    with running(program, options, double, **environment) as done:
        try:
            said, errors = done.communicate(timeout=120)
        except BaseException:
            done.kill()
            raise
    assert done.returncode == status, f"status {done.returncode}\n{said}{errors}"
    return said + errors
