"""`haulage debug`: one thread of a kernel in pdb, with commands from standard input."""

import os
import subprocess
import sys

import pytest

from haulage.cli import main

PROGRAM = """
import numpy as np
from numba import cuda

@cuda.jit(device=True)
def twice(value):
    result = value * 2
    return result

@cuda.jit
def mirror(x, y):
    s = cuda.shared.array(8, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = x[i]
    cuda.syncthreads()
    y[i] = twice(s[7 - t])

@cuda.jit
def fail(x):
    i = cuda.grid(1)
    x[i + 1] = i

x = cuda.to_device(np.arange(32, dtype=np.float32))
y = cuda.device_array(32, np.float32)
mirror[4, 8](x, y)
expected = 2 * np.arange(32).reshape(4, 8)[:, ::-1].ravel()
print("right" if np.array_equal(y.copy_to_host(), expected) else "wrong")
if 0:
    fail[1, 8](np.zeros(8))
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def debug(*words, commands):
    """(exit status, output, errors) of a command, to which these are typed."""
    done = subprocess.run(
        [sys.executable, "-m", "haulage", "debug", *map(str, words)],
        input="".join(f"{each}\n" for each in commands),
        capture_output=True,
        text=True,
        env={**os.environ, "HOME": "/nonexistent"},
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_first_thread_of_the_first_kernel_stops_in_its_first_line(program):
    status, output, errors = debug(program, commands=["c"])
    assert "-> s = cuda.shared.array(8, np.float32)" in output
    assert "(Pdb block 0 thread 0) right" in output
    assert (status, errors) == (0, "")


def test_a_step_over_a_barrier_brings_all_threads_there(program):
    commands = ["until 16", "threads", "n", "p s", "threads", "c"]
    words = ("--kernel", "mirror", "--block", "2", "--thread", "5,0", program)
    status, output, errors = debug(*words, commands=commands)
    assert (status, errors) == (0, "")
    assert f"  0 to 4           at {program}:16, waiting in syncthreads()" in output
    assert f"* 5                at {program}:16" in output
    assert "  6 to 7           have not begun" in output
    assert "array([16., 17., 18., 19., 20., 21., 22., 23.], dtype=float32)" in output
    assert f"* 5                at {program}:17" in output
    assert output.endswith("right\n")


def test_locals_are_shown_and_changed_and_device_functions_stepped_into(program):
    commands = ["b 17", "c", "s", "s", "where", "n", "p result", "u", "p t, i"]
    commands += ["d", "!result = 0", "c"]
    status, output, _ = debug("--block", "1", program, commands=commands)
    assert status == 0
    assert "--Call--" in output
    assert "twice()" in output
    assert "np.float64(30.0)" in output
    assert "(0, 8)" in output
    assert output.endswith("wrong\n")


def test_another_thread_comes_into_focus(program):
    commands = [
        "thread 6",
        "p t",
        "n",
        "n",
        "p t",
        "thread 0",
        "p t",
        "n",
        "thread 9",
        "thread",
        "c",
    ]
    status, output, _ = debug("--thread", "5", program, commands=commands)
    assert status == 0
    assert "(Pdb block 0 thread 6) *** NameError" in output
    assert "(Pdb block 0 thread 6) 6" in output
    assert "(Pdb block 0 thread 0) 0" in output
    assert "*** there is no thread 9: the block has the sizes (8, 1, 1)" in output
    assert "(Pdb block 0 thread 0) block 0 thread 0" in output
    assert output.endswith("right\n")


def test_an_error_of_the_kernel_shows_where_it_was_raised(program):
    program.write_text(PROGRAM.replace("if 0:", "if 1:"))
    status, output, errors = debug("--kernel", "fail", program, commands=["c", "p i", "where", "c"])
    assert status == 1
    assert (
        "IndexError in block 0 thread 7: index 8 is out of bounds for axis 0 with size 8" in output
    )
    assert "(Pdb block 0 thread 7) 7" in output
    assert "KernelError: kernel fail: a thread raised IndexError" in errors
    assert "tid=[7, 0, 0] ctaid=[0, 0, 0]" in errors


def test_quit_gives_the_launch_up(program):
    status, output, errors = debug(program, commands=["q"])
    assert status == 1
    assert "right" not in output
    assert errors.rstrip().endswith("bdb.BdbQuit")


def test_the_end_of_the_input_is_one_error(program):
    status, _, errors = debug(program, commands=[])
    assert status == 1
    assert "LaunchError: block 0 thread 0 stopped, and the input has ended" in errors


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--block", "9"), "no block 9 in this launch: its grid has the sizes (4, 1, 1)"),
        (("--thread", "0,1"), "no thread 0,1 in this launch: its blocks have the sizes (8, 1, 1)"),
        (("--kernel", "miror"), "launched were mirror (1 times). Did you mean 'mirror'?"),
        (("--launch", "2"), "there was no launch 2 of a kernel"),
    ],
)
def test_what_is_not_there_is_told(program, words, says):
    _, _, errors = debug(*words, program, commands=["c"])
    assert says in errors


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--block", "x", "p.py"], "--block x: expected an index such as 3 or 3,0"),
        (["--launch", "0", "p.py"], "--launch 0: expected a whole number of at least 1"),
        (["-"], "the program cannot come from standard input"),
    ],
)
def test_what_cannot_be_asked_is_refused(capsys, words, says):
    assert main(["debug", *words]) == 2
    assert says in capsys.readouterr().err


def test_a_kernel_with_breakpoint_stops_there_alone(program):
    text = PROGRAM.replace("    y[i] =", "    if i == 10: breakpoint()\n    y[i] =")
    program.write_text(text)
    status, output, _ = debug(program, commands=["p i", "c"])
    assert status == 0
    assert output.count("(Pdb ") == 2
    assert "(Pdb block 1 thread 2) 10" in output
    status, output, _ = debug("--thread", "2", program, commands=["c"])
    assert "(Pdb block 0 thread 2) right" in output


def test_options_stand_behind_the_program_too_and_its_own_words_behind_two_dashes(tmp_path):
    program = tmp_path / "words.py"
    program.write_text("import sys\n" + PROGRAM + "print(sys.argv[1:])\n")
    words = (program, "--kernel", "mirror", "--block=2", "--", "--block", "7", "more")
    status, output, errors = debug(*words, commands=["c"])
    assert (status, errors) == (0, "")
    assert "(Pdb block 2 thread 0) right\n['--block', '7', 'more']\n" in output
    status, output, errors = debug(program, "--thread", commands=[])
    assert status == 2
    assert "--thread: expected an index" in errors


def test_a_kernel_that_is_checked_stops_as_others_and_is_not_checked(program):
    program.write_text(
        PROGRAM.replace("y = cuda.device_array", "import haulage\ny = cuda.device_array")
        .replace("mirror[4, 8](x, y)", "with haulage.check() as result:\n    mirror[4, 8](x, y)")
        .replace('print("right"', 'print(result.launches, result.accesses, "right"')
    )
    status, output, errors = debug("--block", "2", program, commands=["c"])
    assert "(Pdb block 2 thread 0) 1 0 right" in output
    assert status == 0, errors
