"""`haulage run`: programs of numba.cuda's run as `python` runs them, and so do their children."""

import os
import signal
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from haulage.hook import children

# Whose finder comes first tells who answers `numba.cuda`, without the time to import Numba.
FIRST = "type(sys.meta_path[0]).__module__"
SAYS = f"import sys; print({FIRST}, __name__, sys.argv[1:])"


def run(*words, before=(), env=None, **options):
    """`haulage run WORDS`, with options of Python before it and changes of the environment."""
    return subprocess.run(
        [sys.executable, *before, "-m", "haulage", "run", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **(env or {})},
        check=False,
        **options,
    )


def said(*words, **options):
    """What a program printed that ended well and said nothing else."""
    done = run(*words, **options)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()


def written(path, text):
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def test_a_numba_cuda_program_runs_unmodified(tmp_path):
    program = written(
        tmp_path / "double.py",
        """
        import numpy as np
        from numba import cuda

        @cuda.jit
        def double(x):
            i = cuda.grid(1)
            if i < x.size:
                x[i] *= 2

        x = np.arange(5.0)
        double[1, 32](x)
        print(x.sum(), cuda.get_current_device().name != "", cuda.jit.__module__)
        """,
    )
    done = run("--device", "cpu", program)
    assert done.stdout == "20.0 True haulage.kernel.decorator\n", done.stderr


def test_a_program_of_the_time_when_numba_had_smart_arrays(tmp_path):
    program = written(
        tmp_path / "old.py",
        """
        import numpy as np
        import numba
        from numba import SmartArray, cuda

        @numba.jit(nopython=True)
        def double(x, y):
            for i in range(x.shape[0]):
                y[i] = x[i] * 2

        @cuda.jit
        def double_there(x, y):
            i = cuda.threadIdx.x
            if i < x.shape[0]:
                y[i] = x[i] * 2

        a = numba.SmartArray(np.arange(10.0))
        b = SmartArray(shape=a.shape, dtype=a.dtype, order="C")
        c = SmartArray(obj=np.zeros(10), copy=False, where="gpu")
        double(a, b)
        double_there[2, 32](b, c)
        print(c[3], (a == np.arange(10)).all(), len(c))
        host = b.get("host")
        host[:] = 1
        b.mark_changed("host")
        double_there[2, 32](b, c)
        there = c.get("gpu")
        there[0] = 5
        c.mark_changed("gpu")
        print(*c.get(where="host"))
        d = SmartArray(None, True, (3, 4), np.float32, "F", "gpu")
        print(d.shape, d.dtype, d.flags.f_contiguous, numba.SmartArray.__module__)
        """,
    )
    assert said(program).splitlines() == [
        "12.0 True 10",
        "5.0 2.0 2.0 2.0 2.0 2.0 2.0 2.0 2.0 2.0",
        "(3, 4) float32 True haulage.smart.array",
    ]


def test_each_form_that_python_has(tmp_path):
    folder = tmp_path / "program"
    folder.mkdir()
    written(folder / "__main__.py", SAYS)
    written(folder / "module.py", SAYS)
    archive = tmp_path / "program.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        zipped.write(folder / "__main__.py", "__main__.py")
    expected = "haulage.hook.finder __main__ ['-x', '--device', 'none']"
    arguments = ["-x", "--device", "none"]
    for words, options in (
        ([folder / "module.py"], {}),
        (["--", folder / "module.py"], {}),
        ([folder], {}),
        ([archive], {}),
        (["-m", "module"], {"cwd": folder}),
        (["-mmodule"], {"cwd": folder}),
        (["-m", "program"], {"cwd": tmp_path}),
        (["-c", SAYS], {}),
        (["-"], {"input": SAYS}),
    ):
        assert said(*words, *arguments, **options) == expected, words


def test_a_program_sees_what_it_sees_under_python(tmp_path):
    (tmp_path / "here").mkdir()
    program = written(
        tmp_path / "here" / "program.py",
        """
        import sys
        print(__file__, __spec__, sys.argv, sys.path, sys.flags, sys.warnoptions)
        print(sys.modules["__main__"].__dict__ is globals(), sorted(globals()))
        """,
    )
    options = ["-X", "dev", "-W", "error", "-u"]
    plain = subprocess.check_output([sys.executable, *options, program, "a"], text=True)
    assert said(program, "a", before=options) == plain.strip()


def test_status_and_traceback_are_the_programs(tmp_path):
    assert run("-c", "raise SystemExit(7)").returncode == 7
    told = run("-c", "raise SystemExit('no')")
    assert (told.returncode, told.stderr) == (1, "no\n")
    program = written(tmp_path / "fails.py", "def f():\n    1 / 0\n\nf()\n")
    failed = run(program)
    assert failed.returncode == 1
    assert failed.stderr.startswith("Traceback")
    assert failed.stderr.count("File ") == failed.stderr.count(f'File "{program}"') == 2


@pytest.mark.skipif(os.name == "nt", reason="there the program is another process")
def test_signals_reach_the_program():
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-m", "haulage", "run", "-c", code],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == process.pid
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == -signal.SIGTERM


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "no program is named: expected PROGRAM"),
        (["--"], "no program is named"),
        (["-x", "p.py"], "unknown option -x"),
        (["-m"], "-m: expected a module"),
        (["-c"], "-c: expected a program text"),
        (["--device"], "--device: expected the name"),
        (["--device", "toaster", "p.py"], "--device 'toaster'"),
        (["--device=toaster", "p.py"], "--device 'toaster'"),
    ],
)
def test_wrong_words_are_one_line(words, part):
    done = run(*words)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert part in done.stderr
    assert done.stderr.startswith("haulage: ")


def test_its_help_is_reached_before_and_after_the_device():
    shown = [run(*words).stdout for words in (["-h"], ["--device", "cpu", "--help"])]
    assert shown[0] == shown[1]
    assert shown[0].startswith("usage: haulage run [-h] [--device D] (PROGRAM | -m MODULE")


def test_a_program_that_is_not_there_is_pythons_error(tmp_path):
    missing = run(tmp_path / "none.py")
    assert missing.returncode == 2
    assert "can't open file" in missing.stderr
    module = run("-m", "no_such_module")
    assert module.returncode == 1
    assert "No module named no_such_module" in module.stderr


def test_a_python_that_ignores_its_environment_is_refused(tmp_path):
    # Isolated Python has no PYTHONPATH, so Haulage is found by the folder that it is run from.
    source = Path(children.FOLDER).parents[2]
    done = run("-c", "pass", before=["-E"], cwd=source)
    assert done.returncode == 2
    assert "-E, -I or -S" in done.stderr


def test_a_haulage_that_is_found_by_the_working_folder_only_reaches_the_program(tmp_path):
    source = Path(children.FOLDER).parents[2]
    code = "import os; os.chdir('/'); import sys; from numba import cuda; print(cuda.__name__)"
    assert said("-c", code, cwd=source, env={"PYTHONPATH": ""}) == "haulage.cuda"


def test_the_setting_of_numbas_simulator_is_left_out_and_that_is_told():
    code = "import numba; print(numba.config.ENABLE_CUDASIM)"
    done = run("-c", code, env={"NUMBA_ENABLE_CUDASIM": "1"})
    assert done.stdout == "0\n"
    (line,) = done.stderr.splitlines()
    assert line.startswith("haulage: NUMBA_ENABLE_CUDASIM=1 is left out")
    assert run("-c", "", env={"NUMBA_ENABLE_CUDASIM": "0"}).stderr == ""


def test_a_setting_that_takes_all_devices_away_reaches_the_program():
    code = "from numba import cuda; print(cuda.is_available())"
    assert said("-c", code, env={"NUMBA_DISABLE_CUDA": "1"}) == "False"


def test_the_folder_of_a_program_does_not_stand_in_for_haulage(tmp_path):
    (tmp_path / "haulage").mkdir()
    written(tmp_path / "haulage" / "__init__.py", "raise RuntimeError('the wrong one')")
    program = written(tmp_path / "program.py", "import numba.cuda; print(numba.cuda.__name__)")
    assert said(program) == "haulage.cuda"


def test_child_processes_get_haulage_too(tmp_path):
    program = written(
        tmp_path / "parent.py",
        """
        import multiprocessing, os, subprocess, sys
        from concurrent.futures import ProcessPoolExecutor

        def name(_=None):
            return type(sys.meta_path[0]).__module__

        if __name__ == "__main__":
            for way in multiprocessing.get_all_start_methods():
                context = multiprocessing.get_context(way)
                with ProcessPoolExecutor(1, mp_context=context) as pool:
                    print(way, *pool.map(name, [0]))
            code = "import sys; print(type(sys.meta_path[0]).__module__)"
            again = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"
            for words in (["-c", code], ["-c", again], ["-m", "haulage", "run", "-c", code]):
                print(subprocess.check_output([sys.executable, *words], text=True), end="")
        """,
    )
    lines = said(program).splitlines()
    assert [line.split()[-1] for line in lines] == ["haulage.hook.finder"] * len(lines)
    assert len(lines) >= 5


def test_another_sitecustomize_is_imported_as_without_haulage(tmp_path):
    written(tmp_path / "sitecustomize.py", "import sys; sys.theirs = __file__")
    code = "import sys, sitecustomize; print(sys.theirs == sitecustomize.__file__, sys.theirs)"
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    out = said("-c", code, env={"PYTHONPATH": path})
    assert out == f"True {tmp_path / 'sitecustomize.py'}"
    written(tmp_path / "sitecustomize.py", "1 / 0")
    failed = run("-c", SAYS, env={"PYTHONPATH": path})
    assert failed.stdout == "haulage.hook.finder __main__ []\n"
    assert "Error in sitecustomize" in failed.stderr
    assert "ZeroDivisionError" in failed.stderr


def test_children_of_an_installed_program_get_haulage_if_asked_for_until_uninstall():
    code = """
        import os, subprocess, sys
        import haulage
        before = os.environ.get("PYTHONPATH")

        def child():
            text = "import sys; print('haulage.hook.installing' in sys.modules)"
            return subprocess.check_output([sys.executable, "-c", text], text=True).strip()

        haulage.install()
        print(child())
        haulage.install(children=True)
        haulage.install(children=True)
        print(child(), os.environ["PYTHONPATH"].count("for_children"))
        haulage.uninstall()
        print(child(), os.environ.get("PYTHONPATH") == before)
    """
    out = subprocess.check_output([sys.executable, "-c", textwrap.dedent(code)], text=True)
    assert out.splitlines() == ["False", "True 1", "False True"]


def test_an_empty_program_loads_neither_numba_nor_numpy_nor_the_other_commands():
    code = (
        "import sys; print({'numba', 'numpy', 'rich', 'argparse', 'haulage.cuda', 'subprocess'}"
        " & set(sys.modules))"
    )
    assert said("-c", code) == "set()"


def test_a_python_that_is_too_old_for_haulage_is_left_alone():
    program = f"""
        import sys
        sys.version_info = (3, 10, 0)
        sys.modules.pop("sitecustomize", None)
        sys.path.insert(0, {children.FOLDER!r})
        import sitecustomize
        assert not any(name.split(".")[0] == "haulage" for name in sys.modules)
        assert {children.FOLDER!r} not in sys.path
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)
