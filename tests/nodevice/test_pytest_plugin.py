"""`pytest --haulage`: numba.cuda is Haulage's in a test suite, from its first `conftest.py` on; and
`haulage_leaks`, with which a test fails that leaves memory behind."""

import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import haulage
from support.findings import program


@pytest.fixture
def suite(tmp_path):
    """Runs pytest on a suite whose `conftest.py` imports numba.cuda at its top."""
    (tmp_path / "conftest.py").write_text("from numba import cuda\nname = cuda.__name__\n")
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent("""
        import os, subprocess, sys
        import conftest

        def test_who_answers():
            from numba import cuda
            code = "import sys; print(type(sys.meta_path[0]).__module__)"
            child = subprocess.check_output([sys.executable, "-c", code], text=True).strip()
            print("told", conftest.name, cuda.__name__, child, os.environ.get("HAULAGE_DEVICE"))
        """)
    )

    def run(*options, **environment):
        plugins = ["-p", "haulage.pytest_plugin", "-p", "no:cacheprovider"]
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-rA", *plugins, *options],
            cwd=tmp_path,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


def test_the_tests_their_conftest_and_their_children_get_haulage(suite):
    done = suite("--haulage", "--haulage-device", "cpu:0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "told haulage.cuda haulage.cuda haulage.hook.finder cpu:0" in done.stdout
    assert "haulage: numba.cuda, numba.roc and numba.hip are Haulage's, on cpu:0 (" in done.stdout


def test_a_setting_of_the_suite_does_the_same_and_numbas_are_left_out(suite, tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nhaulage = true\n")
    done = suite(NUMBA_ENABLE_CUDASIM="1", HAULAGE_DEVICE="cpu")
    assert "told haulage.cuda haulage.cuda haulage.hook.finder cpu" in done.stdout
    assert "haulage: NUMBA_ENABLE_CUDASIM=1 is left out" in done.stdout


def test_workers_of_xdist_get_haulage(suite):
    if importlib.util.find_spec("xdist") is None:
        pytest.skip("pytest-xdist is not installed")
    done = suite("--haulage", "-n1")
    assert "told haulage.cuda haulage.cuda haulage.hook.finder" in done.stdout, done.stderr


def test_without_the_option_nothing_is_installed_or_imported(suite, tmp_path):
    (tmp_path / "conftest.py").write_text("name = 'none'\n")
    (tmp_path / "test_it.py").write_text(
        "import sys\n"
        "def test_it():\n"
        "    assert not {'haulage.hook.finder', 'haulage.platforms', 'numpy'} & set(sys.modules)\n"
    )
    done = suite()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "haulage:" not in done.stdout


def test_a_device_that_is_not_there_is_one_line(suite):
    done = suite("--haulage-device", "toaster")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "--haulage-device 'toaster'" in done.stderr
    assert len(done.stderr.split("\n\n")[0].splitlines()) == 1


def test_a_run_of_pytest_in_the_same_process_is_undone_after_it(tmp_path):
    (tmp_path / "test_it.py").write_text("def test_it():\n    from numba import cuda\n")
    program = f"""
        import os, sys
        import pytest
        before = [os.environ.get(name) for name in ("PYTHONPATH", "HAULAGE_DEVICE")]
        words = ["-q", "-p", "haulage.pytest_plugin", "-p", "no:cacheprovider", {str(tmp_path)!r}]
        assert pytest.main(["--haulage-device", "cpu", *words]) == 0
        assert [os.environ.get(name) for name in ("PYTHONPATH", "HAULAGE_DEVICE")] == before
        assert "numba.cuda" not in sys.modules
        import haulage
        haulage.install()
        from numba import cuda
        assert pytest.main(["--haulage", *words]) == 0
        assert sys.modules["numba.cuda"] is cuda is haulage.cuda
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        check=True,
        stdout=subprocess.DEVNULL,
        timeout=120,
        cwd=tmp_path,
    )


def test_an_installed_haulage_that_came_before_pytest_is_no_warning(tmp_path):
    site = tmp_path / "site"
    (site / "haulage-1.dist-info").mkdir(parents=True)
    (site / "haulage").symlink_to(Path(haulage.__file__).parent)
    for name, text in {
        "METADATA": "Metadata-Version: 2.1\nName: haulage\nVersion: 1\n",
        "RECORD": "haulage/__init__.py,,\nhaulage/pytest_plugin.py,,\n",
        "entry_points.txt": "[pytest11]\nhaulage.pytest_plugin = haulage.pytest_plugin\n",
    }.items():
        (site / "haulage-1.dist-info" / name).write_text(text)
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    done = subprocess.run(
        [sys.executable, "-m", "haulage", "run", "-m", "pytest", "-W", "error", "--haulage"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "haulage-1" in done.stdout


# ---- haulage_leaks ------------------------------------------------------------------------------


@pytest.fixture
def leaking(suite, tmp_path):
    """Runs pytest on tests of which some leave memory behind."""
    (tmp_path / "conftest.py").write_text("")
    (tmp_path / "test_it.py").write_text(
        textwrap.dedent("""
        import unittest
        import pytest
        from haulage import cuda

        kept = []

        @pytest.fixture(scope="module")
        def of_module():
            return cuda.device_array(10)

        @pytest.fixture
        def of_test():
            return cuda.device_array(20)

        def test_that_leaks(haulage_leaks):
            kept.append(cuda.device_array(100))

        def test_that_is_clean(of_module, haulage_leaks, of_test):
            cycle = [cuda.device_array(30)]
            cycle.append(cycle)

        def test_that_fails(haulage_leaks):
            array = cuda.device_array(40)
            assert array.size == 41

        def test_that_is_skipped(haulage_leaks):
            array = cuda.device_array(50)
            pytest.skip("now")

        def test_that_does_not_ask():
            kept.append(cuda.device_array(200))

        def test_that_looks_itself(haulage_leaks):
            array = cuda.device_array(60)
            assert "480 bytes" in haulage_leaks.report()

        class TestOfUnittest(unittest.TestCase):
            def setUp(self):
                self.array = cuda.device_array(70)

            def test_that_is_clean_too(self):
                assert self.array.size == 70
        """)
    )
    return suite


def outcomes(done):
    return sorted(line.split(" - ")[0] for line in done.stdout.splitlines() if "::" in line)


OTHERS = [
    "FAILED test_it.py::test_that_fails",
    "PASSED test_it.py::TestOfUnittest::test_that_is_clean_too",
    "PASSED test_it.py::test_that_does_not_ask",
    "PASSED test_it.py::test_that_is_clean",
    "PASSED test_it.py::test_that_leaks",
    "PASSED test_it.py::test_that_looks_itself",
]


@pytest.mark.parametrize("option", [[], ["--haulage"]])
def test_a_test_that_leaves_memory_behind_is_an_error_with_the_line(leaking, tmp_path, option):
    done = leaking(*option)
    assert outcomes(done) == ["ERROR test_it.py::test_that_leaks", *OTHERS], done.stdout
    assert "800 bytes in 1 block, device memory on " in done.stdout
    assert f"{tmp_path / 'test_it.py'}:17 in test_that_leaks" in done.stdout
    assert "pytest_plugin.py" not in done.stdout


@pytest.mark.parametrize("way", ["option", "setting"])
def test_all_tests_can_be_looked_at(leaking, tmp_path, way):
    if way == "setting":
        (tmp_path / "pytest.ini").write_text("[pytest]\nhaulage_leaks = true\n")
    done = leaking(*(["--haulage-leaks"] if way == "option" else []))
    errors = ["ERROR test_it.py::test_that_does_not_ask", "ERROR test_it.py::test_that_leaks"]
    assert outcomes(done) == [*errors, *OTHERS], done.stdout


def test_workers_of_xdist_look_too(leaking):
    if importlib.util.find_spec("xdist") is None:
        pytest.skip("pytest-xdist is not installed")
    done = leaking("-n1")
    assert "ERROR test_it.py::test_that_leaks" in outcomes(done)
    assert "800 bytes in 1 block" in done.stdout


# ---- --haulage-check ----------------------------------------------------------------------------


@pytest.fixture
def checked(suite, tmp_path):
    """Runs pytest on tests in which something is found."""
    (tmp_path / "conftest.py").write_text("")
    program(
        tmp_path / "test_it.py",
        """
        import subprocess
        import pytest
        from numba import cuda

        @pytest.fixture
        def bad_fixture():
            found("race", 3)

        @pytest.fixture
        def bad_end():
            yield
            found("race", 3)

        def test_that_races():
            found("race", 3, 5)

        def test_that_is_clean():
            assert cuda.__name__ == "haulage.cuda"

        def test_that_races_at_the_same_lines():
            found("race", 3, 5)

        def test_that_fails_and_races():
            found("race")
            assert 1 == 2

        def test_with_a_fixture(bad_fixture):
            pass

        def test_with_an_end(bad_end):
            pass

        def test_of_a_child():
            code = (
                "from haulage.checking.findings import *;"
                "from haulage.runtime.process import runtime;"
                "it = Finding('race', 'of a child', Access(Place('c.py', 3), 'write'));"
                "runtime.current.checker.findings.add(it)"
            )
            subprocess.run([sys.executable, "-c", code], check=True)

        def test_of_a_fork():
            if not os.fork():
                found("race", 3)
                os._exit(0)
            os.wait()

        def test_that_is_clean_after_it():
            pass

        @pytest.mark.haulage_check(expect="race")
        def test_that_expects_a_race():
            found("race")

        @pytest.mark.haulage_check(expect="race")
        def test_that_expects_a_race_in_vain():
            pass

        @pytest.mark.haulage_check(expect="racecheck,barrier", only=["race", "bounds", "barrier"])
        def test_that_expects_two_and_has_another():
            found("race")
            found("barrier")
            found("bounds")
            found("uninitialized")

        @pytest.fixture
        def traced():
            runtime.current.observer = "another one"
            yield
            runtime.current.observer = None

        @pytest.mark.haulage_check(off=True)
        def test_that_is_not_looked_at(traced):
            assert runtime.current.checker is None

        @pytest.mark.haulage_check("race")
        def test_with_a_wrong_marker():
            pass

        @pytest.mark.haulage_check(expect="rcae")
        def test_with_a_misspelt_marker():
            pass
        """,
    )
    return lambda *words, **environment: suite("--strict-markers", *words, **environment)


OF_CHECKS = [
    "ERROR test_it.py::test_with_a_fixture",
    "ERROR test_it.py::test_with_a_misspelt_marker",
    "ERROR test_it.py::test_with_a_wrong_marker",
    "ERROR test_it.py::test_with_an_end",
    "FAILED test_it.py::test_of_a_child",
    "FAILED test_it.py::test_of_a_fork",
    "FAILED test_it.py::test_that_expects_a_race_in_vain",
    "FAILED test_it.py::test_that_expects_two_and_has_another",
    "FAILED test_it.py::test_that_fails_and_races",
    "FAILED test_it.py::test_that_races",
    "FAILED test_it.py::test_that_races_at_the_same_lines",
    "PASSED test_it.py::test_that_expects_a_race",
    "PASSED test_it.py::test_that_is_clean",
    "PASSED test_it.py::test_that_is_clean_after_it",
    "PASSED test_it.py::test_that_is_not_looked_at",
    "PASSED test_it.py::test_with_an_end",
]


@pytest.mark.parametrize("words", [["--haulage-check"], ["--haulage-check", "test_it.py"], ["-n2"]])
def test_a_test_fails_in_which_something_is_found(checked, tmp_path, words):
    if words == ["-n2"]:
        if importlib.util.find_spec("xdist") is None:
            pytest.skip("pytest-xdist is not installed")
        words = ["--haulage-check=all", "-n2"]
    done = checked(*words)
    assert outcomes(done) == OF_CHECKS, done.stdout + done.stderr
    assert done.returncode == 1
    assert "test_it.py:3 and test_it.py:5 in kernel k\n" in done.stdout
    assert "pytest_plugin.py" not in done.stdout
    assert "of a child" in done.stdout
    assert "test_that_races - Failed: race in kernel k at test_it.py:3" in done.stdout
    assert "expects findings that were not made: race" in done.stdout
    assert "write only='race', and not 'race' alone" in done.stdout
    assert "no kind of finding 'rcae'. Did you mean 'race'?" in done.stdout
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("haulage check: ")]
    assert line == (
        "haulage check: 8 findings (7 race, 1 bounds) in 8 tests; 10 launches and 1,000 accesses "
        "checked"
    )


def test_the_failure_has_the_report_and_not_the_plugins_frames(checked):
    done = checked("--haulage-check", "-k", "that_fails_and_races or that_races_at")
    assert "assert 1 == 2" in done.stdout
    assert "- Captured haulage check call -" in done.stdout
    # Where `CI` is set, pytest repeats whole messages in its summary.
    report, _, _ = done.stdout.partition("short test summary info")
    assert report.count("race: two threads, one location") == 2


def test_checks_are_chosen_and_findings_of_the_project_are_left_out(checked, tmp_path):
    words = ["-k", "that_races or fixture or clean"]
    done = checked("--haulage-check=bounds,init", *words)
    assert done.returncode == 0, done.stdout
    assert "haulage: kernels are checked: bounds, init\n" in done.stdout
    assert "haulage check: nothing found; 3 launches and 300 accesses checked\n" in done.stdout
    (tmp_path / "pyproject.toml").write_text(
        '[[tool.haulage.check.ignore]]\nfile = "test_it.py"\nline = 3\nreason = "known"\n'
    )
    done = checked("--haulage-check", *words)
    assert done.returncode == 0, done.stdout
    assert "checked: barrier, bounds, init, memory, race, stream\n" in done.stdout
    assert "nothing found, 3 suppressed; 3 launches and 300 accesses checked" in done.stdout


def test_the_projects_own_checks_are_made(checked, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.haulage.check]\nonly = ["bounds"]\n')
    words = ["-k", "that_races"]
    assert "kernels are checked: bounds\n" in checked("--haulage-check", *words).stdout
    assert "kernels are checked: race\n" in checked("--haulage-check=race", *words).stdout


def test_a_setting_of_the_suite_checks_too(checked, tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\nhaulage_check = race\n")
    done = checked("-k", "test_that_races_at")
    assert outcomes(done) == ["FAILED test_it.py::test_that_races_at_the_same_lines"]
    assert "haulage: kernels are checked: race\n" in done.stdout


def test_what_is_found_while_a_file_is_imported_is_its_error(suite, tmp_path):
    (tmp_path / "conftest.py").write_text("")
    program(tmp_path / "test_it.py", "found()\n\ndef test_it():\n    pass\n")
    done = suite("--haulage-check")
    assert "ERROR test_it.py" in done.stdout
    assert "race: two threads" in done.stdout
    assert done.returncode == 2


def test_without_the_option_the_marker_does_nothing(suite, tmp_path):
    (tmp_path / "conftest.py").write_text("")
    (tmp_path / "test_it.py").write_text(
        "import pytest, sys\n"
        "@pytest.mark.haulage_check(expect='race')\n"
        "def test_it():\n"
        "    assert 'haulage.checking' not in sys.modules\n"
    )
    done = suite("--strict-markers")
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("words", "environment", "said"),
    [
        (["--haulage-check=rcae"], {}, "--haulage-check=rcae: there is no check 'rcae'. Did you"),
        (["--haulage-check", "--haulage-device", "nvidia"], {}, "and not on nvidia; give"),
        (["--haulage-check"], {"HAULAGE_DEVICE": "amd"}, "and not on amd; give --haulage-device"),
    ],
)
def test_checks_that_cannot_be_made_are_refused(checked, words, environment, said):
    done = checked(*words, **environment)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert said in done.stderr


def test_a_wrong_pyproject_is_refused(checked, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.haulage.check]\nonyl = []\n")
    done = checked("--haulage-check")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "unknown 'onyl'" in done.stderr
