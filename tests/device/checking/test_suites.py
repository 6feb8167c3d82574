"""Suites of kernels with and without mistakes: findings at the right lines, and nowhere else.

`make test-suites` runs all of them in both ways of running threads.
"""

import os
import subprocess
import sys

import pytest

from haulage.backends.cpu_driver import processor
from support.checked import graphs, races, samples, scopes, verifier
from support.checked.marks import check, found_in

WAYS = ("regions", "coroutines")
WHOLE = "HAULAGE_WHOLE_SUITES" in os.environ

# What a process prints of each case.
_PROGRAM = """
from device.checking.test_suites import of_blocks
from support.checked.marks import found_in
for case in of_blocks():
    print(case, sorted(found_in(case)))
"""


def in_both_ways(cases):
    """Each case with one way, every third of them with the other as well."""
    both = cases if WHOLE else cases[::3]
    return [*((each, WAYS[0]) for each in cases), *((each, WAYS[1]) for each in both)]


def of_blocks():
    """Cases of which the order of blocks could be seen."""
    return [case for case in [*races.cases(), *scopes.orders()] if case.of_blocks]


@pytest.mark.parametrize(("case", "threads"), in_both_ways(races.cases()), ids=str)
def test_what_orders_accesses(case, threads, monkeypatch):
    monkeypatch.setenv("HAULAGE_CPU_THREADS", threads)
    check(case)


@pytest.mark.parametrize("case", graphs.cases(WHOLE), ids=str)
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
    number = "1" if processor.threads() > 1 else "3"
    told = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={**os.environ, "HAULAGE_NUM_THREADS": number, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert told.splitlines() == [f"{case} {sorted(found_in(case))}" for case in of_blocks()]
