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
