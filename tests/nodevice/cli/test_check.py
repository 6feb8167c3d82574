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
        assert line.startswith("haulage check: nothing found; 0 launches and 0 accesses checked in")


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
    for option in ("--only", "--json", "--sarif", "--suppressions", "-m MODULE", "racecheck"):
        assert option in text
