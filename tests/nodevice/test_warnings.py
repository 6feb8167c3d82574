"""Warnings stand at the line of the program, not at one of Haulage's."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import haulage

SOURCES = Path(haulage.__file__).parent

KERNEL = """
import numpy as np
from haulage import cuda

held = {{"a": 1}}

@cuda.jit(cache=True)
def kernel(x):
    {body}

try:
    kernel[1, 32](np.zeros(32))  # here
except TypeError:
    pass
"""

# A program, its environment, and what is warned of at the line with "# here".
PROGRAMS = {
    "a cache that cannot be made": (
        KERNEL.format(body="x[cuda.grid(1)] = 1"),
        {"HAULAGE_CACHE_DIR": "/dev/null"},
        "CacheWarning: cannot ",
    ),
    "a kernel that is not kept": (
        KERNEL.format(body="x[0] = held"),
        {},
        "CacheWarning: kernel kernel is not kept",
    ),
    "a cache that others can write to": (
        """
import os
from haulage.disk_cache import store
from haulage import cuda
folder = os.environ["HAULAGE_CACHE_DIR"]
os.chmod(folder, 0o777)

def kernel(x):
    x[cuda.grid(1)] = 1

cuda.jit("void(float64[:])", cache=True)(kernel)  # here
""",
        {},
        "CacheWarning: the cache folder",
    ),
    "an option of numba's": (
        """
from haulage import cuda

@cuda.vectorize(nopython=True)  # here
def add(x, y):
    return x + y
""",
        {},
        "RuntimeWarning: nopython kwarg",
    ),
    "a misspelt setting": (
        """
from haulage import cuda  # here
""",
        {"HAULAGE_DEVISE": "cpu"},
        "RuntimeWarning: HAULAGE_DEVISE is set",
    ),
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_a_warning_is_at_the_line_of_the_program(what, tmp_path):
    text, environment, expected = PROGRAMS[what]
    file = tmp_path / "program.py"
    file.write_text(text)
    (tmp_path / "cache").mkdir()
    done = subprocess.run(
        [sys.executable, str(file)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "HAULAGE_CACHE_DIR": str(tmp_path / "cache"),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = text.splitlines()
    here = next(number for number, line in enumerate(lines, 1) if line.endswith("# here"))
    assert f"{file}:{here}: {expected}" in done.stderr, done.stderr
    assert done.stderr.count("Warning: ") == done.stderr.count(f"{file}:{here}: ")


def test_all_warnings_are_given_by_the_one_function():
    files = [file for file in SOURCES.rglob("*.py") if "warnings.warn" in file.read_text("utf-8")]
    assert [file.name for file in files] == ["errors.py"]
