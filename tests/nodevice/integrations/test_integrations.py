"""What is registered with other libraries, and when: with modules that stand for Dask's."""

import subprocess
import sys
import textwrap

import pytest

DISPATCH = """
class Dispatch:
    def __init__(self):
        self.lazy = {}

    def register_lazy(self, name, function):
        self.lazy[name] = function
"""
FILES = {
    "dask/__init__.py": "",
    "dask/sizeof.py": f"{DISPATCH}\nsizeof = Dispatch()\n",
    "dask/tokenize.py": f"{DISPATCH}\nnormalize_token = Dispatch()\n",
}


@pytest.fixture
def run(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    def run(code):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    return run


def test_a_module_that_is_imported_later_is_told_of_our_arrays(run):
    run(
        """
        import haulage, sys
        assert not [name for name in sys.modules if name.split(".")[0] == "dask"]
        import dask.sizeof
        assert list(dask.sizeof.sizeof.lazy) == ["haulage"]
        assert "dask.tokenize" not in sys.modules
        # It is found by its own loader, as if nobody had been told.
        loader = dask.sizeof.__spec__.loader
        assert loader is dask.sizeof.__loader__ and type(loader).__name__ == "SourceFileLoader"
        """
    )


def test_a_module_that_is_there_already_is_told_at_once(run):
    run(
        """
        import dask.sizeof
        import haulage
        assert list(dask.sizeof.sizeof.lazy) == ["haulage"]
        """
    )


def test_one_that_is_half_imported_is_told_once_it_is_whole(run, tmp_path):
    (tmp_path / "dask" / "sizeof.py").write_text(f"import haulage\n{FILES['dask/sizeof.py']}")
    run(
        """
        import dask.sizeof, sys
        import haulage
        import xml.dom  # whatever is imported next
        assert list(dask.sizeof.sizeof.lazy) == ["haulage"]
        """
    )


def test_a_failed_import_fails_as_ever_and_the_next_one_works(run, tmp_path):
    (tmp_path / "dask" / "sizeof.py").write_text("1 / 0\n")
    run(
        f"""
        import haulage, pathlib, importlib, sys
        try:
            import dask.sizeof
        except ZeroDivisionError:
            pass
        else:
            raise AssertionError("no error")
        sys.dont_write_bytecode = True
        pathlib.Path("dask/sizeof.py").write_text({FILES["dask/sizeof.py"]!r})
        importlib.invalidate_caches()
        import dask.sizeof
        assert list(dask.sizeof.sizeof.lazy) == ["haulage"]
        """
    )


def test_importing_haulage_imports_nothing_for_it(run):
    run(
        """
        import sys
        import haulage
        found = [name for name in sys.modules if name.startswith("haulage.integrations")]
        assert found == ["haulage.integrations"], found
        """
    )


def test_without_dask_it_is_told_how_to_get_it(run):
    run(
        """
        import sys
        sys.modules["dask.array"] = None
        try:
            from haulage import dask
        except ImportError as error:
            assert "pip install '.[dask]'" in str(error), error
        else:
            raise AssertionError("no error")
        """
    )
