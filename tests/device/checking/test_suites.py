"""Suites of kernels with and without mistakes: findings at the right lines, and nowhere else."""

import os
import subprocess
import sys

import pytest

from support.checked import graphs, races, samples, scopes, verifier
from support.checked.marks import check

WAYS = ("regions", "coroutines")

# What a process prints of each case.
_PROGRAM = """
from support.checked import races, scopes
from support.checked.marks import found_in
for case in [*races.cases(), *scopes.orders()]:
    print(case, sorted(found_in(case)))
"""


@pytest.mark.parametrize("case", races.cases(), ids=str)
def test_what_orders_accesses(case, way):
    check(case)


@pytest.mark.parametrize("case", graphs.cases(), ids=str)
def test_irregular_graph_codes(case):
    check(case)


@pytest.mark.parametrize("case", scopes.orders(), ids=str)
def test_scopes_of_fences_and_locks(case):
    check(case)


@pytest.mark.parametrize("case", scopes.programs(), ids=str)
def test_programs_with_fences_and_locks(case):
    check(case)


@pytest.mark.parametrize("case", verifier.cases(), ids=str)
def test_what_gpuverify_is_tested_with(case):
    check(case)


@pytest.mark.parametrize("case", samples.cases(), ids=str)
def test_samples_of_compute_sanitizer(case):
    check(case)


def test_findings_do_not_depend_on_the_threads_of_the_system(pytestconfig):
    """Kernels whose blocks run at the same time, and those whose blocks do not."""
    path = os.pathsep.join([str(pytestconfig.rootpath / "tests"), str(pytestconfig.rootpath)])
    told = [
        subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env={**os.environ, "HAULAGE_NUM_THREADS": number, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for number in ("1", "3")
    ]
    assert told[0] == told[1]
    assert len(told[0].splitlines()) == len(races.cases()) + len(scopes.orders())
