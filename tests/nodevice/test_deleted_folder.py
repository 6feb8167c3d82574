"""Programs whose current folder was deleted, as that of a job that was tidied up."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a current folder cannot be deleted")

PROGRAM = """
import os
import numpy as np
from haulage import cuda

try:
    os.getcwd()
except FileNotFoundError:
    pass
else:
    raise AssertionError("the folder is there")

@cuda.jit(cache=True)
def double(x):
    x[cuda.grid(1)] *= 2

@cuda.jit(debug=True, opt=False, lineinfo=False)
def fails(x):
    if x[0] == 2:
        raise ValueError("two")

@cuda.vectorize
def add(x, y):
    return x + y

@cuda.jit
def wrong(x):
    x.no_such()

array = cuda.to_device(np.ones(32))
double[1, 32](array)
try:
    fails[1, 32](array)
except ValueError as error:
    assert "two" in str(error), error
try:
    wrong[1, 32](array)
except TypeError as error:
    assert "no_such" in str(error), error
    assert "FileNotFound" not in str(error), error
print(add(array, array).copy_to_host().sum())
"""


def run(folder, *words, **environment):
    """Python with these words, from a folder that is gone."""
    gone = folder / "gone"
    gone.mkdir()
    begin = 'cd "$0" && rmdir "$0" && exec "$@"'
    return subprocess.run(
        ["/bin/sh", "-c", begin, str(gone), sys.executable, *words],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if os.path.isabs(path)),
            "HAULAGE_CACHE_DIR": str(folder / "cache"),
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def program(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    return str(file)


def test_a_program_of_a_line(tmp_path):
    done = run(tmp_path, "-c", PROGRAM)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "128.0", "")


def test_a_file_and_its_kernels_are_kept(tmp_path, program):
    for _ in range(2):
        done = run(tmp_path, program)
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "128.0", "")
    assert list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("command", ["run", "trace", "advise"])
def test_a_command(tmp_path, program, command):
    output = ["--output", str(tmp_path / "found")] if command == "trace" else []
    done = run(tmp_path, "-m", "haulage", command, *output, program)
    assert done.returncode == 0, done.stderr
    assert "128.0" in done.stdout
    assert "Traceback" not in done.stderr


def test_what_needs_the_folder_says_so(tmp_path, program):
    done = run(tmp_path, "-m", "haulage", "trace", program)
    assert done.returncode == 2
    assert "name a folder by --output: the current folder is gone" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_cache_below_the_folder_is_told_and_stops_no_kernel(tmp_path, program):
    done = run(tmp_path, program, HAULAGE_CACHE_DIR="below/it")
    assert (done.returncode, done.stdout.strip()) == (0, "128.0")
    assert "CacheWarning: cannot make the cache folder below/it" in done.stderr
