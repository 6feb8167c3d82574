"""The list of tests that do not hold on GPUs."""

import ast
from pathlib import Path

from doubles import not_on_gpus

DEVICE_TESTS = Path(__file__).parents[2] / "device"


def names(file):
    tree = ast.parse((DEVICE_TESTS / file).read_text())
    return {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)}


def test_every_test_that_does_not_hold_on_gpus_is_there():
    for test in not_on_gpus.tests():
        file, _, name = test.partition("::")
        assert (DEVICE_TESTS / file).exists(), file
        assert not name or name in names(file), test


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
