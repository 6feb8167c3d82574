"""Settings from the environment: what they may be, and what the errors say."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import haulage
from haulage import config
from haulage.errors import DeviceNotFound

SOURCES = Path(haulage.__file__).parent

NUMBERS = {
    "HAULAGE_NUM_THREADS": config.worker_threads,
    "HAULAGE_QUEUE_DEPTH": config.queue_depth,
    "HAULAGE_ADVERSARY": config.adversary_seed,
    "NUMBA_DISABLE_CUDA": config.cuda_is_disabled,
    "NUMBA_CUDA_ARRAY_INTERFACE_SYNC": config.interface_sync,
}
WORDS = {
    "HAULAGE_CPU_THREADS": config.thread_way,
    "HAULAGE_MEMORY": config.pools_memory,
    "HAULAGE_AMD_LINKER": config.amd_linker,
    "HAULAGE_BOUNDSCHECK": config.bounds_checks,
    "NUMBA_BOUNDSCHECK": config.bounds_checks,
}
NO_NUMBERS = [
    "²",
    "½",
    "1.5",
    "\uff10",
    "٣",
    "0x4",
    "1_0",
    "1e3",
    "--1",
    "- 1",
    "+",
    "many",
    "9" * 5000,
]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("text", NO_NUMBERS, ids=lambda text: text[:5])
def test_what_is_no_number_is_refused(monkeypatch, name, text):
    monkeypatch.setenv(name, text)
    shown = re.escape(repr(text[:60]))
    with pytest.raises(ValueError, match=f"^{name}={shown}.*: expected .+; unset it for .+"):
        NUMBERS[name]()


@pytest.mark.parametrize("name", NUMBERS)
def test_blanks_around_a_number_do_not_matter_and_alone_are_no_setting(monkeypatch, name):
    monkeypatch.setenv(name, " 4 ")
    assert NUMBERS[name]() in (4, True)
    monkeypatch.delenv(name)
    unset = NUMBERS[name]()
    for text in ("", "  "):
        monkeypatch.setenv(name, text)
        assert NUMBERS[name]() == unset


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("text", ["²", "CUT", "pool;driver", "-1", "None"])
def test_what_is_none_of_the_words_is_refused(monkeypatch, name, text):
    monkeypatch.setenv(name, text)
    with pytest.raises(ValueError, match=f"{name}='{text}': expected .+; unset it for .+"):
        WORDS[name]()


@pytest.mark.parametrize("number", ["0", "-1", "100000", str((1 << 63) - 1)])
def test_a_number_of_threads_has_bounds(monkeypatch, number):
    monkeypatch.setenv("HAULAGE_NUM_THREADS", number)
    most = max(64, 4 * os.cpu_count())
    expected = f"HAULAGE_NUM_THREADS='{number}': expected a positive whole number.*at most {most};"
    with pytest.raises(ValueError, match=expected):
        config.worker_threads()
    monkeypatch.setenv("HAULAGE_NUM_THREADS", str(most))
    assert config.worker_threads() == most


def test_too_many_threads_start_none():
    script = """
import os
import numpy as np
from haulage import cuda

@cuda.jit
def fill(x):
    x[cuda.grid(1)] = 1

before = len(os.listdir("/proc/self/task"))
try:
    fill[1 << 10, 64](cuda.device_array(1 << 16))
    cuda.synchronize()
except ValueError as error:
    print(str(error).partition(":")[0], len(os.listdir("/proc/self/task")) - before)
"""
    if not os.path.isdir("/proc/self/task"):
        pytest.skip("the system does not tell the threads of a process")
    done = run(script, HAULAGE_NUM_THREADS="100000")
    assert (done.stdout.split(), done.stderr) == (["HAULAGE_NUM_THREADS='100000'", "0"], "")


@pytest.mark.parametrize("text", ["gpu", "cpu:x", "cpu:²", "cpu:-1", "cpu:", "cpu:" + "9" * 5000])
def test_a_device_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("HAULAGE_DEVICE", text)
    with pytest.raises(DeviceNotFound, match=r"HAULAGE_DEVICE '(cpu:|gpu')"):
        haulage.cuda.to_device([1.0])


@pytest.mark.parametrize("name", ["..", ".", "no.such", "os", "a b"])
def test_a_memory_manager_that_is_none_is_refused(name):
    script = """
from haulage import cuda
try:
    cuda.device_array(3)
except RuntimeError as error:
    print(error)
"""
    done = run(script, NUMBA_CUDA_MEMORY_MANAGER=name)
    expected = f"memory manager from {name}, which NUMBA_CUDA_MEMORY_MANAGER names: "
    assert expected in done.stdout
    assert "unset it" in done.stdout
    assert done.stderr == ""


def test_a_misspelt_setting_is_told_once_and_what_is_like_none_is_not():
    script = "from haulage import cuda, roc; cuda.device_array(3)"
    done = run(script, HAULAGE_DEVISE="cpu", HAULAGE_OF_MINE="1", HAULAGE_DEVICE="cpu")
    (line,) = done.stderr.splitlines()
    assert "HAULAGE_DEVISE is set, which is no setting" in line
    assert "did you mean HAULAGE_DEVICE?" in line
    assert run(script, HAULAGE_DEVICE="cpu").stderr == ""


def test_all_settings_are_known():
    named = {
        name
        for file in SOURCES.rglob("*.py")
        for name in re.findall(r"\"(HAULAGE_[A-Z_]+)\"", file.read_text(encoding="utf-8"))
    }
    assert named - {"HAULAGE_"} == set(config.SETTINGS)


def run(script, **environment):
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
