"""`haulage.cuda.testing`, which is `numba.cuda.testing`: what is run and what is skipped."""

import platform
import shutil
import unittest

import numpy as np
import pytest
from numba.core import config

import haulage
from haulage import cuda
from haulage.cuda import testing


def outcome(decorate):
    """What becomes of a test of nothing with that decorator: `run`, or the reason of the skip."""

    class Case(testing.CUDATestCase):
        @decorate
        def test_nothing(self):
            ran.append(self)

    ran = []
    result = unittest.TestResult()
    Case("test_nothing").run(result)
    assert not result.errors
    assert not result.failures
    return "run" if ran else result.skipped[0][1]


@pytest.mark.parametrize("name", testing.__all__)
def test_each_name_is_there(name):
    assert hasattr(testing, name)


def test_a_test_of_gpus_is_run_and_one_of_the_simulator_is_not():
    assert outcome(testing.skip_on_cudasim("not in the simulator")) == "run"
    assert outcome(testing.skip_unless_cudasim("in the simulator only")) == "in the simulator only"


def test_words_of_a_compute_capability_are_those_of_the_device():
    with haulage.use("cpu"):
        assert outcome(testing.skip_unless_cc_90) == "run"
        assert outcome(testing._needs_capability(9, 1)) == "requires cc >= 9.1"
        assert testing.cc_X_or_above(9, 0)
        assert not testing.cc_X_or_above(10, 0)


def test_what_is_nvidias_is_skipped_where_it_is_not_there(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert outcome(testing.skip_without_nvdisasm("no nvdisasm")) == "no nvdisasm"
    assert outcome(testing.skip_with_nvdisasm("nvdisasm is there")) == "run"
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert outcome(testing.skip_without_nvdisasm("no nvdisasm")) == "run"
    monkeypatch.setattr(config, "CUDA_INCLUDE_PATH", str(tmp_path))
    assert "cuda.h" in outcome(testing.skip_if_cuda_includes_missing)
    (tmp_path / "cuda.h").touch()
    assert outcome(testing.skip_if_cuda_includes_missing) == "run"
    assert outcome(testing.skip_unless_conda_cudatoolkit("no toolkit")) == "no toolkit"


def test_grids_that_wait_for_themselves_need_no_library():
    assert outcome(testing.skip_if_cudadevrt_missing) == "run"


def test_the_computer_is_asked_what_it_is(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert outcome(testing.skip_on_arm("not on ARM")) == "not on ARM"
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert outcome(testing.skip_on_arm("not on ARM")) == "run"


def test_the_environment_says_what_else_is_there(monkeypatch):
    assert outcome(testing.skip_under_cuda_memcheck("memcheck")) == "run"
    monkeypatch.setenv("CUDA_MEMCHECK", "1")
    assert outcome(testing.skip_under_cuda_memcheck("memcheck")) == "memcheck"
    assert outcome(testing.skip_if_external_memmgr("plug-in")) == "run"
    monkeypatch.setattr(config, "CUDA_MEMORY_MANAGER", "plugin")
    assert outcome(testing.skip_if_external_memmgr("plug-in")) == "plug-in"


def test_numbas_warnings_are_off_in_a_test_only(monkeypatch):
    monkeypatch.setattr(config, "CUDA_LOW_OCCUPANCY_WARNINGS", 1)
    monkeypatch.setattr(config, "CUDA_WARN_ON_IMPLICIT_COPY", 1)
    seen = []

    class Case(testing.CUDATestCase):
        def runTest(self):
            seen.append((config.CUDA_LOW_OCCUPANCY_WARNINGS, config.CUDA_WARN_ON_IMPLICIT_COPY))

    Case().run()
    assert seen == [(0, 0)]
    assert (config.CUDA_LOW_OCCUPANCY_WARNINGS, config.CUDA_WARN_ON_IMPLICIT_COPY) == (1, 1)


def test_a_context_is_reset_after_each_test_that_changes_it():
    arrays = []

    class Case(testing.ContextResettingTestCase):
        def runTest(self):
            arrays.append(cuda.to_device(np.arange(3)))

    with haulage.use("cpu"):
        result = unittest.TestResult()
        Case().run(result)
        assert result.wasSuccessful()
        with pytest.raises(ValueError, match=r"given back by close"):
            arrays[0].copy_to_host()


def test_an_array_of_another_library_has_the_interface_or_is_none():
    class Interface:
        __cuda_array_interface__ = {"version": 3}  # noqa: RUF012

    assert testing.ForeignArray(Interface()).__cuda_array_interface__ == {"version": 3}
    with haulage.use("cpu"), pytest.raises(AttributeError, match="cuda_array_interface"):
        testing.ForeignArray(cuda.to_device(np.arange(3)))


def test_the_folder_of_data_is_that_of_numbas_tests():
    assert (testing.test_data_dir / "jitlink.cu").is_file()
