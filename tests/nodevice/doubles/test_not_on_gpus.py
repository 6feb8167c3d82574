"""The lists of tests that do not hold on GPUs, and of those that are not checked."""

import ast
from pathlib import Path

import pytest

from doubles import not_checked, not_on_gpus

DEVICE_TESTS = Path(__file__).parents[2] / "device"


def names(file):
    tree = ast.parse((DEVICE_TESTS / file).read_text())
    return {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}


@pytest.mark.parametrize("named", [not_on_gpus, not_checked])
def test_every_test_that_is_named_is_there(named):
    for test in named.tests():
        file, _, name = test.partition("::")
        assert (DEVICE_TESTS / file).exists(), file
        assert not name or name.partition("[")[0] in names(file), test


def reason(file, name, double, kind="nvidia"):
    return not_on_gpus.reason(file, name, kind=kind, double=double)


def test_reasons_are_given_for_devices_and_for_stand_ins():
    barrier = "test_a_barrier_that_threads_go_round_is_an_error[ptx:0-auto]"
    assert "barrier" in reason("compiler/simt/test_early_returns.py", barrier, None)
    program = "test_a_program_that_ends_shows_all[ptx:0]"
    assert "stand-in" in reason("lang/test_print.py", program, "ptx", "ptx")
    for other in ("nvidia", None):
        assert reason("lang/test_print.py", program, other) is None
    assert reason("compiler/simt/test_kernels.py", "test_saxpy_with_a_guard", "ptx", "ptx") is None
    for kind, is_skipped in (("nvidia", True), ("ptx", True), ("amd", False)):
        assert bool(reason("lang/test_wavebarrier.py", "test_a[x]", None, kind)) is is_skipped


def test_reasons_are_given_for_folders_and_for_single_cases():
    assert "CPU device" in reason("checking/test_races.py", "test_a[opencl:0]", None, "opencl")
    assert reason("checking/test_races.py", "test_a[nvidia:0]", None) is None
    copying = "runtime/arrays/test_copying.py"
    overlap = "test_source_and_target_may_overlap_by_way_of_the_host"
    assert "DLPack" in reason(copying, f"{overlap}[opencl:0-dlpack]", None, "opencl")
    assert reason(copying, f"{overlap}[opencl:0-view]", None, "opencl") is None


def test_whole_files_and_single_tests_are_not_checked():
    assert not_checked.holds("compiler/simt/test_waiting_threads.py", "test_a[cpu:0]")
    assert not_checked.holds("lib/test_reduce.py", "test_all_of_it_happens_in_the_stream[cpu:0]")
    assert not not_checked.holds("lib/test_reduce.py", "test_a[cpu:0]")
