"""Numba's own tests by the runners that its users know."""

import os
import subprocess
import sys
from importlib.metadata import entry_points

MODULE = "numba.cuda.tests.cudapy.test_lang"


def run(*command):
    done = subprocess.run(
        [sys.executable, "-m", *command],
        env={**os.environ, "HAULAGE_DEVICE": "cpu"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_numbas_own_runner_runs_them():
    assert "Ran 3 tests" in run("haulage", "run", "-m", "numba.runtests", MODULE)


def test_pytest_runs_them():
    command = ("pytest", "-p", "no:cacheprovider", "--haulage", "--pyargs", MODULE)
    assert "3 passed" in run(*command, *plugin())


def plugin():
    """Options that name the plug-in, where no installed package does."""
    known = {entry.value for entry in entry_points(group="pytest11")}
    return () if "haulage.pytest_plugin" in known else ("-p", "haulage.pytest_plugin")
