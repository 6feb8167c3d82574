"""Which devices there are, and which one is meant: what `api.devices` tells of them."""

import os
import subprocess
import sys

import pytest

import haulage
from haulage import cuda


def test_detect_prints_each_kind_and_says_yes(device, capsys):
    assert cuda.detect() is True
    printed = capsys.readouterr().out
    assert f"{device}: {device.name}" in printed
    for kind in ("nvidia", "amd", "opencl", "cpu"):
        assert f"{kind}:" in printed


def test_the_reason_why_no_device_can_be_used_is_told(no_choice, monkeypatch):
    assert cuda.cuda_error() is None
    monkeypatch.setenv("HAULAGE_DEVICE", "nvidia:77")
    assert not cuda.is_available()
    assert not cuda.is_supported_version()
    assert "HAULAGE_DEVICE 'nvidia:77'" in cuda.cuda_error()
    with pytest.raises(cuda.CudaSupportError, match="HAULAGE_DEVICE"):
        cuda.require_context(len)("")


def test_devices_are_taken_away_as_numba_does_it():
    program = """
from haulage import cuda
assert not cuda.is_available()
try:
    cuda.device_array(1)
except cuda.CudaSupportError as error:
    assert "CUDA is disabled due to setting NUMBA_DISABLE_CUDA=1" in error.msg
    assert cuda.cuda_error() == error.msg
else:
    raise AssertionError
"""
    for choice in ({}, {"HAULAGE_DEVICE": "cpu"}):
        others = {key: value for key, value in os.environ.items() if key != "HAULAGE_DEVICE"}
        environment = {**others, **choice, "NUMBA_DISABLE_CUDA": "1"}
        subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=60)
    environment["NUMBA_DISABLE_CUDA"] = "0"
    program = "from haulage import cuda; assert cuda.is_available()"
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=60)


def test_a_function_is_called_with_its_device_ready(device, monkeypatch):
    seen = []
    monkeypatch.setattr(type(device), "activate", lambda self: seen.append(self))

    @cuda.require_context
    def function(one, *, two):
        """What it does."""
        return one, two

    assert (function.__name__, function.__doc__) == ("function", "What it does.")
    assert not seen
    assert function(1, two=2) == (1, 2)
    assert seen == [device]


def test_devices_can_be_counted_from_the_end_and_cut(two_nulls):
    with haulage.use("null:1"):
        first, second = cuda.gpus
        assert cuda.gpus[-1] is second is cuda.gpus.current
        assert cuda.gpus[:1] == [first]
        assert cuda.gpus[True:] == [second]
        assert repr(cuda.gpus) == "<null:0, null:1>"
        for number in (2, -3):
            with pytest.raises(IndexError, match="no such device; present: null:0, null:1"):
                cuda.gpus[number]
        with pytest.raises(TypeError, match=r"gpus\[slice\('a', None, None\)\]: a slice has whole"):
            cuda.gpus["a":]
        with pytest.raises(TypeError, match="gpus: the number of a device"):
            cuda.gpus["0"]


def test_contexts_are_those_of_the_current_kind(two_nulls):
    with haulage.use("null:0"):
        assert str(cuda.current_context().device) == "null:0"
        assert str(cuda.current_context(1).device) == "null:1"
        assert [str(each) for each in cuda.list_devices()] == ["null:0", "null:1"]


def test_the_runtime_is_that_of_the_current_device(device, two_nulls):
    version = device.properties.runtime
    assert cuda.runtime.get_version() == version
    assert repr(cuda.runtime) == "<runtime {}.{} of {}>".format(*version, device)
    with haulage.use("null:0") as null:
        assert cuda.runtime.get_version() == null.properties.runtime
        assert repr(cuda.runtime).endswith("of null:0>")
    assert cuda.runtime.is_supported_version() is cuda.is_supported_version() is True


def test_what_kernels_can_compute_with_is_asked_of_the_current_device(device):
    assert cuda.is_float16_supported() is device.supports_float16
    assert cuda.is_bfloat16_supported() is device.supports_bfloat16


def test_a_profiler_is_told_of_the_current_device(two_nulls, monkeypatch):
    with haulage.use("null:1") as current:
        told = []
        monkeypatch.setattr(type(current.backend), "profile", lambda _, on: told.append(on))
        cuda.profile_start()
        cuda.profile_stop()
        with cuda.profiling():
            assert told == [True, False, True]
        assert told == [True, False, True, False]
        with pytest.raises(KeyError), cuda.profiling():
            raise KeyError
        assert told[4:] == [True, False]


def test_what_close_takes_is_that_of_the_current_device(devices):
    with haulage.use(devices[1]):
        kept = cuda.to_device([1, 2, 3])
    closed, stream = cuda.to_device([1, 2, 3]), cuda.stream()
    cuda.close()
    with pytest.raises(ValueError, match="was given back"):
        closed.copy_to_host()
    assert kept.copy_to_host().tolist() == [1, 2, 3]
    assert cuda.to_device([4, 5], stream).copy_to_host(stream=stream).tolist() == [4, 5]
