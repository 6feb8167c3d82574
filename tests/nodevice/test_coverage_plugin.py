"""coverage.py with the plug-in: kernels count as executed where threads were."""

import json
import subprocess
import sys

import pytest

from support.commands import written

# Otherwise Haulage's own files are measured as well where they are not installed, which takes long.
HERE = "source = .\n"
KERNELS = """
import os
import sys

import numpy as np

import haulage
from haulage import cuda

haulage.use("cpu")


@cuda.jit(device=True)
def sign(value):
    if value < 0:
        return -1
    return (
        0
        if value == 0
        else 1
    )


@cuda.jit
def signs(x, y):
    i = cuda.grid(1)
    if i >= x.size:
        return
    for k in range(2):
        y[i] = sign(x[i])


@cuda.jit
def never(x):
    x[0] = 1


def launch(first):
    x = np.arange(first, first + 4)
    signs[1, 4](x, x)
    return x


if __name__ == "__main__":
    print(launch(0).tolist())
    if sys.argv[1:] == ["fork"]:
        child = os.fork()
        if not child:
            launch(-9)
            sys.exit()
        os.waitpid(child, 0)
"""
SIGN = KERNELS.split("\n").index("def sign(value):") + 1
SIGNS = KERNELS.split("\n").index("def signs(x, y):") + 1
NEVER = KERNELS.split("\n").index("def never(x):") + 1


def coverage(*words, cwd):
    """`coverage WORDS`, which has to work."""
    return subprocess.run(
        [sys.executable, "-m", "coverage", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
        cwd=cwd,
    ).stdout


def settings(folder, more=""):
    (folder / ".coveragerc").write_text(f"[run]\nplugins = haulage.coverage_plugin\n{more}")


def report(folder):
    """What coverage.py's JSON report says of the kernels' file."""
    coverage("json", "-q", "-o", "out.json", cwd=folder)
    return json.loads((folder / "out.json").read_text())["files"]["kernels.py"]


def test_reports_have_the_lines_and_branches_of_threads(tmp_path):
    written(tmp_path / "kernels.py", KERNELS)
    settings(tmp_path, f"{HERE}branch = True\n")
    assert coverage("run", "kernels.py", cwd=tmp_path) == "[0, 1, 1, 1]\n"
    told = report(tmp_path)
    assert {SIGN + 2, SIGNS + 3, NEVER + 1} <= set(told["missing_lines"])
    assert {SIGN + 1, SIGN + 3, SIGNS + 1, SIGNS + 2, SIGNS + 4} <= set(told["executed_lines"])
    assert [SIGN + 1, SIGN + 2] in told["missing_branches"]
    assert [SIGNS + 2, SIGNS + 3] in told["missing_branches"]
    assert [SIGNS + 4, SIGNS + 5] in told["executed_branches"]
    assert [SIGNS + 4, -(SIGNS - 1)] in told["executed_branches"]


def test_lines_of_forked_processes_and_parallel_files_are_combined(tmp_path):
    written(tmp_path / "kernels.py", KERNELS)
    settings(tmp_path, f"{HERE}parallel = True\npatch = fork\n")
    coverage("run", "kernels.py", "fork", cwd=tmp_path)
    coverage("combine", "-q", cwd=tmp_path)
    told = report(tmp_path)
    assert {SIGNS + 3, NEVER + 1} <= set(told["missing_lines"])
    assert {SIGN + 1, SIGN + 2, SIGNS + 2, SIGNS + 4} <= set(told["executed_lines"])
    assert "missing_branches" not in told


def test_contexts_have_what_was_launched_in_them(tmp_path):
    written(tmp_path / "kernels.py", KERNELS)
    settings(tmp_path)
    program = """
        import coverage
        before = coverage.Coverage()
        before.start()
        import kernels
        before.stop()
        kernels.launch(-9)

        measured = coverage.Coverage(data_file=None)
        measured.start()
        for name, first in (("positive", 1), ("negative", -9)):
            measured.switch_context(name)
            kernels.launch(first)
        measured.switch_context("none")
        assert kernels.cuda.is_available()
        measured.stop()
        kernels.launch(0)
        data = measured.get_data()
        (file,) = [name for name in data.measured_files() if name.endswith("kernels.py")]
        lines = data.contexts_by_lineno(file)
        print(sorted(lines[%d]), sorted(lines[%d]), sorted(lines[%d]))
        assert not any(line == %d for line in before.get_data().lines(file))
    """
    numbers = (SIGN + 1, SIGN + 2, SIGN + 3, SIGN + 2)
    file = written(tmp_path / "measure.py", program % numbers)
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, timeout=200, cwd=tmp_path
    )
    assert done.stderr == ""
    assert done.stdout == "['negative', 'positive'] ['negative'] ['positive']\n"


def test_options_of_the_plug_in_are_refused(tmp_path):
    written(tmp_path / "kernels.py", KERNELS)
    settings(tmp_path, "[haulage.coverage_plugin]\nfast = yes\n")
    with pytest.raises(subprocess.CalledProcessError) as failed:
        coverage("run", "kernels.py", cwd=tmp_path)
    assert "[haulage.coverage_plugin]: fast: this plug-in has no options" in failed.value.stderr
