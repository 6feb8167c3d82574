"""Haulage is imported with an extension of its own sources only, and says what to do otherwise."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import haulage
from haulage._core import freshness

PACKAGE = Path(haulage.__file__).parent
REMEDY = "run `make .venv/.ready` or `pip install -e .` in the checkout of Haulage."


@pytest.fixture
def core(tmp_path):
    """The folder of the extension in a copy of what `import haulage` needs."""
    copy = tmp_path / "haulage"
    copy.mkdir()
    for name in ("__init__.py", "forks.py"):
        shutil.copy(PACKAGE / name, copy)
    for name in ("_core", "integrations"):
        shutil.copytree(PACKAGE / name, copy / name)
    return copy / "_core"


def imported(core):
    """The last line of what `import haulage` says, and the number of tracebacks."""
    # Not by PYTHONPATH, which is behind the folder that the interpreter is started for with -c.
    code = f"import sys; sys.path.insert(0, {str(core.parent.parent)!r}); import haulage"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    return (done.stderr.splitlines() or [""])[-1], done.stderr.count("Traceback")


def test_an_extension_of_the_sources_beside_it_is_imported(core):
    assert imported(core) == ("", 0)


def test_no_source_need_lie_beside_it(core):
    for ending in ("pyx", "pxd", "c", "h"):
        for source in core.glob(f"*.{ending}"):
            source.unlink()
    assert imported(core) == ("", 0)


def test_an_extension_of_other_sources_is_refused(core):
    with open(core / "built.c", "a") as source:
        source.write("/* changed */")
    message, tracebacks = imported(core)
    assert message.startswith("ImportError: The compiled part of Haulage for Python ")
    assert f"in {core} was built of other sources than those that lie there now" in message
    assert message.endswith(REMEDY)
    assert tracebacks == 1


def test_a_source_that_only_looks_newer_is_not_another(core):
    (core / "built.c").touch()
    assert imported(core) == ("", 0)


def test_an_extension_that_is_missing_is_told(core):
    for built in core.glob("built.*.so"):
        built.unlink()
    message, tracebacks = imported(core)
    assert message.startswith("ImportError: The compiled part of Haulage is not there for Python ")
    assert str(core) in message
    assert message.endswith(REMEDY)
    assert tracebacks == 1


@pytest.mark.parametrize("change", ["contents", "another", "name", "fewer"])
def test_the_digest_changes_with(tmp_path, change):
    for name in ("a.c", "b.pyx", "c.txt"):
        (tmp_path / name).write_text(name)
    before = freshness.digest(str(tmp_path))
    (tmp_path / "c.txt").write_text("another text")
    assert freshness.digest(str(tmp_path)) == before
    if change == "contents":
        (tmp_path / "b.pyx").write_text("changed")
    elif change == "another":
        (tmp_path / "d.h").touch()
    elif change == "name":
        (tmp_path / "a.c").rename(tmp_path / "e.c")
    else:
        (tmp_path / "a.c").unlink()
    assert freshness.digest(str(tmp_path)) not in (before, None)


def test_no_sources_have_no_digest(tmp_path):
    assert freshness.digest(str(tmp_path)) is None


def test_a_free_threaded_python_is_refused(monkeypatch):
    assert freshness.refusal_of_this_python() is None
    monkeypatch.setattr(sys, "abiflags", "t")
    assert "relies on the global interpreter lock" in freshness.refusal_of_this_python()
