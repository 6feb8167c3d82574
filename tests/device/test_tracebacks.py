"""What is printed of an error: lines of the program, the reason last, and at most one screen."""

import os
import pickle
import subprocess
import sys
import textwrap
import traceback

import numpy as np
import pytest
from numba.core import errors

import haulage
from haulage import cuda, roc
from haulage.errors import CompileError, HaulageError, LaunchError, LaunchTypeError

pytestmark = pytest.mark.usefixtures("device")


def wrong(x):
    x[0] = x.no_such_attribute


def wrong_number(x):
    return x.no_such_attribute


def wrong_pair(a, b):
    return a.no_such_attribute


def wrong_core(x, y):
    y[0] = x.no_such_attribute


@cuda.jit
def takes_two(x, y):
    x[0] = y


def calls():
    """Everything that compiles a function of the user's: what it is -> a call that fails."""
    x = np.zeros(4)
    numbers = "(float64[:])"
    return {
        "launch": lambda: cuda.jit(wrong)[1, 1](x),
        "launch with a keyword": lambda: cuda.jit(wrong)[1, 1](x=x),
        "launch of a device array": lambda: cuda.jit(wrong)[1, 1](cuda.to_device(x)),
        "forall": lambda: cuda.jit(wrong).forall(4)(x),
        "configure": lambda: cuda.jit(wrong).configure(1, 1)(x),
        "roc": lambda: roc.jit(wrong)[1, 1](x),
        "signature": lambda: cuda.jit(f"void{numbers}")(wrong),
        "signature of a device function": lambda: cuda.jit(f"float64{numbers}", device=True)(wrong),
        "compile": lambda: cuda.jit(wrong).compile(f"void{numbers}"),
        "specialize": lambda: cuda.jit(wrong).specialize(x),
        "access": lambda: cuda.jit(wrong).access(f"void{numbers}"),
        "haulage.compile": lambda: haulage.compile(wrong, f"void{numbers}"),
        "compile_ptx": lambda: cuda.compile_ptx(wrong, f"void{numbers}"),
        "inspect_llvm": lambda: cuda.jit(device=True)(wrong).inspect_llvm((np.float64,)),
        "vectorize": lambda: cuda.vectorize("float64(float64)")(wrong_number),
        "call of a ufunc": lambda: cuda.vectorize(wrong_number)(x),
        "reduce of a ufunc": lambda: cuda.vectorize(wrong_pair).reduce(x),
        "guvectorize": lambda: cuda.guvectorize("void(float64[:], float64[:])", "(n)->(n)")(
            wrong_core
        ),
        "call of a gufunc": lambda: cuda.guvectorize("(n)->(n)")(wrong_core)(x, out=x.copy()),
        "reduce": lambda: cuda.reduce(wrong_pair)(x),
    }


def files(error):
    return {frame.filename for frame in traceback.extract_tb(error.__traceback__)}


@pytest.mark.parametrize("name", calls())
def test_no_frame_but_the_programs_own_wherever_a_function_is_compiled(name):
    with pytest.raises(CompileError, match="no_such_attribute") as caught:
        calls()[name]()
    assert files(caught.value) == {__file__}
    printed = "".join(traceback.format_exception(caught.value))
    assert len(printed.splitlines()) <= 24, printed
    assert f"{__file__}:" in str(caught.value)


@pytest.mark.parametrize(
    ("error", "launch"),
    [
        (LaunchTypeError, lambda: takes_two[1, 1](np.zeros(1))),
        (LaunchTypeError, lambda: takes_two[1, 1](np.zeros(1), [1])),
        (LaunchTypeError, lambda: takes_two[1.5, 1]),
        (LaunchError, lambda: takes_two[1, 5000](np.zeros(1), 1)),
        (LaunchError, lambda: takes_two(np.zeros(1), 1)),
        (LaunchError, lambda: takes_two.forall(-1)),
        (LaunchError, lambda: takes_two.configure(1, 1, 1, 1, 1)),
    ],
)
def test_no_frame_but_the_programs_own_of_launches_that_cannot_be(error, launch):
    with pytest.raises(error) as caught:
        launch()
    assert files(caught.value) == {__file__}


@pytest.mark.parametrize(
    "signature", ["void(float[:)", "void(flaot64)", "int32(int32)", "void(float32[:], None)", "3"]
)
@pytest.mark.parametrize("words", [cuda, roc])
def test_no_frame_but_the_programs_own_of_signatures_that_cannot_be(words, signature):
    with pytest.raises(TypeError, match="signature") as caught:
        words.jit(signature)(wrong)
    assert isinstance(caught.value, HaulageError)
    assert files(caught.value) == {__file__}


def test_a_failure_of_a_debug_kernel_has_no_frame_but_the_programs_own():
    @cuda.jit(debug=True, opt=False)
    def divides(x):
        x[0] = 1 // int(x[1])

    with pytest.raises(ZeroDivisionError) as caught:
        divides[1, 1](np.zeros(2))
    assert isinstance(caught.value, HaulageError)
    assert files(caught.value) == {__file__}


def test_the_rest_is_in_full_traceback():
    with pytest.raises(CompileError) as caught:
        cuda.jit(wrong)[1, 1](np.zeros(4))
    full = caught.value.full_traceback
    assert "typeinfer.py" in full
    assert "launches.pyx" in full
    assert "During: typing of" in full
    assert full.rstrip().endswith(str(caught.value).splitlines()[-1])


def test_of_an_error_that_no_call_shortened_full_traceback_is_the_traceback():
    try:
        raise LaunchError("here") from ValueError("there")
    except LaunchError as error:
        told = error.full_traceback
    assert "ValueError: there" in told
    assert "LaunchError: here" in told
    assert __file__ in told


@pytest.mark.parametrize("name", ["HAULAGE_FULL_TRACEBACKS", "NUMBA_FULL_TRACEBACKS"])
def test_all_frames_and_what_numba_said_on_demand(monkeypatch, name):
    monkeypatch.setenv(name, "1")
    with pytest.raises(CompileError) as caught:
        cuda.jit(wrong)[1, 1](np.zeros(4))
    assert any("launches" in file for file in files(caught.value))
    assert isinstance(caught.value.__cause__, errors.NumbaError)
    assert "Unknown attribute 'no_such_attribute' of type array" in str(caught.value)


def test_haulages_own_setting_counts_before_numbas(monkeypatch):
    monkeypatch.setenv("NUMBA_FULL_TRACEBACKS", "1")
    monkeypatch.setenv("HAULAGE_FULL_TRACEBACKS", "0")
    with pytest.raises(CompileError) as caught:
        cuda.jit(wrong)[1, 1](np.zeros(4))
    assert files(caught.value) == {__file__}


def test_another_value_of_the_setting(monkeypatch):
    monkeypatch.setenv("HAULAGE_FULL_TRACEBACKS", "yes")
    with pytest.raises(ValueError, match="HAULAGE_FULL_TRACEBACKS='yes': expected 0 or 1"):
        cuda.jit(wrong)[1, 1](np.zeros(4))


@pytest.mark.parametrize("name", ["operations._note_constraint", "reasons.diagnosis"])
def test_what_fails_while_the_reason_is_looked_for_does_not_hide_it(monkeypatch, name):
    def broken(*_):
        raise KeyError("broken")

    monkeypatch.setattr(f"haulage.compiler.frontend.{name}", broken)
    with pytest.raises(CompileError, match="no_such_attribute") as caught:
        cuda.jit(wrong)[1, 1](np.zeros(4))
    assert "KeyError('broken')" in caught.value.__notes__[0]


def test_a_shortened_error_is_still_of_numbas_class_and_can_be_pickled():
    with pytest.raises(errors.TypingError) as caught:
        cuda.jit(wrong)[1, 1](np.zeros(4))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(LaunchTypeError) as plain:
        takes_two[1, 1](np.zeros(1))
    again = pickle.loads(pickle.dumps(plain.value))
    assert (type(again), str(again)) == (type(plain.value), str(plain.value))


def test_the_call_and_the_failing_line_of_a_function_in_another_file(tmp_path, monkeypatch):
    (tmp_path / "inner_words.py").write_text(
        "from haulage import cuda\n@cuda.jit(device=True)\ndef inner(x):\n    return x[1.5]\n"
    )
    (tmp_path / "outer_words.py").write_text(
        "import inner_words\ndef outer(x):\n    return inner_words.inner(x) + 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import outer_words

    @cuda.jit
    def kernel(x):
        x[0] = outer_words.outer(x)

    with pytest.raises(CompileError) as caught:
        kernel[1, 1](np.zeros(3))
    lines = str(caught.value).splitlines()
    assert lines[1:4] == [
        f"  in {tmp_path}/inner_words.py:4",
        "    return x[1.5]",
        "             ^^^",
    ]
    assert lines[4:6] == [
        f"  called from {tmp_path}/outer_words.py:3",
        "    return inner_words.inner(x) + 1",
    ]
    assert lines[6].startswith(f"  called from {__file__}:")
    assert lines[7] == "    x[0] = outer_words.outer(x)"
    assert lines[8].startswith("the index 1.5 is a float64")


def test_of_many_calls_those_next_to_the_line_and_the_outermost():
    source = ["def f0(x):", "    return x.no_such_attribute"]
    for n in range(1, 9):
        source += [f"def f{n}(x):", f"    return f{n - 1}(x)"]
    made = {}
    exec("\n".join(source), made)
    f8 = made["f8"]

    @cuda.jit
    def kernel(x):
        x[0] = f8(x)

    with pytest.raises(CompileError) as caught:
        kernel[1, 1](np.zeros(3))
    assert "... 6 calls between" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 12


PROGRAM = """
    import numpy as np
    from haulage import cuda


    @cuda.jit
    def halve(out, x):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = x[i / 2]


    def main():
        x = np.arange(8.0)
        halve[1, 8](np.zeros(4), x)


    main()
"""
LAST = "the index i / 2 is a float64, and an index has to be an int: / gives a float, write i // 2"


def rows(text, width=80):
    """Rows of a terminal that a text takes."""
    return sum(max(-(-len(line) // width), 1) for line in text.splitlines())


def test_a_script_prints_at_most_one_screen_with_the_reason_last(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(PROGRAM))
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=120, check=False
    )
    printed = done.stderr
    assert done.returncode == 1
    assert rows(printed) <= 24, printed
    assert printed.rstrip().splitlines()[-4:] == [
        f"  in {script}:10",
        "    out[i] = x[i / 2]",
        "               ^^^^^",
        LAST,
    ]
    assert "site-packages" not in printed
    assert os.path.dirname(haulage.__file__) not in printed


def test_ipython_prints_at_most_one_screen_with_the_reason_last(tmp_path):
    pytest.importorskip("IPython", reason="IPython is not installed")
    program = (
        "import io, contextlib\n"
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance(colors='nocolor', xmode='Context')\n"
        f"cells = {textwrap.dedent(PROGRAM)!r}.strip().split('\\n\\n\\n')\n"
        "for cell in cells[:-1]:\n"
        "    assert shell.run_cell(cell, store_history=True).success\n"
        "assert not shell.run_cell(cells[-1], store_history=True).success\n"
    )
    environment = {**os.environ, "IPYTHONDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env=environment,
    )
    printed = done.stdout
    assert rows(printed) <= 24, printed
    assert printed.rstrip().splitlines()[-4:] == [
        "  in Cell In[2], line 5",
        "    out[i] = x[i / 2]",
        "               ^^^^^",
        LAST,
    ]
    assert "site-packages" not in printed
    assert os.path.dirname(haulage.__file__) not in printed
