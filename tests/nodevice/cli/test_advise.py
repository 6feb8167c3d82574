"""`haulage advise`: a program runs as it does without, and hears which copies were in vain."""

import json
from functools import partial

import pytest

from haulage.cli import main
from support.commands import on_the_cpu, written

REPEATS = """
import sys
import numpy as np
from numba import cuda

@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]

weights = np.ones(1000)
total = np.zeros(1000)
for n in range(4):
    d_weights = cuda.to_device(weights)
    add[8, 128](d_weights, total, total)
print(total.sum(), sys.argv[1:])
"""
CLEAN = """
import numpy as np
from haulage import cuda

@cuda.jit
def scale(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2

x = cuda.to_device(np.ones(1000))
for n in range(4):
    scale[8, 128](x)
print(x.copy_to_host().sum())
"""
FAILS = """
import numpy as np
from haulage import cuda

for n in range(3):
    x = cuda.to_device(np.arange(1000.0))
raise ValueError("that is all")
"""


advise = partial(on_the_cpu, "advise")


def line_of(program, text):
    """'file:line' of the first line of a program that has `text`."""
    lines = program.read_text().splitlines()
    return f"{program}:{next(n for n, line in enumerate(lines, 1) if text in line)}"


def test_repeated_uploads_are_told_with_the_line_and_what_to_write_instead(tmp_path):
    program = written(tmp_path / "repeats.py", REPEATS)
    done = advise(program, "one", "--two")
    assert (done.returncode, done.stdout) == (0, "4000.0 ['one', '--two']\n")
    assert "\033" not in done.stderr
    lines = done.stderr.splitlines()
    assert lines[0].startswith(f"haulage advise: {program} one --two: ")
    at = lines.index(
        f"{line_of(program, 'cuda.to_device')} in <module>: weights (1000,) float64 (to_device)"
    )
    assert lines[at + 1].startswith("  4 times to the device, 3 of them unchanged: 23.44 KiB of ")
    assert lines[at + 2] == (
        "  -> make `weights` a device array once, before it is repeated: "
        "d_weights = cuda.to_device(weights)"
    )
    assert any("total (1000,) float64 (kernel add, argument 'out')" in line for line in lines)
    assert lines[-1].startswith("On cpu:0 kernels use host arrays in place")


def test_the_same_as_json_in_the_last_line_of_the_output(tmp_path):
    program = written(tmp_path / "repeats.py", REPEATS)
    done = advise("--json", program)
    assert (done.returncode, done.stderr) == (0, "")
    *printed, last = done.stdout.splitlines()
    assert printed == ["4000.0 []"]
    data = json.loads(last)
    (finding,) = [each for each in data["findings"] if each["called"] == "to_device"]
    assert finding["line"] == line_of(program, "cuda.to_device")
    up = finding["to_device"]
    assert (up["all"]["count"], up["all"]["nbytes"]) == (4, 32000)
    assert (up["repeated"]["count"], up["repeated"]["nbytes"]) == (3, 24000)
    assert 0 < up["repeated"]["seconds"] < up["all"]["seconds"]
    assert data["transfers"]["count"] == 20
    assert data["program"] == str(program)


def test_where_nothing_was_repeated_one_line_says_so(tmp_path):
    program = written(tmp_path / "clean.py", CLEAN)
    done = advise(program)
    assert (done.returncode, done.stdout) == (0, "16000.0\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"haulage advise: {program}: 2 copies, 15.62 KiB, ")
    assert line.endswith("; none of them repeated unchanged data")


def test_a_program_without_a_device_is_told_in_one_line():
    done = advise("-c", "print('here')")
    assert (done.returncode, done.stdout) == (0, "here\n")
    assert done.stderr == (
        "haulage advise: the text of -c: nothing was copied between the host and a device\n"
    )


def test_a_program_that_fails_is_advised_and_keeps_its_exit_code(tmp_path):
    program = written(tmp_path / "fails.py", FAILS)
    file = tmp_path / "advice.txt"
    done = advise("-o", file, program)
    assert done.returncode == 1
    assert "ValueError: that is all\n" in done.stderr
    assert done.stderr.endswith(f"haulage: advice is in {file}\n")
    assert "3 times to the device, 2 of them unchanged: 15.62 KiB of 23.44 KiB" in file.read_text()
    assert "np.arange(1000.0) (1000,) float64 (to_device)" in file.read_text()


def test_forked_processes_are_advised_by_themselves(tmp_path):
    text = """
    import os
    import numpy as np
    from haulage import cuda

    child = os.fork()
    for n in range(2 if child else 3):
        cuda.to_device(np.ones(100))
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    os._exit(7)
    """
    done = advise("--json", written(tmp_path / "forks.py", text))
    assert done.returncode == 7
    child, parent = map(json.loads, done.stdout.splitlines())
    assert (child["repeated"]["count"], parent["repeated"]["count"]) == (2, 1)


def test_a_process_that_is_forked_while_a_thread_copies_ends(tmp_path):
    text = """
    import os
    import signal
    import sys
    import threading
    import time
    import numpy as np
    from haulage import cuda
    from haulage.runtime.process import runtime

    (watcher,) = runtime.current.watchers
    noting, noted = threading.Event(), threading.Event()

    def note():
        with watcher._lock:
            noting.set()
            noted.wait()

    cuda.to_device(np.ones(100))
    thread = threading.Thread(target=note)
    thread.start()
    noting.wait()
    child = os.fork()
    if not child:
        noted.set()
        cuda.to_device(np.ones(100))
        sys.exit(5)
    noted.set()
    for _ in range(200):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            sys.exit(os.waitstatus_to_exitcode(status))
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    """
    done = advise("--json", written(tmp_path / "forks.py", text))
    assert (done.returncode, done.stderr) == (5, "")
    child, parent = map(json.loads, done.stdout.splitlines())
    assert child["transfers"]["count"] == parent["transfers"]["count"] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--yes", "x.py"], "advise: unknown option --yes"),
        ([], "advise: no program is named"),
        (["-o", "/nowhere/at/all.txt", "x.py"], "there is no folder /nowhere/at; make it first"),
        (["-o", "/", "x.py"], "is a folder; name a file"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(words, said, capsys):
    assert main(["advise", *words]) == 2
    printed, told = capsys.readouterr()
    assert printed == ""
    (line,) = told.splitlines()
    assert line.startswith("haulage: ")
    assert said in line


def test_its_help_says_what_it_is_for(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["advise", "--device", "cpu", "--help"])
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "which copies between the host and the device repeated unchanged data" in text
    for option in ("--json", "--output", "--device", "-m MODULE", "-c CODE"):
        assert option in text
