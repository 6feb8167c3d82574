"""IPython's prompt where a kernel stops."""

import os
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("IPython")

PROGRAM = """
import builtins
from IPython.core.interactiveshell import InteractiveShell

answers = iter(ANSWERS)

def ask(prompt=""):
    print(prompt, end="")
    try:
        return next(answers)
    except StopIteration:
        raise NotImplementedError("no input here") from None

builtins.input = ask
shell = InteractiveShell.instance()
shell.run_line_magic("colors", "NoColor")
result = shell.run_cell('''
import numpy as np
from haulage import cuda

@cuda.jit
def double(x):
    i = cuda.grid(1)
    if i == 2:
        breakpoint()
    x[i] = 2 * i

x = np.zeros(4)
double[1, 4](x)
print(x)
''')
print("error:", result.error_in_exec)
"""


def run(*answers):
    program = textwrap.dedent(PROGRAM).replace("ANSWERS", repr(answers))
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "HAULAGE_DEVICE": "cpu"},
        timeout=120,
    )
    return done.stdout


def test_the_prompt_is_that_of_ipython():
    output = run("p i", "threads", "c")
    assert "(ipdb block 0 thread 2) 2\n" in output
    assert "0 to 1           have ended" in output
    assert "skipped" not in output
    assert "[0. 2. 4. 6.]\nerror: None" in output


def test_a_front_end_without_input_is_one_error():
    assert "error: block 0 thread 2 stopped, and input cannot be read: a debugger needs" in run()
