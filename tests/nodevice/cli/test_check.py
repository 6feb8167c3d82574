"""`haulage check`: a program runs as it does without, and hears what is wrong with it."""

import json
import os
import signal
import subprocess
import sys

import pytest

from haulage.cli import main
from support.commands import written
from support.findings import program

# One of each mistake that a kernel can make.
KERNELS = """
import numpy as np
from numba import cuda, float32

@cuda.jit
def blur(x, out):
    tile = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    tile[i] = x[i]
    if 0 < i < 63:
        out[i] = tile[i - 1]

@cuda.jit
def too_far(out):
    i = cuda.grid(1)
    out[i] = i

@cuda.jit
def half(x):
    if cuda.threadIdx.x < 32:
        cuda.syncthreads()
    x[cuda.threadIdx.x] = 1

@cuda.jit
def unwritten(x):
    rest = cuda.shared.array(64, float32)
    i = cuda.threadIdx.x
    x[i] = rest[i]

@cuda.jit
def flag(x, any_positive):
    if x[cuda.grid(1)] > 0:
        any_positive[0] = 1

@cuda.jit
def right(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 2 * x[i]

def test_it():
    x = cuda.to_device(np.ones(64, np.float32))
    out = cuda.to_device(np.zeros(64, np.float32))
    right[2, 64](x, out)
    blur[1, 64](x, out)
    too_far[3, 32](out)
    half[1, 64](x)
    unwritten[1, 64](out)
    flag[1, 64](x, out)
    assert out.copy_to_host()[0] == 1

if __name__ == "__main__":
    test_it()
"""
# Kind, kernel, array, text of the line, and of the other one; and whether they wrote the same.
MISTAKES = [
    ("bounds", "too_far", "out", "out[i] = i", None, False),
    ("race", "blur", "tile", "out[i] = tile[i - 1]", "tile[i] = x[i]", False),
    ("race", "flag", "any_positive", "any_positive[0] = 1", "any_positive[0] = 1", True),
    ("uninitialized", "unwritten", "rest", "x[i] = rest[i]", None, False),
    ("barrier", "half", "", "cuda.syncthreads()", None, False),
]


def check(*words, cwd, **options):
    """`haulage check WORDS` in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "haulage", "check", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=cwd,
        **options,
    )


def last(done):
    return done.stderr.splitlines()[-1]


def kinds(file):
    return [each["kind"] for each in json.loads(file.read_text())["findings"]]


def test_a_program_without_findings_is_told_in_one_line_and_keeps_its_status(tmp_path):
    text = "import sys; print(sys.argv[1:], sys.stdin.read()); sys.exit(int(sys.argv[1]))"
    file = written(tmp_path / "good.py", text)
    for status in (0, 3):
        done = check(file, status, "--only", cwd=tmp_path, input="hello")
        assert done.returncode == status
        assert done.stdout == f"['{status}', '--only'] hello\n"
        (line,) = done.stderr.splitlines()
        assert line.startswith(
            "haulage check: nothing found, as no kernel was launched on the CPU device; 0 launches"
        )


def test_findings_are_reported_behind_the_programs_output_and_are_status_1(tmp_path):
    program(tmp_path / "bad.py", 'found("race", 3, 5)\nfound("bounds", 14)\nprint("ran")\n')
    done = check("bad.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "ran\n")
    lines = done.stderr.splitlines()
    assert lines[0] == "bounds: an index out of bounds"
    assert "  --> bad.py:3 and bad.py:5 in kernel k" in lines
    assert last(done).startswith(
        "haulage check: 2 findings (1 bounds, 1 race); 2 launches and 200 accesses checked in "
    )
    assert "\033" not in done.stderr


@pytest.mark.parametrize("end", ["sys.exit(5)", "os._exit(5)", "1 / 0", "sys.exit(0)"])
def test_findings_are_status_1_however_the_program_ends(tmp_path, end):
    done = check(program(tmp_path / "bad.py", f"found()\n{end}\n"), cwd=tmp_path)
    assert done.returncode == 1
    assert last(done).startswith("haulage check: 1 finding (1 race); 1 launch and 100 accesses")


def test_what_was_found_before_a_signal_killed_the_program_is_told(tmp_path):
    text = "found()\nos.kill(os.getpid(), 9)\n"
    done = check(program(tmp_path / "bad.py", text), cwd=tmp_path)
    assert done.returncode == 1
    assert "1 finding (1 race)" in last(done)
    done = check("-c", "import os; os.kill(os.getpid(), 9)", cwd=tmp_path)
    assert done.returncode == 128 + 9


def test_ctrl_c_and_terminate_reach_the_program_and_the_report_is_told(tmp_path):
    text = """
    import signal, time
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
    found()
    print("ready", flush=True)
    time.sleep(60)
    """
    file = program(tmp_path / "bad.py", text)
    for number, status in ((signal.SIGTERM, 1), (signal.SIGINT, -signal.SIGINT)):
        running = subprocess.Popen(
            [sys.executable, "-m", "haulage", "check", str(file)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert running.stdout.readline() == "ready\n"
        # As a terminal does it: to all of them.
        to_all = number == signal.SIGINT
        os.killpg(running.pid, number) if to_all else running.send_signal(number)
        _, told = running.communicate(timeout=60)
        assert running.returncode == status
        assert "haulage check: 1 finding (1 race)" in told


def test_findings_of_all_processes_are_one_report(tmp_path):
    text = """
    import multiprocessing, subprocess
    file = __file__

    def work(line):
        found(line=line, file=file)

    if __name__ == "__main__" and len(sys.argv) == 1:
        found(line=3)
        if not os.fork():
            found(line=3)
            found(line=4)
            os._exit(0)
        os.wait()
        subprocess.run([sys.executable, __file__, "child"], check=True)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            pool.map(work, [6])
    elif __name__ == "__main__":
        found(line=5)
    """
    out = tmp_path / "found.json"
    done = check("--json", out, program(tmp_path / "many.py", text), cwd=tmp_path)
    data = json.loads(out.read_text())
    assert done.returncode == 1, done.stderr
    assert [(each["line"], each["count"]) for each in data["findings"]] == [
        *((3, 2), (4, 1), (5, 1), (6, 1))
    ]
    assert (data["launches"], data["accesses"]) == (5, 500)


def test_the_checks_are_those_that_are_asked_for(tmp_path):
    text = 'found("race")\nfound("bounds")\nprint(*sorted(runtime.current.checker.checks))\n'
    file, out = program(tmp_path / "bad.py", text), tmp_path / "found.json"
    done = check("--only", "racecheck", "--json", out, file, cwd=tmp_path)
    assert (done.stdout, kinds(out)) == ("race\n", ["race"])
    done = check("--json", out, "--only=bounds,race", file, cwd=tmp_path)
    assert (done.stdout, kinds(out)) == ("bounds race\n", ["bounds", "race"])
    (tmp_path / "pyproject.toml").write_text('[tool.haulage.check]\nonly = ["bounds"]\n')
    check("--json", out, file, cwd=tmp_path)
    assert kinds(out) == ["bounds"]


@pytest.mark.parametrize(
    ("words", "checks"),
    [
        (["--lint"], "lint"),
        (["--lint", "--only", "race"], "lint race"),
        (["--only=uncoalesced"], "lint"),
        ([], "barrier bounds init memory race stream"),
    ],
)
def test_what_is_slow_is_told_to_who_asks_for_it(tmp_path, words, checks):
    text = "print(*sorted(runtime.current.checker.checks))\n"
    file = program(tmp_path / "bad.py", text)
    assert check(*words, file, cwd=tmp_path).stdout == f"{checks}\n"


SLOW = """
import numpy as np
from numba import cuda

@cuda.jit
def turn(x, y):
    i, j = cuda.grid(2)
    y[j, i] = x[i, j]

x = cuda.to_device(np.ones((64, 64), np.float32))
turn[(2, 2), (32, 32)](x, cuda.device_array_like(x))
turn[(2, 2), (32, 32)](x, cuda.device_array_like(x))
cuda.synchronize()
"""


def test_what_is_slow_is_told_with_the_figures_of_all_launches(tmp_path):
    file, out = written(tmp_path / "slow.py", SLOW), tmp_path / "found.json"
    done = check("--lint", "--json", out, file, cwd=tmp_path)
    assert done.returncode == 1
    assert "a warp reads x in 32 sectors" in done.stderr
    (found,) = json.loads(out.read_text())["findings"]
    assert (found["kind"], found["array"], found["line"]) == ("uncoalesced", "x", 8)
    assert found["measured"]["launches"] == 2
    assert (found["measured"]["sectors"], found["measured"]["requests"]) == (8192, 256)
    assert check("--only", "race", file, cwd=tmp_path).returncode == 0


def test_the_program_runs_on_the_cpu_whatever_else_is_there(tmp_path):
    code = "from haulage import cuda; print(cuda.get_current_device())"
    environment = {**os.environ, "HAULAGE_DEVICE": ""}
    done = check("-c", code, cwd=tmp_path, env=environment)
    assert done.stdout == "cpu:0\n"
    done = check("--device", "cpu:0", "-c", code, cwd=tmp_path, env=environment)
    assert done.stdout == "cpu:0\n"


def test_modules_run_and_pytest_is_one_of_them(tmp_path):
    program(tmp_path / "test_it.py", "def test_that_races():\n    found()\n")
    done = check("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py", cwd=tmp_path)
    assert "1 passed" in done.stdout
    assert done.returncode == 1
    assert "1 finding (1 race)" in last(done)


def test_the_text_of_c_is_quoted(tmp_path):
    code = (
        "from haulage.checking.findings import *\n"
        "from haulage.runtime.process import runtime\n"
        'made = Finding("race", "here", Access(Place("<string>", 3), "read"))\n'
        "runtime.current.checker.findings.add(made)"
    )
    done = check("-c", code, cwd=tmp_path)
    assert "  --> <string>:3\n" in done.stderr
    assert '    3 | made = Finding("race"' in done.stderr


def test_the_folder_of_the_findings_is_gone_afterwards(tmp_path):
    text = "found()\nimport json\nprint(json.loads(os.environ['HAULAGE_CHECK_SETTINGS'])['folder'])"
    done = check(program(tmp_path / "bad.py", text), cwd=tmp_path)
    assert os.path.isabs(done.stdout.strip())
    assert not os.path.exists(done.stdout.strip())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--yes", "x.py"], "check: unknown option --yes"),
        ([], "check: no program is named"),
        (["--only", "rcae", "x.py"], "--only rcae: there is no check 'rcae'. Did you mean 'race'?"),
        (["--only"], "--only: expected names of checks"),
        (["--json", "/nowhere/at/all.json", "x.py"], "there is no folder /nowhere/at; make it"),
        (["--sarif", "/", "x.py"], "is a folder; name a file"),
        (["--json", "-", "--sarif", "-", "x.py"], "would be mixed; name a file for one of them"),
        (["--suppressions", "/none.toml", "x.py"], "check: /none.toml: No such file"),
        (["--device", "nvidia", "x.py"], "--device nvidia: kernels are checked on the CPU device"),
        (["--device", "cpu:7", "x.py"], "--device 'cpu:7'"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(words, said, capsys, monkeypatch):
    monkeypatch.delenv("HAULAGE_DEVICE", raising=False)
    assert main(["check", *words]) == 2
    printed, told = capsys.readouterr()
    assert printed == ""
    (line,) = told.splitlines()
    assert line.startswith("haulage: ")
    assert said in line


def test_another_device_of_the_environment_is_refused_unless_cpu_is_asked_for(monkeypatch, capsys):
    monkeypatch.setenv("HAULAGE_DEVICE", "amd:1")
    assert main(["check", "x.py"]) == 2
    assert capsys.readouterr().err == (
        "haulage: check: HAULAGE_DEVICE=amd:1: kernels are checked on the CPU device only; give "
        "--device cpu\n"
    )


def test_its_help_says_what_it_is_for(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["check", "--only", "race", "--help"])
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "with each access of its kernels checked" in text
    for option in (
        "--only",
        "--lint",
        "--json",
        "--sarif",
        "--suppressions",
        "-m MODULE",
        "racecheck",
    ):
        assert option in text


# ---- kernels ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """What comes of checking the kernels: the process, the JSON and the SARIF."""
    folder = tmp_path_factory.mktemp("kernels")
    file = written(folder / "kernels.py", KERNELS)
    words = ["-W", "ignore", "-m", "haulage", "check", "--only", "bounds,race,init,barrier"]
    words += ["--json", "out.json", "--sarif", "out.sarif", file]
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    data, sarif = (json.loads((folder / f"out.{form}").read_text()) for form in ("json", "sarif"))
    return done, data, sarif


def line_at(found):
    return KERNELS.split("\n")[found["line"] - 1].strip() if found else None


def test_each_mistake_of_kernels_is_found_at_its_lines_and_nothing_else(kernels):
    done, data, _ = kernels
    assert done.returncode == 1
    found = [
        (
            *(each[key] for key in ("kind", "kernel", "array")),
            line_at(each),
            line_at(each["other"]),
            each["same_value"],
        )
        for each in data["findings"]
    ]
    assert found == MISTAKES
    assert data["launches"] == 6
    assert data["accesses"] > 0


def test_the_report_marks_the_lines(kernels):
    done, _, _ = kernels
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    read = next(n for n, line in enumerate(lines) if "| " in line and "tile[i - 1]" in line)
    marked = lines[read + 1]
    assert marked.index("^^^^^^^^^^^ read") == lines[read].index("tile[i - 1]")
    assert "write of tile[0] by thread" in lines[lines.index("     9 |     tile[i] = x[i]") + 1]
    assert last(done).startswith(
        "haulage check: 5 findings (1 bounds, 2 race, 1 uninitialized, 1 barrier); 6 launches and "
    )
    assert "right" not in done.stderr


def test_sarif_has_the_same_findings(kernels):
    _, data, sarif = kernels
    results = sarif["runs"][0]["results"]
    regions = [each["locations"][0]["physicalLocation"]["region"] for each in results]
    assert [each["ruleId"] for each in results] == [each["kind"] for each in data["findings"]]
    assert [each["startLine"] for each in regions] == [each["line"] for each in data["findings"]]


def test_a_test_with_such_kernels_fails_and_says_why(tmp_path):
    file = written(tmp_path / "test_kernels.py", KERNELS)
    words = ["-m", "pytest", "-p", "haulage.pytest_plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, *words, "-W", "ignore", "--haulage-check=race,bounds,barrier", str(file)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 1, done.stdout
    assert "test_it - Failed: bounds in kernel too_far" in done.stdout
    assert "any_positive[0] = 1\n" in done.stdout
    assert (
        "haulage check: 4 findings (1 bounds, 2 race, 1 barrier) in 1 test; 6 launches"
        in done.stdout
    )


COVERED = """
import subprocess
import sys

import numpy as np
from numba import cuda

@cuda.jit
def ends(x):
    i = cuda.grid(1)
    if i == 0:
        x[i] = 1
    elif i == x.size:
        x[0] = 2
    if (
        i < 0
    ):
        x[0] = 3
        x[0] = 4

@cuda.jit
def never(x):
    for i in range(x.size):
        x[i] = 0

if __name__ == "__main__":
    ends[2, 8](np.zeros(20))
    if len(sys.argv) == 1:
        subprocess.run([sys.executable, __file__, "another"], check=True)
"""


def test_coverage_is_told_of_all_processes_and_of_kernels_that_never_ran(tmp_path):
    file = written(tmp_path / "covered.py", COVERED)
    done = check("--only", "coverage", "--json", "out.json", file, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert lines[0].startswith("coverage: the lines and branches")
    assert lines[3] == "covered.py"
    rows = [line.split() for line in lines[5:7]]
    ways = ["14,", "18-19,", "13->14", "never,", "15->18", "never"]
    assert rows == [
        ["kernel", "ends", *["8", "3", "6", "2", "32"], *ways],
        ["kernel", "never", *["2", "2", "2", "2", "0", "23-24"]],
    ]
    assert lines[-2] == (
        "haulage check: coverage: 5 of 10 (50 %) lines and 4 of 8 (50 %) branches of 2 functions "
        "in 1 file executed"
    )
    assert last(done).startswith("haulage check: nothing found; 2 launches and 0 accesses")
    data = json.loads((tmp_path / "out.json").read_text())
    (covered,) = data["coverage"]["files"]
    assert covered["file"] == str(file)
    ends, never = covered["functions"]
    assert [10, 32] in ends["lines"]
    assert [11, 12, 2] in ends["branches"]
    assert never["missing"] == [23, 24]


def test_coverage_goes_beside_the_checks(tmp_path):
    text = COVERED.replace("elif i == x.size", "elif i == 1")
    file = written(tmp_path / "covered.py", text)
    done = check("--coverage", "--only", "race", file, "one", cwd=tmp_path)
    assert done.returncode == 1
    assert "race: two threads, one location" in done.stderr
    (row,) = [line.split() for line in done.stderr.splitlines() if line.startswith("  kernel ends")]
    assert row[2:7] == ["8", "2", "6", "1", "16"]
