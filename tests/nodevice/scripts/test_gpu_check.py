"""scripts/gpu-check and the benchmarks on a GPU, tried as far as they go on the CPU device."""

import argparse
import importlib.machinery
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from benchmarks.gpu import problems, targets
from benchmarks.gpu import run as gpu_run
from benchmarks.gpu.measures import MEASURES
from benchmarks.gpu.run import TITLES
from benchmarks.peers import Peer

from doubles import libcuda

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "gpu-check"


def _gpu_check(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(SCRIPT))
    spec = importlib.util.spec_from_loader("gpu_check", loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


def test_the_parts_can_be_listed_and_chosen_by_their_beginnings() -> None:
    everything = _gpu_check("--list").stdout.split()
    assert {"environment", "tests-1", "sanitizer-racecheck", "benchmarks-launch"} <= set(everything)
    assert _gpu_check("--list", "tests-", "env").stdout.split() == [
        part for part in everything if part.startswith(("tests-", "env"))
    ]


def test_an_unknown_part_is_refused_with_those_that_there_are() -> None:
    done = _gpu_check("tets-1")
    assert done.returncode == 2
    assert "tets-1" in done.stderr
    assert "tests-1" in done.stderr


@pytest.mark.parametrize(("name", "status"), [("mpmath", 0), ("pytest_timeout", 2)])
def test_what_is_not_installed_is_told_and_ends_nothing_that_goes_without(
    script: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    status: int,
) -> None:
    monkeypatch.setattr(script, "_missing", lambda names: [each for each in names if each == name])
    monkeypatch.setattr(sys, "argv", ["gpu-check", "--device=cpu", f"--into={tmp_path}", "env"])
    monkeypatch.setattr(sys, "path", sys.path.copy())
    assert script.main() == status
    assert f"not installed: {name}" in capsys.readouterr().err
    report = tmp_path / "report.md"
    assert report.exists() == (status == 0)
    if status == 0:
        assert f"- not installed: {name}" in report.read_text()


def test_a_checkout_whose_extension_is_not_built_is_told(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    left_out = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=left_out)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "scripts" / "gpu-check"), "environment"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert "gpu-check: ImportError: The compiled part of Haulage is not there" in done.stderr
    assert "pip install -e ." in done.stderr


def test_the_shares_are_all_tests_of_devices_once(script: ModuleType) -> None:
    together = sorted(file for share in script.shares() for file in share)
    assert together == sorted((ROOT / "tests" / "device").rglob("test_*.py"))


def test_parts_leave_one_report_that_later_parts_add_to(tmp_path: Path) -> None:
    common = ("--device", "cpu", "--small", "--into", tmp_path)
    first = _gpu_check(*common, "environment", "sanitizer-memcheck")
    assert first.returncode == 0, first.stdout + first.stderr
    second = _gpu_check(*common, "benchmarks-memory")
    assert second.returncode == 0, second.stdout + second.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert set(report) == {"environment", "sanitizer-memcheck", "benchmarks-memory"}
    assert report["environment"]["packages"]["numpy"]
    measured = report["benchmarks-memory"]["measured"]["measures"]["allocate-4KB"]
    assert all(value > 0 for value in measured["values"]["haulage"])
    text = (tmp_path / "report.md").read_text()
    assert "allocate and free 4 KiB" in text
    assert "Not run: tests-1" in text


_CONFTEST = """
def pytest_addoption(parser):
    parser.addoption("--devices")
"""
_LOSES = """
import sys, types
def test_that_loses_the_device():
    class Status(int):
        name = "CUDA_ERROR_ILLEGAL_ADDRESS"
    driver = types.ModuleType("driver")
    driver.cuCtxSynchronize = lambda: (Status(700),)
    sys.modules["cuda.bindings.driver"] = driver
"""
_TESTS = {
    "test_breaking.py": """
import os, sys, time, pytest
def test_good(): pass
def test_wrong(): assert 1 == 2
def test_left_out(): pytest.skip("none")
def test_that_crashes(): os.abort()
def test_between(): pass
@pytest.mark.timeout(1)
def test_that_hangs(): time.sleep(60)
"""
    + _LOSES
    + """
def test_at_the_end(): assert "cuda.bindings.driver" not in sys.modules
""",
    "test_beside_others.py": """
import pathlib, pytest
@pytest.fixture
def broken(): raise ValueError("no device")
def test_broken(broken): pass
def test_alone():
    mark = pathlib.Path(__file__).with_name("mark")
    if not mark.exists():
        mark.touch()
        raise OSError("no room")
""",
    "test_crash_at_exit.py": """
import atexit, os
def test_before(): atexit.register(os.abort)
""",
    "test_not_to_be_read.py": "import no_such_module",
}


@pytest.fixture
def breaking(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    monkeypatch.setattr(script, "ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    for name, text in _TESTS.items():
        (tmp_path / name).write_text(text)
    return sorted(tmp_path.glob("test_*.py"))


def test_a_test_that_crashes_hangs_or_loses_the_device_fails_alone(
    script: ModuleType, tmp_path: Path, breaking: list[Path]
) -> None:
    options = argparse.Namespace(device="cpu", minutes=2, small=False)
    found = script._files(breaking, options, tmp_path / "report", [], 2)
    failing = {each.partition("::")[2] or each for each in found["failing"]}
    told = dict(each.split(": ", 1) for each in failing)
    assert set(told) == {
        *("test_wrong", "test_that_crashes", "test_that_hangs", "test_that_loses_the_device"),
        *("test_broken", "test_not_to_be_read.py"),
        "test_crash_at_exit.py, after tests of its process 1",
    }
    assert told["test_wrong"] == "assert 1 == 2"
    assert "its process ended with -6" in told["test_that_crashes"]
    assert "its process ended with 1: " in told["test_that_hangs"]
    assert "Timeout" in told["test_that_hangs"]
    assert (
        "device is lost after this test: CUDA_ERROR_ILLEGAL_ADDRESS"
        in (told["test_that_loses_the_device"])
    )
    assert told["test_broken"] == "ValueError: no device"
    assert "no_such_module" in told["test_not_to_be_read.py"]
    # Those after them were run, in other processes.
    assert [found[key] for key in ("passed", "failed", "skipped", "not run")] == [5, 7, 1, 0]
    assert [each.partition("::")[2] for each in found["passed alone"]] == ["test_alone"]
    assert not found["good"]

    report = {"tests-1": {**found, "minutes": 1, "date": "", "device": "nvidia"}}
    text = "\n".join(script.markdown(report))
    assert "NOT GOOD: 5 passed, 7 failed, 1 skipped (1 passed at the second try, alone)" in text
    assert "test_wrong: assert 1 == 2" in text
    assert "## Failed beside others, passed alone in tests-1" in text


def test_tests_after_a_lost_device_run_where_a_tool_has_a_status_of_its_own(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "tool"
    tool.write_text('#!/bin/sh\n"$@"; test $? = 2 && exit 86; exit 0\n')
    tool.chmod(0o755)
    monkeypatch.setattr(script, "ROOT", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    file = tmp_path / "test_lost.py"
    file.write_text(_LOSES + "def test_after(): pass\n")
    options = argparse.Namespace(device="cpu", minutes=2, small=False)
    found = script._files([file], options, tmp_path / "report", [str(tool)], 1)
    assert (found["passed"], found["failed"]) == (1, 1), found


@pytest.mark.parametrize(("named", "tested"), [("nvidia", "nvidia:0"), ("nvidia:1", "nvidia:1")])
def test_of_many_gpus_one_is_tested(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, tested: str
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(script, "_run", lambda command, *_: (commands.append(command), (5, ""))[1])
    script._file(["test_x.py"], argparse.Namespace(device=named), tmp_path / "x", [], 1e99)
    assert f"--devices={tested}" in commands[0]


def test_what_there_was_no_time_for_is_not_good(
    script: ModuleType, tmp_path: Path, breaking: list[Path]
) -> None:
    options = argparse.Namespace(device="cpu", minutes=0.0, small=False)
    found = script._files(breaking, options, tmp_path / "report", [], 1)
    assert (found["passed"], found["failed"], found["not run"]) == (0, 0, 4)
    assert not found["good"]
    told = {"tests-1": {**found, "minutes": 1, "date": "", "device": "nvidia"}}
    text = "\n".join(script.markdown(told))
    assert "NOT GOOD, stopped at its limit of time" in text
    assert "- test_breaking.py: no time was left for all of its tests" in text


def test_missed_targets_stand_before_all_tables(script: ModuleType) -> None:
    targets = [
        {"target": "saxpy: at least 0.9", "met": False, "ratio": 0.5},
        {"target": "launch-1: at most 0.333", "met": True, "ratio": 0.2},
        {"target": "matmul: at least 0.97", "met": None, "why": "there is no figure"},
    ]
    found = {"good": True, "measured": {"targets": targets}, "table": "a table"}
    found |= {"minutes": 1, "date": "", "device": "nvidia"}
    text = "\n".join(script.markdown({"benchmarks-kernels": found}))
    assert "good: 1 targets met, 1 not met, 1 not known" in text
    missed = "## Targets that are not met\n\n- saxpy: at least 0.9; 0.5\n"
    assert 0 < text.index(missed) < text.index("a table")


def test_a_part_that_takes_too_long_is_stopped_and_said_to_be(tmp_path: Path) -> None:
    done = _gpu_check(
        *("--device", "cpu", "--into", tmp_path, "--minutes", "0.01", "benchmarks-kernels")
    )
    assert done.returncode == 1
    assert "stopped at its limit of time" in done.stdout


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system has no /proc")
def test_a_part_that_is_stopped_leaves_no_process(script: ModuleType, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    child = f"import os, time; open({str(pids)!r}, 'a').write(f'{{os.getpid()}} '); time.sleep(60)"
    program = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    options = argparse.Namespace(device="cpu")
    status, _ = script._run([sys.executable, "-c", program], options, tmp_path / "log.txt", 3)
    assert status == 124
    (pid,) = map(int, pids.read_text().split())
    ends = time.monotonic() + 20
    while _runs(pid) and time.monotonic() < ends:
        time.sleep(0.01)
    assert not _runs(pid)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system has no /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_check_that_is_ended_begins_nothing_more(tmp_path: Path, number: int) -> None:
    pids = tmp_path / "pids"
    pids.touch()
    copy = tmp_path / "checkout"
    (copy / "scripts").mkdir(parents=True)
    shutil.copy(SCRIPT, copy / "scripts")
    tests = copy / "tests" / "device"
    tests.mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "one_by_one.py", copy / "tests")
    (copy / "conftest.py").write_text(_CONFTEST)
    text = f"import os, time\nopen({str(pids)!r}, 'a').write(f'{{os.getpid()}} ')\n"
    text += "".join(f"def test_{each}(): time.sleep(60)\n" for each in range(3))
    for each in range(24):
        (tests / f"test_{each}.py").write_text(text)
    command = [sys.executable, str(copy / "scripts" / "gpu-check"), "tests-1", "--jobs=2"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    check = subprocess.Popen(command, cwd=tmp_path, **quiet)
    try:
        ends = time.monotonic() + 60
        while len(pids.read_text().split()) < 2 and time.monotonic() < ends:
            time.sleep(0.01)
        check.send_signal(number)
        assert check.wait(20) != 0
    finally:
        check.kill()
        check.wait()
    begun = list(map(int, pids.read_text().split()))
    assert len(begun) == 2
    assert not any(map(_runs, begun))


def _runs(pid: int) -> bool:
    try:
        # It may be there, ended, until somebody has waited for it.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_all_measures_of_a_gpu_run_on_the_cpu_device(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    command = [sys.executable, "-m", "benchmarks.gpu", "--small", "--rounds", "1"]
    command += ["--device", "cpu", "--packages", "haulage", "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    run = json.loads(path.read_text())
    for name, outcome in run["measures"].items():
        assert outcome["failed"] == {}, name
        assert outcome["values"]["haulage"][0] > 0, name
    assert "% of the bandwidth of a copy by Haulage" in done.stdout
    assert "- not known: launch-3: at most 0.333 of numba-cuda's; there is no figure" in done.stdout


def test_targets_are_judged_by_medians_and_where_a_figure_is_missing_not_at_all() -> None:
    def measured(unit: str, **values: list[float]) -> dict[str, object]:
        return {"unit": unit, "values": {k.replace("_", "-"): v for k, v in values.items()}}

    found = {
        "measures": {
            "launch-1": measured("us", haulage=[1, 3, 9], numba_cuda=[10, 10, 1], cupy=[1.0]),
            "saxpy": measured("GB/s", haulage=[80.0]),
            "device-copy": measured("GB/s", driver=[100.0], haulage=[10.0]),
            "allocate-4KB": measured("ns", cupy=[3.0]),
        }
    }
    told = targets.judged(found, TITLES)
    assert [(each["target"], each["met"]) for each in told] == [
        ("launch-1: at most 0.333 of numba-cuda's", True),
        ("launch-1: at most 1.5 of CuPy's", False),
        ("saxpy: at least 0.97 of numba-cuda's", None),
        ("saxpy: at least 0.9 of CUDA's driver's in device-copy", False),
        ("allocate-4KB: at most 1 of CuPy's", None),
    ]
    lines = targets.lines(told)
    assert lines[0] == "- met: launch-1: at most 0.333 of numba-cuda's; 0.3"
    assert lines[1].startswith("- NOT MET: ")
    assert lines[4].endswith("there is no figure of Haulage's")
    assert targets.shares(found, TITLES) == [
        "- saxpy: 80 % of the bandwidth of a copy by CUDA's driver"
    ]


@pytest.mark.parametrize("name", problems.INPUTS)
def test_a_wrong_result_is_no_figure(name: str) -> None:
    def offer(*inputs: "np.ndarray") -> object:
        right = {
            "saxpy": lambda x, y: 2 * x + y,
            "transpose": lambda x: x.T.copy(),
            "reduction": lambda x: x.reshape(64, -1).sum(1),
            "stencil": lambda u: u + np.float32(0.1) * _around(u),
            "matmul": lambda a, b: a @ b,
        }[name](*inputs)
        right[(len(right) // 2,) * right.ndim] += is_wrong
        return lambda: None, lambda: right

    offers = {name: offer, "synchronize": lambda: None}
    is_wrong = 0
    assert MEASURES[name].prepare(offers, True)() > 0
    is_wrong = 8
    with pytest.raises(problems.Wrong, match=name):
        MEASURES[name].prepare(offers, True)


def _around(u: "np.ndarray") -> "np.ndarray":
    return np.pad(u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1], 1)


_PACKAGE = """
import os, time
def about(): return "a package"
def offers():
    def broken(): raise ValueError("no such thing")
    return {"synchronize": lambda: None, "empty": bytearray, "launch-0": broken,
            "launch-1": lambda: os._exit(3), "launch-3": lambda: time.sleep(60),
            "launch-8": lambda: lambda: None, "trim": lambda: os._exit(4)}
"""


def test_what_breaks_in_a_package_ends_its_own_row_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "with_broken.py").write_text(_PACKAGE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setitem(gpu_run.PACKAGES, "broken", Peer("broken", "Broken", "with_broken"))
    monkeypatch.setitem(gpu_run.PACKAGES, "none", Peer("none", "None", "no.such.module"))
    monkeypatch.setattr(gpu_run, "PATIENCE", 10.0)
    kept: list[list[str]] = []
    found = gpu_run.run(
        [*(f"launch-{count}" for count in (0, 1, 3, 8)), "allocate-4KB"],
        *(["none", "broken"], 1, True, lambda words: None),
        lambda found: kept.append(list(found["measures"])),
    )
    why = [list(each["failed"].values()) for each in found["measures"].values()]
    assert why[0] == ["ValueError: no such thing"]
    assert "its process ended with 3" in why[1][0]
    assert why[2] == ["no answer in 10 seconds to 'prepare'"]
    assert why[3] == why[4] == []
    assert found["measures"]["allocate-4KB"]["values"]["broken"][0] > 0
    assert "No module named" in found["absent"]["none"]
    assert kept[0] == ["launch-0"]
    assert kept[-1][-1] == "allocate-4KB"
    text = "\n".join(gpu_run.table(found))
    assert "| failed |" in text
    assert "launch-3, broken: no answer in 10 seconds" in text


@pytest.mark.skipif(libcuda.compiler() is None, reason="there is no C compiler for the stand-in")
@pytest.mark.parametrize(
    ("stand_in", "names"),
    [
        (libcuda.EVERYWHERE, ["launch-0", "launch-3", "64KB", "allocate-4KB", "device-copy"]),
        (libcuda.IDLE, ["launch-3", "pinned-up-64KB"]),
    ],
    ids=["kernels that run", "the host's part alone"],
)
def test_haulage_and_the_driver_take_turns_on_a_stand_in_for_a_gpu(
    tmp_path: Path, stand_in: Path, names: list[str]
) -> None:
    path = tmp_path / "run.json"
    command = [sys.executable, "-m", "benchmarks.gpu", *names, "--small", "--rounds", "1"]
    command += ["--device", "nvidia", "--packages", "haulage,driver", "--json", str(path)]
    everywhere = {**os.environ, "PYTHONPATH": str(stand_in)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=250, cwd=ROOT, env=everywhere
    )
    assert done.returncode == 0, done.stdout + done.stderr
    run = json.loads(path.read_text())
    assert set(run["packages"]) == {"haulage", "driver"}, run["absent"]
    for name, outcome in run["measures"].items():
        assert outcome["failed"] == {}, name
        assert all(outcome["values"][each][0] > 0 for each in ("haulage", "driver")), name
